package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
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
		got := checkOne(t.Context(), clouds.Account{Cloud: rent.Cloud{Provider: c.p, Traits: provider.Traits{Name: "x"}}, Source: "here"})
		list := "unknown"
		if got.Instances != nil {
			list = fmt.Sprint(*got.Instances)
		}
		if got.Verdict != c.verdict || got.Key != c.key || list != c.list || !strings.Contains(got.Why, c.why) || c.why == "" && got.Why != "" {
			t.Errorf("%s: %+v, machines %s", name, got, list)
		}
	}
}

// No command takes a key as an argument, and what fails never prints one.
func TestKeysAreNoArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(clouds.VastKey, "")
	t.Setenv(clouds.TensorDockKey, "")
	t.Setenv(clouds.ProvidersFile, "")
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
	t.Setenv(clouds.VastKey, "")
	t.Setenv(clouds.TensorDockKey, "")
	code, stdout, stderr := run(t, "campaign", "plan", matrix)
	if code != 2 || !strings.Contains(stdout, clouds.TensorDockKey) || !strings.Contains(stderr, "21 of 21 cells have no price") {
		t.Errorf("%d %s\n%s", code, stdout, stderr)
	}
}

func TestInventory(t *testing.T) {
	i := inventory{"x": clouds.Account{Cloud: rent.Cloud{Provider: cloud{}, Traits: provider.Traits{Name: "x", MinDiskGB: 200}}}}
	got, err := i.Offers(t.Context(), campaign.Want{Provider: "x", GPU: "RTX 3090", Count: 1, DiskGB: 100})
	if err != nil || len(got) != 1 || got[0].Memory != 24<<30 || got[0].Price.Hour.Units() != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := i.Offers(t.Context(), campaign.Want{Provider: "vast"}); err == nil {
		t.Error("a provider without credentials")
	}
}
