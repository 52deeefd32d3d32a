package inference

import (
	"strings"
	"testing"
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
	if got := clip("a\x1b[31mb\u009b31mc\u202ed\u2066e\u200ff\x7f"); got != "a[31mb31mcdef" {
		t.Errorf("%q", got)
	}
}
