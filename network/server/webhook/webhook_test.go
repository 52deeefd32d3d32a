package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var (
	at   = time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)
	body = []byte(`{"test": 2432232314}`)
)

// TestSignature: the published example of standardwebhooks.com.
func TestSignature(t *testing.T) {
	s, err := ParseSecret([]byte(" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), body); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %s", got)
	}
	for _, bad := range []string{"", "short", "whsec_!!!", "whsec_c2hvcnQ="} {
		if _, err := ParseSecret([]byte(bad)); err == nil {
			t.Errorf("%q is a secret", bad)
		}
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v", s, s), fmt.Sprintf("%v", struct{ S Secret }{s})} {
		if strings.Contains(text, "49") || !strings.Contains(text, "a secret") {
			t.Errorf("it prints as %s", text)
		}
	}
}

// TestSend: headers, body, and what counts as taken.
func TestSend(t *testing.T) {
	s, _ := ParseSecret(bytes.Repeat([]byte("k"), 32))
	status := 204
	var got *http.Request
	var read bytes.Buffer
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		read.Reset()
		_, _ = read.ReadFrom(r.Body)
		w.WriteHeader(status)
		fmt.Fprint(w, "no\x1b[2J thanks")
	}))
	defer receiver.Close()
	if err := Send(t.Context(), receiver.Client(), receiver.URL, s, "id1", body, at); err != nil {
		t.Fatal(err)
	}
	h := got.Header
	if !bytes.Equal(read.Bytes(), body) || h.Get("webhook-id") != "id1" || h.Get("webhook-timestamp") != strconv.FormatInt(at.Unix(), 10) || h.Get("webhook-signature") != s.Sign("id1", at, body) {
		t.Errorf("%v %s", h, read.Bytes())
	}
	for _, status = range []int{301, 400, 404, 500, 503} {
		if status == 301 {
			receiver.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		}
		err := Send(t.Context(), receiver.Client(), receiver.URL+"/secret-key", s, "id1", body, at)
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) || strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("%d: %v", status, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Send(ctx, receiver.Client(), receiver.URL+"/secret-key", s, "id1", body, at); err == nil || strings.Contains(err.Error(), "secret-key") {
		t.Errorf("%v", err)
	}
}

func TestTargets(t *testing.T) {
	to := Targets{}
	if err := to.ParseTarget("page=https://hooks.example/x?a=b"); err != nil || to["page"] != "https://hooks.example/x?a=b" {
		t.Fatal(to, err)
	}
	for _, bad := range []string{"page=https://again.example", "note=https://x", "ticket", "ticket=ftp://x", "ticket=https://", "ticket=https://me:pw@x.example", "ticket=file:///etc/passwd"} {
		if err := to.ParseTarget(bad); err == nil || strings.Contains(err.Error(), "pw@") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestWait(t *testing.T) {
	last := time.Duration(0)
	for n := range MaxAttempts + 1 {
		low, high := Wait(n, 0), Wait(n, 1)
		if low <= 0 || high != 2*low || high < last || high > longestWait {
			t.Fatalf("after %d tries %s to %s, before %s", n, low, high, last)
		}
		last = high
	}
	if last != longestWait {
		t.Errorf("the longest is %s", last)
	}
}

// TestBody: what is sent keeps the schema, and holds no characters that a
// terminal obeys.
func TestBody(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(filepath.Join("..", "..", "..", "docs", "formats", "schema", "webhook.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	m := Message{ID: "01J00000000000000000000001", Kind: "page", Time: at, Server: "https://assay.example", Node: "n", Key: "quarantine", Text: "an engine's \u202e words"}
	for _, tr := range []*Transition{nil, {ID: "01J00000000000000000000002", Fact: "admission", From: "admitted", To: "quarantined", Reasons: []string{"why"}, Actor: "server:1", PolicyVersion: 1}} {
		m.Transition = tr
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Error(err)
		}
		var back Message
		if err := json.Unmarshal(b, &back); err != nil || back.Text != m.Text || bytes.ContainsRune(b, '\u202e') {
			t.Errorf("%s: %v", b, err)
		}
		doc.(map[string]any)["more"] = 1
		if schema.Validate(doc) == nil {
			t.Error("one member more keeps the schema")
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds {
		if !strings.Contains(string(page), "`"+k+"`") {
			t.Errorf("docs/webhooks.md does not have %s", k)
		}
	}
}
