package agent

import (
	"net/http"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/server/ask"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
)

// A heart-beat has what the engine counted and how long ago; of an engine that is gone,
// or that does not count, nothing is said.
func TestLookoutReadsTheCounter(t *testing.T) {
	e := simulatetest.Start(t, simulate.Config{Model: "m"})
	w := &lookout{engine: Engine{Name: "default", BaseURL: e.URL}, apiKey: func() (string, error) { return "", nil }, looked: make(chan struct{})}
	if _, _, ok := w.output(); ok {
		t.Error("something was counted before anybody looked")
	}
	w.look(t.Context())
	before, ago, ok := w.output()
	if !ok || before != 0 || ago < 0 || ago > time.Minute {
		t.Errorf("%d, %s ago, %v", before, ago, ok)
	}
	way := ask.Way{Client: http.DefaultClient}
	if _, err := way.Complete(t.Context(), ask.Target{ServingURL: e.URL, Model: "m"}, ask.Completion{Prompt: "x", MaxTokens: 7}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // it is read at most once a second
		w.look(t.Context())
		if after, _, _ := w.output(); after == 7 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the engine has counted %d", after)
		}
	}
	e.Stop()
	w.look(t.Context())
	if tokens, _, ok := w.output(); ok {
		t.Errorf("an engine that is gone has counted %d", tokens)
	}
}
