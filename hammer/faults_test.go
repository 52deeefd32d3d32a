package hammer

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
)

func engine(t *testing.T, c simulate.Config) string { return simulatetest.Start(t, c).URL }

// short is a configuration for a run of a few requests.
func short(url, backend string) Config {
	c := DefaultConfig()
	c.URL, c.Backend, c.Model = url, backend, "sim"
	c.Scenario = nil
	c.Load = Load{Mode: ModeClosed, Concurrency: 4, Requests: 40, Grace: assay.Duration(10 * time.Second)}
	c.Data.InputTokens, c.Data.OutputTokens = 8, 8
	return c
}

// Every fault of the simulator gives the class that it must, and no other.
func TestEveryFaultHasItsClass(t *testing.T) {
	quick := simulate.Config{TTFT: 2 * time.Millisecond, ITL: time.Millisecond, Seed: 3}
	for _, c := range []struct {
		name   string
		faults simulate.Faults
		want   assay.Failure
	}{
		{"status 400", simulate.Faults{Status: map[int]float64{400: 0.4}}, assay.FailHTTP4xx},
		{"status 429", simulate.Faults{Status: map[int]float64{429: 0.4}}, assay.FailHTTP429},
		{"status 500", simulate.Faults{Status: map[int]float64{500: 0.4}}, assay.FailHTTP5xx},
		{"status 503", simulate.Faults{Status: map[int]float64{503: 0.4}}, assay.FailHTTP5xx},
		{"reset", simulate.Faults{Reset: 0.4}, assay.FailReset},
		{"truncate", simulate.Faults{Truncate: 0.4}, assay.FailTruncated},
		{"cut", simulate.Faults{Cut: 0.4}, assay.FailReset},
		{"malformed", simulate.Faults{Malformed: 0.4}, assay.FailStreamError},
		{"empty", simulate.Faults{Empty: 0.4}, assay.FailEmpty},
		{"stream error", simulate.Faults{StreamError: 0.4}, assay.FailStreamError},
		{"hang", simulate.Faults{Hang: 0.4}, assay.FailTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, backend := range []string{"openai-chat", "openai", "ollama", "ollama-chat"} {
				cfg := quick
				cfg.Faults = c.faults
				run := short(engine(t, cfg), backend)
				if c.faults.Hang > 0 {
					run.Timeouts.FirstToken = assay.Duration(300 * time.Millisecond)
				}
				// A fault may hit the calibrating requests; a refusal as wrong
				// ends the run there, so those come after it.
				sum, err := Run(t.Context(), run, filepath.Join(t.TempDir(), "run"), Options{})
				if err != nil {
					t.Errorf("%s: %v", backend, err)
					continue
				}
				st := sum.Stages[0]
				if st.Errors[c.want] == 0 {
					t.Errorf("%s: no %s among %v", backend, c.want, st.Errors)
				}
				for class, n := range st.Errors {
					if class != c.want && n > 0 {
						t.Errorf("%s: %d of class %s", backend, n, class)
					}
				}
				if st.OK+st.Failed != st.Requests || st.Requests != 40 {
					t.Errorf("%s: %d succeeded and %d failed of %d", backend, st.OK, st.Failed, st.Requests)
				}
			}
		})
	}
}

// Faults that fail no request are found all the same.
func TestFaultsThatFailNothing(t *testing.T) {
	quick := simulate.Config{TTFT: 2 * time.Millisecond, ITL: time.Millisecond}
	run := func(t *testing.T, c simulate.Config, change func(*Config)) assay.Summary {
		t.Helper()
		cfg := short(engine(t, c), "openai-chat")
		if change != nil {
			change(&cfg)
		}
		sum, err := Run(t.Context(), cfg, filepath.Join(t.TempDir(), "run"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	warned := func(s assay.Summary, kind string) bool {
		for _, w := range s.Warnings {
			if w.Kind == kind {
				return true
			}
		}
		return false
	}
	t.Run("wrong usage", func(t *testing.T) {
		c := quick
		c.Faults.Usage = 1.5
		// Its counts in each chunk agree with its final one, so only what was
		// asked for contradicts them.
		if s := run(t, c, nil); !warned(s, "output_length") {
			t.Errorf("usage is 1.5 times the truth, and nobody says so: %+v", s.Warnings)
		}
		if s := run(t, quick, nil); warned(s, "token_count_disagrees") {
			t.Errorf("true counts are doubted: %+v", s.Warnings)
		}
	})
	t.Run("slow start", func(t *testing.T) {
		c := quick
		c.Faults.SlowStart = 1200 * time.Millisecond
		cfg := short(engine(t, c), "")
		cfg.Model = ""
		if err := Resolve(t.Context(), &cfg); err == nil {
			t.Skip("the simulator lists its models while it starts, so there is nothing to wait for")
		}
		cfg.ReadyCheck = assay.Duration(10 * time.Second)
		if err := Resolve(t.Context(), &cfg); err != nil {
			t.Errorf("waited for a slow start, and: %v", err)
		}
	})
	t.Run("stall", func(t *testing.T) {
		c := quick
		c.Faults.StallAt, c.Faults.StallFor = 300*time.Millisecond, 500*time.Millisecond
		s := run(t, c, func(c *Config) { c.Load.Requests = 400 })
		if max := s.Stages[0].E2E.Max; max < 400 {
			t.Errorf("a stall of 500 ms, and the longest request took %.0f ms", max)
		}
	})
	t.Run("drift", func(t *testing.T) {
		c := quick
		c.ITL = 5 * time.Millisecond
		c.Faults.Drift = 60 // doubles in a second
		s := run(t, c, func(c *Config) { c.Load.Requests = 60; c.Load.Concurrency = 2 })
		if it := s.Stages[0].ITL; !(it.Max >= 1.5*it.Min && it.Max > 0) {
			t.Errorf("gaps drift, and lie between %.1f and %.1f ms", it.Min, it.Max)
		}
	})
}

// An engine that dies in the middle ends the run as partial, soon, and says so.
func TestEngineDies(t *testing.T) {
	e := simulatetest.Start(t, simulate.Config{TTFT: 2 * time.Millisecond, ITL: time.Millisecond})
	time.AfterFunc(time.Second, e.Stop)
	c := short(e.URL, "openai-chat")
	c.Load.Requests, c.Load.Duration = 0, assay.Duration(time.Minute)
	start := time.Now()
	sum, err := Run(t.Context(), c, filepath.Join(t.TempDir(), "run"), Options{})
	if err == nil || sum.Status != assay.StatusPartial {
		t.Fatalf("status %s, error %v", sum.Status, err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("noticed after %s", took)
	}
	if !slices.ContainsFunc(sum.Warnings, func(w assay.Warning) bool { return w.Kind == string(assay.EventEngineDown) }) {
		t.Errorf("the record does not say that the engine died: %v", sum.Warnings)
	}
	if sum.Stages[0].Errors[assay.FailRefused] == 0 || sum.Stages[0].OK == 0 {
		t.Errorf("%d succeeded before, errors %v", sum.Stages[0].OK, sum.Stages[0].Errors)
	}
}
