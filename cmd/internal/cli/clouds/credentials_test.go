package clouds

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
)

func TestCredentials(t *testing.T) {
	t.Chdir(t.TempDir())
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	read := func(f Credentials) (key, source string, err error) {
		s, err := f.read(get)
		if err != nil {
			return "", "", err
		}
		key, source = s.get(VastKey)
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
	if key, _, err := read(Credentials{}); key != "" || err != nil {
		t.Errorf("nothing anywhere: %q %v", key, err)
	}
	put(dotEnv, "# mine\nexport VAST_API_KEY='from dotenv'\n\nOTHER=1\n", 0o600)
	if key, source, err := read(Credentials{}); key != "from dotenv" || source != ".env" || err != nil {
		t.Errorf("%q %q %v", key, source, err)
	}
	env[VastKey] = "from env"
	if key, source, _ := read(Credentials{}); key != "from env" || source != "the environment" {
		t.Errorf("%q %q", key, source)
	}
	put("keys", "VAST_API_KEY=from file", 0o600)
	if key, source, _ := read(Credentials{File: "keys"}); key != "from file" || source != "keys" {
		t.Errorf("%q %q", key, source)
	}
	put("keys", "TENSORDOCK_API_KEY=x", 0o600)
	if key, _, _ := read(Credentials{File: "keys"}); key != "" {
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
		if _, _, err := read(Credentials{File: "keys"}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
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
