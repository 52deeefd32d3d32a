package decide

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trust/fingerprint"
)

// speaker is an engine whose log-probabilities depend on the prompt, a little noise
// and which model it has.
type speaker struct {
	model atomic.Int64 // another number: another model; negative: none are given
	asked atomic.Int64
	down  atomic.Bool
}

func (s *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt string `json:"prompt"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || r.URL.Path != "/v1/completions" || s.down.Load() {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	n, model := s.asked.Add(1), s.model.Load()
	tokens := strings.SplitAfter(q.Prompt, " ")
	probs := make([]*float64, len(tokens))
	for i, t := range tokens {
		h := fnv.New32a()
		fmt.Fprint(h, t, i, model)
		v := -float64(h.Sum32()%1000)/100 - 1e-5*float64(n%7+1)
		if i > 0 {
			probs[i] = &v
		}
	}
	if model < 0 {
		tokens, probs = nil, nil
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"logprobs": map[string]any{"tokens": tokens, "token_logprobs": probs}}}, "usage": map[string]any{"prompt_tokens": len(tokens)},
	})
}

// TestModels: a replica with the model of the reference stays unmentioned; one with
// another, or that gives nothing to compare, is told once with its figures, and is not
// taken out for it. One that cannot be asked is left to others, and one that nobody
// is sent to is not asked.
func TestModels(t *testing.T) {
	var engine speaker
	s := httptest.NewServer(&engine)
	defer s.Close()
	ref := fingerprint.New("made-up", fingerprint.Prompts([32]byte{1}, 40), time.Now())
	if err := ref.Record(t.Context(), &fingerprint.Engine{Client: s.Client(), URL: s.URL, Model: "made-up"}, "here", fingerprint.MinRuns, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	n := newNetwork(t, func(o *Options) {
		o.Models = Models{References: []*fingerprint.Reference{ref}, Client: s.Client(), Every: time.Hour}
	})
	m := n.enrol()
	m.servesAt(s.URL+"/v1", "default")
	turn := n.d.models()
	look := func() (asked int64) {
		t.Helper()
		before := engine.asked.Load()
		for more := true; more; {
			var err error
			if more, err = turn(t.Context(), store.Lease{}); err != nil {
				t.Fatal(err)
			}
		}
		return engine.asked.Load() - before
	}
	if look() != 0 {
		t.Error("one that is not in rotation was asked")
	}
	m.measured(measurement{slow: 1, replica: "default"})
	m.approve()
	m.measured(measurement{slow: 1, replica: "default"})
	if !m.routed("default") {
		t.Fatalf("%+v", m.replica("default").Facts)
	}
	if look() != fingerprint.DefaultPrompts || look() != 0 {
		t.Error("a replica is asked for its prompts, and again only after a while")
	}
	if list := n.anomalies(); len(list) != 0 {
		t.Fatalf("the model is the same: %s", list[0].Body)
	}
	n.has(`assay_server_model_checks_total{outcome="same"} 1`, `assay_server_model_checks_total{outcome="differs"} 0`)

	engine.model.Store(1)
	for range 3 {
		n.clock.pass(2 * time.Hour)
		look()
	}
	list := n.anomalies()
	if len(list) != 1 || list[0].Kind != anomalyModelDiffers || !strings.Contains(string(list[0].Body), "nats a token") || list[0].Node != m.id {
		t.Fatalf("another model, seen three times: %+v", list)
	}
	if !m.routed("default") {
		t.Error("a difference alone took a replica out")
	}
	engine.model.Store(-1)
	n.clock.pass(2 * time.Hour)
	look()
	if list := n.anomalies(); len(list) != 2 || list[0].Kind != anomalyModelUnproven {
		t.Fatalf("an engine that gives nothing: %+v", list)
	}
	engine.down.Store(true)
	n.clock.pass(2 * time.Hour)
	look()
	var verdicts []string
	findings, err := n.store.Findings(t.Context(), everybody, m.id, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		verdicts = append(verdicts, f.Check+" "+f.Verdict)
	}
	if want := []string{"model unknown", "model unknown", "model unknown", "model unknown", "model pass"}; !slices.Equal(verdicts, want) || !(findings[1].Figures["distance"] > findings[1].Figures["limit"]) {
		t.Errorf("findings, the newest first: %q", verdicts)
	}
	n.has(`assay_server_model_checks_total{outcome="same"} 1`, `assay_server_model_checks_total{outcome="differs"} 3`, `assay_server_model_checks_total{outcome="unproven"} 1`, `assay_server_model_checks_total{outcome="unreachable"} 1`)
}

// TestModelOfAnotherPath: customers are sent to an address, so a serving URL with a path
// under which the true model answers is no way past the comparison.
func TestModelOfAnotherPath(t *testing.T) {
	var honest, other speaker
	other.model.Store(1)
	mux := http.NewServeMux()
	mux.Handle("/true/", http.StripPrefix("/true", &honest))
	mux.Handle("/", &other)
	s := httptest.NewServer(mux)
	defer s.Close()
	ref := fingerprint.New("made-up", fingerprint.Prompts([32]byte{1}, 40), time.Now())
	if err := ref.Record(t.Context(), &fingerprint.Engine{Client: s.Client(), URL: s.URL + "/true", Model: "made-up"}, "here", fingerprint.MinRuns, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	n := newNetwork(t, func(o *Options) {
		o.Models = Models{References: []*fingerprint.Reference{ref}, Client: s.Client(), Every: time.Hour}
	})
	m := n.enrol()
	m.servesAt(s.URL+"/true", "default")
	m.measured(measurement{slow: 1, replica: "default"})
	m.approve()
	m.measured(measurement{slow: 1, replica: "default"})
	if _, err := n.d.models()(t.Context(), store.Lease{}); err != nil {
		t.Fatal(err)
	}
	if list := n.anomalies(); len(list) != 1 || list[0].Kind != anomalyModelDiffers {
		t.Errorf("what customers get is another model: %+v", list)
	}
}
