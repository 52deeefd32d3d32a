package fingerprint

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	ref := reference(t, &model{weights: 1, noise: 1e-3}, 64)
	for _, c := range []struct {
		name    string
		of      *model
		pass    bool
		differs bool
	}{
		{"the same", &model{weights: 1, noise: 1e-3}, true, false},
		{"less noise", &model{weights: 1, noise: 1e-5}, true, false},
		{"other weights", &model{weights: 2, noise: 1e-3}, false, true},
		{"moved a little", &model{weights: 1, noise: 1e-3, moved: 0.03, share: 1}, false, true},
		{"another model for some", &model{weights: 1, noise: 1e-3, moved: 3, share: 0.3}, false, true},
		{"no log-probabilities of prompts", &model{weights: 1, plain: true}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := Check(t.Context(), ref, c.of.start(t), DefaultPrompts, 4)
			if err != nil {
				t.Fatal(err)
			}
			if (f.Verdict == assay.Pass) != c.pass || f.Differs != c.differs || f.Verdict == assay.Fail {
				t.Errorf("%s, differs %t: %s", f.Verdict, f.Differs, f.Text)
			}
			if c.of.share > 0 && c.of.share < 1 && (f.Beyond == 0 || f.Beyond > 24) {
				t.Errorf("%d of 32 prompts are beyond, where three in ten are another model's", f.Beyond)
			}
			if f.Distance.Known() && !(f.Distance.Lo <= f.Distance.Est && f.Distance.Est <= f.Distance.Hi) {
				t.Errorf("the interval is %+v", f.Distance)
			}
		})
	}
}

// Honest runs that were not recorded are called different as often as promised, and
// no more, over many references.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	const references, checks, prompts = 300, 10, 16
	rng := rand.New(rand.NewPCG(48, 1))
	base := New("made-up", Prompts([32]byte{1}, prompts), time.Now())
	for i := range base.Prompts {
		base.Prompts[i].Tokens = strings.Fields(base.Prompts[i].Text)[:8]
	}
	// run is an honest one. Runs differ in how noisy they are as a whole, by half.
	run := func() (r Run, answers []Answer) {
		size := 1e-3 * math.Exp(0.5*rng.NormFloat64())
		for i, p := range base.Prompts {
			values := make([]float32, len(p.Tokens))
			for t := range values {
				e := rng.NormFloat64()
				if rng.IntN(50) == 0 {
					e *= 10
				}
				values[t] = float32(-3 + size*e)
			}
			r.LogProbs = append(r.LogProbs, values)
			answers = append(answers, Answer{Prompt: i, Tokens: p.Tokens, LogProbs: values})
		}
		return r, answers
	}
	alarms := 0
	for range references {
		ref := *base
		ref.Sources = []Source{{Name: "honest"}}
		for range 8 {
			r, _ := run()
			ref.Sources[0].Runs = append(ref.Sources[0].Runs, r)
		}
		for range checks {
			if _, answers := run(); Judge(&ref, answers).Verdict != assay.Pass {
				alarms++
			}
		}
	}
	t.Logf("%d of %d honest runs are called different, where %.0f are promised", alarms, references*checks, Alarm*references*checks)
	if alarms > 10 { // of 3; more than that comes once in a thousand seeds, and this seed is fixed
		t.Errorf("%d of %d honest runs are called different", alarms, references*checks)
	}
}

