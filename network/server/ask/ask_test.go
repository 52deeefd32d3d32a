package ask

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
)

func TestCompleteStraight(t *testing.T) {
	e := simulatetest.Start(t, simulate.Config{Model: "m", TTFT: 20 * time.Millisecond, ITL: time.Millisecond})
	w := Way{Client: http.DefaultClient}
	a, err := w.Complete(t.Context(), Target{Replica: "r", ServingURL: e.URL + "/v1", Model: "m"}, Completion{Prompt: Prompt(rand.New(rand.NewPCG(1, 2))), MaxTokens: 37})
	if err != nil {
		t.Fatal(err)
	}
	ttft, ok := a.TTFT()
	tpot, ok2 := a.TPOT()
	if a.Tokens != 37 || a.Chunks != 37 || !a.Whole || !ok || !ok2 || ttft < 20*time.Millisecond || tpot <= 0 {
		t.Errorf("%+v, TTFT %s, TPOT %s", a, ttft, tpot)
	}
	if _, err := w.Complete(t.Context(), Target{ServingURL: "file:///etc/passwd"}, Completion{}); err == nil {
		t.Error("a serving URL that is none was asked")
	}
}

// What came before the end of our patience counts.
func TestCompleteCutOff(t *testing.T) {
	e := simulatetest.Start(t, simulate.Config{Model: "m", ITL: 5 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	w := Way{Client: http.DefaultClient}
	a, err := w.Complete(ctx, Target{ServingURL: e.URL, Model: "m"}, Completion{Prompt: "x", MaxTokens: 100000})
	if err == nil || a.Whole || a.Chunks == 0 || a.Tokens != a.Chunks {
		t.Errorf("%+v, %v", a, err)
	}
}

// Through a router a request carries its pin, and else what a customer's does.
func TestPinned(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("no\x1b[31mbody\n"))
	}))
	defer s.Close()
	w := Way{Client: s.Client(), Router: s.URL + "/", Secret: []byte("0123456789abcdef"), APIKey: "customer"}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	_, err := w.Complete(t.Context(), Target{Replica: "01A", ServingURL: "http://192.0.2.1:1", Model: "m"}, Completion{Prompt: "x", MaxTokens: 1})
	var se *StatusError
	if !errors.As(err, &se) || se.Status != 503 || strings.ContainsAny(se.Text, "\x1b\n") {
		t.Errorf("%v", err)
	}
	if got.Get(PinHeader) != Pin(w.Secret, "01A") || got.Get("Authorization") != "Bearer customer" {
		t.Errorf("headers %v", got)
	}
	for name, values := range got {
		if name != PinHeader && strings.Contains(strings.ToLower(name+strings.Join(values, "")), "assay") {
			t.Errorf("%s: %v tells who asks", name, values)
		}
	}
	if Pin(w.Secret, "01A") == Pin(w.Secret, "01B") || Pin(w.Secret, "01A") == Pin([]byte("0123456789abcdeF"), "01A") {
		t.Error("pins do not differ")
	}
	for _, bad := range []Way{{}, {Client: s.Client(), Router: "llm:80"}, {Client: s.Client(), Router: s.URL, Secret: []byte("short")}, {Client: s.Client(), Router: "http://a:b@c", Secret: w.Secret}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// A hostile stream ends in an error, and with what came.
func TestHostileStreams(t *testing.T) {
	for name, body := range map[string]string{
		"no json": "data: {\n\n", "cut": `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n", "endless line": "data: " + strings.Repeat("x", maxLine+1),
	} {
		var a Answer
		if err := a.read(strings.NewReader(body)); err == nil || a.Whole {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	var a Answer
	if err := a.read(strings.NewReader(`data: {"usage":{"completion_tokens":99999999999}}` + "\ndata: [DONE]\n")); err == nil && a.Tokens > maxTokens {
		t.Errorf("an absurd count was taken: %+v", a)
	}
}
