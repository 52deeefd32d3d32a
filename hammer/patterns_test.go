package hammer

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay"
)

// A sequential scenario sends one request after the other, as many as it says.
func TestPatternSequential(t *testing.T) {
	c := short(engine(t, steady), "openai")
	if err := c.Apply(assay.Scenario{Name: "one by one", Pattern: "sequential", Requests: 12}); err != nil {
		t.Fatal(err)
	}
	c.Load.Grace = assay.Duration(10 * time.Second)
	sum, err := Run(t.Context(), c, filepath.Join(t.TempDir(), "run"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.Stages) != 1 || sum.Stages[0].OK != 12 || sum.Stages[0].Plan.Concurrency != 1 || sum.Stages[0].Plan.Kind != assay.LoadClosed {
		t.Errorf("%+v", sum.Stages)
	}
}

// A saturation scenario is --saturate: the same plan, step by step.
func TestPatternSaturation(t *testing.T) {
	c := DefaultConfig()
	if err := c.Apply(assay.Scenario{Name: "cliff", Pattern: "saturation", Duration: assay.Duration(70 * time.Second), MaxConcurrency: 64}); err != nil {
		t.Fatal(err)
	}
	want := Load{Mode: ModeSaturate, Concurrency: 64, Duration: assay.Duration(10 * time.Second), Grace: c.Load.Grace}
	if d := cmp.Diff(want, c.Load); d != "" {
		t.Errorf("the load of 70 s over 1, 2, 4 … 64 streams (-want +got):\n%s", d)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	plan, err := c.plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, more := plan.Next(nil)
	if !more || !first.Probe || first.Kind != assay.LoadClosed || first.Concurrency != 1 || first.DurationNS != int64(10*time.Second) {
		t.Errorf("the first step is %+v", first)
	}
	if err := c.Apply(assay.Scenario{Name: "cliff", Pattern: "saturation", Duration: assay.Duration(time.Minute)}); err != nil || c.Load.Concurrency != searchStreams {
		t.Errorf("without a limit: %d streams, %v", c.Load.Concurrency, err)
	}
}

func TestPatternsThatSayTooLittle(t *testing.T) {
	minute := assay.Duration(time.Minute)
	for want, s := range map[string]assay.Scenario{
		"needs requests or a duration":                    {Pattern: "sequential"},
		"requests goes with pattern sequential":           {Pattern: "saturation", Requests: 3, Duration: minute},
		"needs a duration":                                {Pattern: "saturation"},
		"max_concurrency must be at least 1":              {Pattern: "saturation", Duration: minute, MaxConcurrency: -1},
		"parallel, sequential, batch, saturation, sustai": {Pattern: "burst", Duration: minute},
	} {
		var c Config
		if err := c.Apply(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", s, err, want)
		}
	}
}