// A second deployment of the model counts once it is recorded, and the first keeps
// its own limit.
func TestSources(t *testing.T) {
	t.Parallel()
	ref := reference(t, &model{weights: 1, noise: 1e-4}, 32)
	other := &model{weights: 1, noise: 1e-2}
	e := other.start(t)
	if f, err := Check(t.Context(), ref, e, 32, 2); err != nil || f.Verdict == assay.Pass {
		t.Fatalf("%v, a deployment that was not recorded: %+v", err, f)
	}
	if err := ref.Record(t.Context(), e, "noisy", MinRuns, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	if f, err := Check(t.Context(), ref, e, 32, 2); err != nil || f.Verdict != assay.Pass || f.Source != "noisy" {
		t.Errorf("%v, the second deployment: %+v", err, f)
	}
	if f, err := Check(t.Context(), ref, (&model{weights: 1, noise: 1e-4}).start(t), 32, 2); err != nil || f.Verdict != assay.Pass || f.Source != "honest" {
		t.Errorf("%v, the first deployment: %+v", err, f)
	}
	if err := ref.Record(t.Context(), e, "noisy", MinRuns, time.Now(), func(int) {}); err == nil {
		t.Error("one name stands for two deployments")
	}
}

// A reference with so much noise that anything would pass passes nothing.
func TestCoarseReference(t *testing.T) {
	t.Parallel()
	m := &model{weights: 1, noise: 1}
	f, err := Check(t.Context(), reference(t, m, 16), m.start(t), 16, 2)
	if err != nil || f.Verdict != assay.Unknown || f.Differs {
		t.Errorf("%v, %+v", err, f)
	}
}

func TestOtherTokens(t *testing.T) {
	t.Parallel()
	ref := reference(t, &model{weights: 1, noise: 1e-3}, 16)
	for i := range ref.Prompts {
		ref.Prompts[i].Tokens = slices.Clone(ref.Prompts[i].Tokens)
		ref.Prompts[i].Tokens[0] += "x"
	}
	f, err := Check(t.Context(), ref, (&model{weights: 1, noise: 1e-3}).start(t), 16, 2)
	if err != nil || f.Verdict != assay.Unknown || !f.Differs {
		t.Errorf("%v, %+v", err, f)
	}
}

// What engines that misbehave answer is unknown or an error, never a pass.
func TestHostileEngine(t *testing.T) {
	t.Parallel()
	ref := reference(t, &model{weights: 1, noise: 1e-3}, 16)
	for _, body := range []string{
		``, `{}`, `[]`, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[{"logprobs":null}],"usage":{"prompt_tokens":9}}`,
		`{"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,1]}}],"usage":{"prompt_tokens":2}}`,
		`{"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,-1e300]}}],"usage":{"prompt_tokens":2}}`,
		`{"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null]}}],"usage":{"prompt_tokens":2}}`,
		`{"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,-1]}}],"usage":{"prompt_tokens":-2}}`,
		`{"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,-1]}}],"usage":{"prompt_tokens":2000000000}}`,
		`{"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,-1]}}],"usage":{"prompt_tokens":2}}`,
		strings.Repeat("[", 1<<20), strings.Repeat(" ", maxAnswer+1),
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		f, err := Check(t.Context(), ref, &Engine{Client: s.Client(), URL: s.URL, Model: "made-up"}, 16, 2)
		s.Close()
		if err != nil || f.Verdict != assay.Unknown || f.Text == "" {
			t.Errorf("%.80q: %v, %+v", body, err, f)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }))
	defer s.Close()
	if f, err := Check(t.Context(), ref, &Engine{Client: s.Client(), URL: s.URL}, 16, 2); err == nil {
		t.Errorf("an engine that is busy: %+v", f)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	ref := reference(t, &model{weights: 1, noise: 1e-3}, 16)
	var whole bytes.Buffer
	if err := json.NewEncoder(&whole).Encode(ref); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(&whole); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Reference){
		"format":      func(r *Reference) { r.Format = "assay/model-reference/v2" },
		"model":       func(r *Reference) { r.Model = "a\nb" },
		"prompts":     func(r *Reference) { r.Prompts = r.Prompts[:3] },
		"no source":   func(r *Reference) { r.Sources = nil },
		"tokens":      func(r *Reference) { r.Prompts[3].Tokens = nil },
		"runs":        func(r *Reference) { r.Sources[0].Runs = r.Sources[0].Runs[:MinRuns-1] },
		"short run":   func(r *Reference) { r.Sources[0].Runs[1].LogProbs = r.Sources[0].Runs[1].LogProbs[:5] },
		"short":       func(r *Reference) { r.Sources[0].Runs[1].LogProbs[2] = nil },
		"probability": func(r *Reference) { r.Sources[0].Runs[1].LogProbs[2][0] = 1 },
		"name":        func(r *Reference) { r.Sources[0].Name = "" },
	} {
		b, err := json.Marshal(ref)
		if err != nil {
			t.Fatal(err)
		}
		var bad Reference
		if err := json.Unmarshal(b, &bad); err != nil {
			t.Fatal(err)
		}
		spoil(&bad)
		if b, err = json.Marshal(bad); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(b)); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// Prompts are the same for one seed, others for another, and all different.
func TestPrompts(t *testing.T) {
	t.Parallel()
	a, again, other := Prompts([32]byte{1}, 500), Prompts([32]byte{1}, 500), Prompts([32]byte{2}, 500)
	if !slices.Equal(a, again) {
		t.Error("one seed makes two lists")
	}
	for _, p := range other {
		if slices.Contains(a, p) {
			t.Errorf("two seeds make %q", p)
		}
	}
	words := math.MaxInt
	for _, p := range a {
		words = min(words, len(strings.Fields(p)))
	}
	if words < 8 {
		t.Errorf("a prompt has %d words", words)
	}
}
