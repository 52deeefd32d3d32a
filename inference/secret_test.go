package inference

import (
	"errors"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/foreign"
)

// An engine that echoes what it was sent does not bring secrets into the record.
func TestEchoedSecretsAreMasked(t *testing.T) {
	d, tr := dialects()[0], transports()[0]
	for _, pad := range []int{0, 262, 274} { // whole, and cut at the detail's end
		c := client(t, serve(t, d, tr, func(w *wire) {
			body := `{"error":"` + strings.Repeat("x", pad) + w.req.Header.Get("Authorization") + " " + w.req.Header.Get("X-Secret") + `"}`
			w.head("400 Bad Request", "Content-Type: application/json")
			w.raw(body)
		}), d, tr, func(cfg *Config) {
			cfg.APIKey = "sk-SECRETKEY"
			cfg.Headers = map[string]string{"X-Secret": `HDR"SECRET`}
		})
		r := ask(t, c, &Job{Prompt: "p"})
		for _, leak := range []string{"sk-S", "HDR"} {
			if strings.Contains(r.Detail, leak) {
				t.Errorf("the detail has a secret: %s", r.Detail)
			}
		}
		if !strings.Contains(r.Detail, "[secret]") {
			t.Errorf("nothing was masked: %s", r.Detail)
		}
	}
}

// A name from an engine brings no control characters onto a terminal: neither
// C0 nor C1, nor such as turn the direction of writing.
func TestNamesAreClean(t *testing.T) {
	if got := name("a\x1b[31mb\u009b31mc\u202ed\u2066e\u200ff\x7f"); got != "a\uFFFD[31mb\uFFFD31mc\uFFFDd\uFFFDe\uFFFDf\uFFFD" {
		t.Errorf("%q", got)
	}
}

// An address with a password is refused by whoever would use it, and not repeated.
func TestAddressesWithPasswordsAreRefused(t *testing.T) {
	for _, address := range []string{"http://alice:pa55word@127.0.0.1:1", "http://pa55word@127.0.0.1:1", "http://alice:pa55/word@127.0.0.1:1"} {
		_, discovered := Discover(t.Context(), address, DiscoverOptions{})
		_, made := New(Config{URL: address, Model: "m"})
		for _, err := range []error{CheckURL(address), discovered, made} {
			if !errors.Is(err, ErrSecretURL) || strings.Contains(err.Error(), "pa55") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	if err := CheckURL("http://127.0.0.1:8000/models/a@b"); err != nil {
		t.Error(err)
	}
}

// What an engine says in place of an answer is kept, and steers no terminal.
func TestDetailsAreHarmless(t *testing.T) {
	const evil = "no\x1b]0;owned\x07\x1b[2J \u009b31m\u202eevil\u2028 \xff\x9b1m\r\nfake line"
	d, tr := dialects()[0], transports()[0]
	for name, answer := range map[string]func(*wire){
		"a refusal": func(w *wire) { w.head("400 Bad Request"); w.raw(evil) },
		"an event": func(w *wire) {
			w.stream()
			w.token("a")
			w.event(strings.NewReplacer("\r", "", "\n", "").Replace(evil))
		},
		"a redirect": func(w *wire) { w.head("302 Found", "Location: http://x/\u009b31m\u202eevil") },
	} {
		r := ask(t, client(t, serve(t, d, tr, answer), d, tr, nil), &Job{Prompt: "p"})
		if !foreign.Plain(r.Detail) || !strings.Contains(r.Detail, "evil") {
			t.Errorf("%s: detail %q", name, r.Detail)
		}
	}
}
