package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/provider"
)

// cloud is a provider whose answers are given.
type cloud struct {
	list, offers error
	n            int
}

func (c cloud) Offers(_ context.Context, q provider.Query) ([]provider.Offer, error) {
	if c.offers != nil {
		return nil, c.offers
	}
	return []provider.Offer{{ID: "1", GPU: q.GPU, VRAM: 24 << 30, Price: provider.Price{Hour: assay.Money{Nano: 1e9, Currency: "USD"}}}}, nil
}
func (c cloud) Create(context.Context, provider.Order) (provider.Instance, error) {
	panic("a check rents nothing")
}
func (c cloud) List(context.Context) ([]provider.Instance, error) {
	return make([]provider.Instance, c.n), c.list
}
func (c cloud) Destroy(context.Context, string) error { panic("a check destroys nothing") }

// banked is one with a balance.
type banked struct {
	cloud
	balance error
}

func (b banked) Balance(context.Context) (assay.Money, error) {
	return assay.Money{Nano: 5e9, Currency: "USD"}, b.balance
}

// A bad key is told from an empty list: an account whose list is empty has no
// machines only if its key was proved to be good.
func TestABadKeyIsNoEmptyList(t *testing.T) {
	refused := fmt.Errorf("HTTP 404: %w", provider.ErrKey)
	for name, c := range map[string]struct {
		p       provider.Provider
		verdict assay.Verdict
		key     string
		list    string
		why     string
	}{
		"good":                           {banked{cloud: cloud{n: 2}}, assay.Pass, "good", "2", ""},
		"good and empty":                 {banked{}, assay.Pass, "good", "0", ""},
		"refused, and an empty list":     {banked{balance: refused}, assay.Fail, "refused", "unknown", "prove the key: HTTP 404"},
		"refused by the list":            {banked{cloud: cloud{list: refused}}, assay.Fail, "refused", "unknown", "list: HTTP 404"},
		"away":                           {banked{balance: errors.New("dial: refused")}, assay.Unknown, "unknown", "unknown", "prove the key: dial"},
		"a list that makes no sense":     {banked{cloud: cloud{list: provider.ErrMalformed}}, assay.Unknown, "good", "unknown", "list: "},
		"no offers":                      {banked{cloud: cloud{offers: provider.ErrRate}}, assay.Unknown, "good", "0", "offers: "},
		"nothing to prove a key by":      {cloud{}, assay.Unknown, "unknown", "unknown", "no way to prove a key"},
		"words that a terminal might do": {banked{balance: errors.New("\x1b[2J")}, assay.Unknown, "unknown", "unknown", "\ufffd[2J"},
	} {
		got := checkOne(t.Context(), account{provider: c.p, traits: provider.Traits{Name: "x"}, source: "here"})
		list := "unknown"
		if got.Instances != nil {
			list = fmt.Sprint(*got.Instances)
		}
		if got.Verdict != c.verdict || got.Key != c.key || list != c.list || !strings.Contains(got.Why, c.why) || c.why == "" && got.Why != "" {
			t.Errorf("%s: %+v, machines %s", name, got, list)
		}
	}
}

