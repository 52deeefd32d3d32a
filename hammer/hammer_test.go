package hammer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/load"
	"github.com/assay-bench/assay/simulate"
)

var steady = simulate.Config{TTFT: 2 * time.Millisecond, ITL: time.Millisecond}

// Every mode runs to its end and does what it says.
func TestModes(t *testing.T) {
	url := engine(t, steady)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	lines := `{"at_s":0,"input_tokens":5,"output_tokens":3}
{"at_s":0.05,"input_tokens":6,"output_tokens":4,"conversation":"a"}
{"input_tokens":7,"output_tokens":5,"conversation":"a","think_s":0.02}
`
	if err := os.WriteFile(trace, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	second := assay.Duration(time.Second)
	for _, c := range []struct {
		name   string
		load   Load
		stages []string
		check  func(t *testing.T, s assay.Summary)
	}{
		{"closed", Load{Mode: ModeClosed, Concurrency: 3, Requests: 30}, []string{"c3"}, func(t *testing.T, s assay.Summary) {
			if s.Stages[0].OK != 30 {
				t.Errorf("%d succeeded", s.Stages[0].OK)
			}
		}},
		{"open", Load{Mode: ModeOpen, Rate: 50, Burstiness: 1, Requests: 40, Normalise: true}, []string{"r50"}, func(t *testing.T, s assay.Summary) {
			if took := float64(s.Stages[0].SteadyTo-s.Stages[0].Started) / 1e9; !(took >= 0.7) {
				t.Errorf("40 at 50/s took only %.2f s", took)
			}
		}},
		{"all at once", Load{Mode: ModeOpen, Requests: 25}, []string{"all"}, nil},
		{"ramp", Load{Mode: ModeRamp, Ramp: "linear", RateFrom: 10, RateTo: 60, Duration: second, Burstiness: 1}, []string{"ramp10-60"}, nil},
		{"sweep", Load{Mode: ModeSweep, Levels: []int{1, 2}, Rates: []float64{30}, Duration: second / 2}, []string{"c1", "c2", "r30"}, func(t *testing.T, s assay.Summary) {
			if s.Scaling == nil || len(s.Scaling.Points) != 2 {
				t.Errorf("scaling %+v", s.Scaling)
			}
		}},
		{"batch", Load{Mode: ModeBatch, Levels: []int{1, 4}, BatchMode: "parallel", Duration: second / 2}, []string{"b1", "b4"}, nil},
		{"batch request", Load{Mode: ModeBatch, Levels: []int{1, 4}, BatchMode: "request", Duration: second / 2}, []string{"b1", "b4"}, func(t *testing.T, s assay.Summary) {
			// A request with four prompts has four answers of eight tokens.
			if got := s.Stages[1].OutputTokens.Mean; got != 32 {
				t.Errorf("a request of four prompts gave %.1f tokens", got)
			}
		}},
		{"replay", Load{Mode: ModeReplay, Trace: trace}, []string{"replay"}, func(t *testing.T, s assay.Summary) {
			if s.Stages[0].OK != 3 || s.Stages[0].OutputTokens.Mean != 4 {
				t.Errorf("%d succeeded with %.1f tokens each", s.Stages[0].OK, s.Stages[0].OutputTokens.Mean)
			}
		}},
		{"sustain", Load{Mode: ModeSustain, Utilization: 0.5, Hold: second, Duration: second / 4, Concurrency: 4, Burstiness: 1}, nil, func(t *testing.T, s assay.Summary) {
			last := s.Stages[len(s.Stages)-1]
			if last.Plan.Utilization != 0.5 || last.Plan.Rate <= 0 {
				t.Errorf("the last stage is %+v", last.Plan)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := short(url, "openai")
			c.load.Grace = assay.Duration(5 * time.Second)
			cfg.Load = c.load
			sum, err := Run(t.Context(), cfg, filepath.Join(t.TempDir(), "run"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range sum.Stages {
				names = append(names, s.Name)
				if s.Failed > 0 {
					t.Errorf("%s: %v", s.Name, s.Errors)
				}
			}
			if c.stages != nil && strings.Join(names, " ") != strings.Join(c.stages, " ") {
				t.Errorf("stages %v, want %v", names, c.stages)
			}
			if sum.Status != assay.StatusComplete {
				t.Errorf("status %s", sum.Status)
			}
			if c.check != nil {
				c.check(t, sum)
			}
		})
	}
}

// Lengths that were asked for are the lengths that the engine counts.
func TestPromptLengths(t *testing.T) {
	url := engine(t, steady)
	for _, backend := range []string{"openai-chat", "openai", "ollama", "ollama-chat"} {
		c := short(url, backend)
		c.Data.InputTokens, c.Data.OutputTokens = 200, 5
		c.Data.PrefixTokens = 50
		sum, err := Run(t.Context(), c, filepath.Join(t.TempDir(), "run"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if in := sum.Stages[0].InputTokens; in.Min < 247 || in.Max > 253 {
			t.Errorf("%s: asked for 250 tokens, sent %.0f to %.0f", backend, in.Min, in.Max)
		}
	}
}

// Ctrl-C in the middle leaves a partial run, which resume completes.
func TestInterruptedAndResumed(t *testing.T) {
	url := engine(t, simulate.Config{TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond})
	c := short(url, "openai-chat")
	c.Load = Load{Mode: ModeSweep, Levels: []int{2, 4}, Requests: 60, Grace: assay.Duration(5 * time.Second)}
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(700*time.Millisecond, cancel)
	sum, err := Run(ctx, c, dir, Options{})
	if err == nil {
		t.Skip("the machine stood still until the run was over")
	}
	if !errors.Is(err, ErrInterrupted) || sum.Status != assay.StatusPartial {
		t.Fatalf("status %s, error %v", sum.Status, err)
	}
	sum, err = Resume(t.Context(), dir, Secrets{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Status != assay.StatusComplete || len(sum.Stages) != 2 {
		t.Fatalf("status %s with %d stages", sum.Status, len(sum.Stages))
	}
	for _, s := range sum.Stages {
		// Requests that the interrupt broke off are on record as such, and
		// others did what they were meant to do.
		if s.OK != 60 {
			t.Errorf("%s: %d succeeded, %v", s.Name, s.OK, s.Errors)
		}
	}
	if _, err := Resume(t.Context(), dir, Secrets{}, Options{}); !errors.Is(err, journal.ErrComplete) {
		t.Errorf("a complete run was resumed: %v", err)
	}
}

// Secrets are sent and never recorded.
func TestSecretsStayOut(t *testing.T) {
	url := engine(t, simulate.Config{TTFT: time.Millisecond, APIKey: "sk-secret-key"})
	c := short(url, "openai-chat")
	c.APIKey = "sk-secret-key"
	c.Headers = map[string]string{"X-Team": "secret-header"}
	c.HeaderNames = []string{"X-Team"}
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Run(t.Context(), c, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "secret") {
			t.Errorf("%s holds a secret", f.Name())
		}
	}
	c.APIKey = "wrong"
	if _, err := Run(t.Context(), c, filepath.Join(t.TempDir(), "run"), Options{}); !errors.Is(err, ErrNothingMeasured) {
		t.Errorf("a wrong key: %v", err)
	}
}

func TestSeedScenarios(t *testing.T) {
	for _, s := range BuiltinScenarios() {
		c := DefaultConfig()
		if err := c.Apply(s); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	c := DefaultConfig()
	c.SetProfile(BuiltinProfiles()[0])
	if c.Data.InputTokens != 2048-256 || c.Data.OutputTokens != 256 {
		t.Errorf("small_model asks for %d and %d tokens", c.Data.InputTokens, c.Data.OutputTokens)
	}
	if err := c.Apply(BuiltinScenarios()[1]); err != nil {
		t.Fatal(err)
	}
	p, err := c.plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	var done []load.Outcome
	for s, ok := p.Next(done); ok && len(done) < 100; s, ok = p.Next(done) {
		done = append(done, load.Outcome{Stage: s})
	}
	if len(done) != 7 || done[6].Stage.Concurrency != 64 {
		t.Errorf("baseline_capacity has the stages %+v, want 1 … 64", done)
	}
}
