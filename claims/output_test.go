package claims

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
)

// mixed is a run with a claim of each kind, and text that wants to be obeyed.
func mixed(t *testing.T, o Options) *Result {
	t.Helper()
	hostile := "a\x1b[31m<b>&\"' %0A::error::x\n::error::y\u202e"
	probes := []Probe{
		fake("consensus/good", around(1e-3)), fake("spawn/bad", around(2e-3)),
		refused("gpu/absent", fmt.Errorf("%w: %s", ErrUnavailable, hostile)),
		fake("kernel/batches", func(n int) (Measurement, error) {
			m, _ := around(1e-6)(n)
			m.Batch, m.Extra = 100, map[string]float64{"before": 1, "odd": math.NaN()}
			return m, nil
		}),
		{Name: "synthesis/wrong", Unit: "1/s", Better: assay.Higher, Start: func(context.Context, Env) (Runner, error) { return nil, fmt.Errorf("%w: element 7", ErrWrong) }},
	}
	return runFile(t, o, claimLines(
		"probe: consensus/good, metric: p95, target: <= 10ms, goal: <= 1us", "probe: spawn/bad, metric: p50, target: <= 1ms",
		"probe: gpu/absent, metric: mean, target: <= 1s", "probe: kernel/batches, metric: p95, target: <= 1s", "probe: consensus/good, metric: max, target: <= 1s",
		"probe: consensus/good, metric: mean, target: <= 1ms")+
		"measure: [synthesis/wrong]\n", probes...)
}

func TestResultsKeepTheSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../docs/formats/schema/claims-result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, until := range []bool{false, true} {
		o := fixture(t)
		o.UntilDecided = until
		o.Dir, o.History = filepath.Join(t.TempDir(), "r"), filepath.Join(t.TempDir(), "h.json")
		mixed(t, o)
		o.Dir = filepath.Join(t.TempDir(), "again")
		mixed(t, o)
		if err := schema.Validate(resultsIn(t, o.Dir)); err != nil {
			t.Errorf("until decided %v: %v", until, err)
		}
	}
}

func TestFamilyFile(t *testing.T) {
	for family, want := range map[string]string{"consensus": "consensus.json", "spawn": "container_spawn.json", "kernel": "kernel_overhead.json",
		"results": "results_family.json", "../../etc/passwd": "______etc_passwd.json", "a\x00b": "a_b.json"} {
		if got := FamilyFile(family); got != want {
			t.Errorf("%q: %q, want %q", family, got, want)
		}
	}
}

// resultsIn reads a directory's results.json as a schema sees it.
func resultsIn(t *testing.T, dir string) any {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A run with everything that may be asked for keeps the schema too.
func TestAllThatMayBeAskedKeepsTheSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../docs/formats/schema/claims-result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	o := fixture(t)
	o.Stress, o.Dir, o.Beside = true, filepath.Join(t.TempDir(), "r"), []Beside{profiled{}}
	runFile(t, o, claimLines("probe: f/a, metric: mean, target: <= 1s")+"requires: {cpus: 16}\n", fake("f/a", around(1e-3)))
	v := resultsIn(t, o.Dir)
	if err := schema.Validate(v); err != nil {
		t.Error(err)
	}
	for _, member := range []string{"stress", "prerequisites", "profile"} {
		if _, there := v.(map[string]any)[member]; !there {
			t.Errorf("results.json has no %s", member)
		}
	}
}

type profiled struct{}

func (profiled) Start(context.Context, string) error { return nil }
func (profiled) Stop(r *Result) {
	r.Profile = &Profile{By: "perf", Of: []string{"assay (process 1)"}, Samples: 2, Hertz: 99, Why: "not in the profile: x",
		Hot: []Hot{{Process: "assay", Function: "main.main", Self: 0.5, Total: 1, Path: "main.main"}}}
}