func TestCredentials(t *testing.T) {
	t.Chdir(t.TempDir())
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	read := func(f credentialFlags) (key, source string, err error) {
		s, err := f.read(get)
		if err != nil {
			return "", "", err
		}
		key, source = s.get(vastKey)
		return key, source, nil
	}
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if key, _, err := read(credentialFlags{}); key != "" || err != nil {
		t.Errorf("nothing anywhere: %q %v", key, err)
	}
	put(dotEnv, "# mine\nexport VAST_API_KEY='from dotenv'\n\nOTHER=1\n", 0o600)
	if key, source, err := read(credentialFlags{}); key != "from dotenv" || source != ".env" || err != nil {
		t.Errorf("%q %q %v", key, source, err)
	}
	env[vastKey] = "from env"
	if key, source, _ := read(credentialFlags{}); key != "from env" || source != "the environment" {
		t.Errorf("%q %q", key, source)
	}
	put("keys", "VAST_API_KEY=from file", 0o600)
	if key, source, _ := read(credentialFlags{file: "keys"}); key != "from file" || source != "keys" {
		t.Errorf("%q %q", key, source)
	}
	put("keys", "TENSORDOCK_API_KEY=x", 0o600)
	if key, _, _ := read(credentialFlags{file: "keys"}); key != "" {
		t.Errorf("a file that was named is alone: %q", key)
	}
	const secret = "s3cr3t"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"open to others": {"VAST_API_KEY=" + secret, 0o640}, "a line that is none": {secret, 0o600},
		"a control character": {"VAST_API_KEY=" + secret + "\x1b[1m", 0o600}, "large": {"A=" + secret + strings.Repeat("x", maxCredentials), 0o600},
	} {
		put("keys", c.text, c.mode)
		if _, _, err := read(credentialFlags{file: "keys"}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No command takes a key as an argument, and what fails never prints one.
func TestKeysAreNoArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(vastKey, "")
	t.Setenv(tensordockKey, "")
	t.Setenv(providersFile, "")
	if code, _, stderr := run(t, "campaign", "check", "--api-key", "x"); code != 1 || !strings.Contains(stderr, "unknown flag") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := run(t, "campaign", "check"); code != 1 || !strings.Contains(stderr, "there are no credentials: set VAST_API_KEY") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := run(t, "campaign", "check", "vast"); code != 1 || !strings.Contains(stderr, "set VAST_API_KEY in a file of mode 0600") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := run(t, "campaign", "check", "wast"); code != 1 || !strings.Contains(stderr, "provider wast is not known: keys are for tensordock, vast") {
		t.Errorf("%d %s", code, stderr)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("VAST_API_KEY=s3cr3t\nVAST_API_URL=http://127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "campaign", "check", "--credentials", file)
	if code != 2 || strings.Contains(stdout+stderr, "s3cr3t") || !strings.Contains(stderr, "could not be checked") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

// Without credentials a plan has no prices, and says what is missing.
func TestPlanWithoutCredentials(t *testing.T) {
	matrix, err := filepath.Abs(example)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv(vastKey, "")
	t.Setenv(tensordockKey, "")
	code, stdout, stderr := run(t, "campaign", "plan", matrix)
	if code != 2 || !strings.Contains(stdout, "there are no credentials for tensordock") || !strings.Contains(stderr, "21 of 21 cells have no price") {
		t.Errorf("%d %s\n%s", code, stdout, stderr)
	}
}

func TestInventory(t *testing.T) {
	i := inventory{"x": account{provider: cloud{}, traits: provider.Traits{Name: "x", MinDiskGB: 200}}}
	got, err := i.Offers(t.Context(), campaign.Want{Provider: "x", GPU: "RTX 3090", Count: 1, DiskGB: 100})
	if err != nil || len(got) != 1 || got[0].Memory != 24<<30 || got[0].Price.Hour.Units() != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := i.Offers(t.Context(), campaign.Want{Provider: "vast"}); err == nil {
		t.Error("a provider without credentials")
	}
}

// Requests of one kind keep their distance, and so do those of all kinds.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := paced(provider.Traits{MinAny: time.Second, MinInterval: map[provider.Call]time.Duration{provider.CallList: 5 * time.Second}})
		start := time.Now()
		for i, c := range []struct {
			call provider.Call
			at   time.Duration
		}{{provider.CallList, 0}, {provider.CallOffers, time.Second}, {provider.CallList, 5 * time.Second}, {provider.CallGet, 6 * time.Second}} {
			if err := wait.Turn(t.Context(), c.call); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != c.at {
				t.Errorf("request %d left after %s, want %s", i, got, c.at)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := wait.Turn(ctx, provider.CallList); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
