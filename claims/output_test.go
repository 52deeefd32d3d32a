package claims

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
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
		f, err := os.Open(filepath.Join(o.Dir, "results.json"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		v, err := jsonschema.UnmarshalJSON(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("until decided %v: %v", until, err)
		}
	}
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := mixed(t, fixture(t)).JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	// Unknown is an error: nothing that was not shown may look green.
	if got.Tests != 7 || got.Failures != 2 || got.Errors != 4 {
		t.Errorf("%d tests, %d failures, %d errors\n%s", got.Tests, got.Failures, got.Errors, b.String())
	}
	for _, s := range got.Suites {
		for _, c := range s.Cases {
			if c.Name == "c0" && (c.Failure != nil || c.Error != nil || c.Line != 2 || c.File != "claims.yaml") {
				t.Errorf("%+v", c)
			}
		}
	}
}

func TestGitHubAnnotations(t *testing.T) {
	var b bytes.Buffer
	if err := mixed(t, fixture(t)).GitHub(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	errors, warnings := 0, 0
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "::error "):
			errors++
		case strings.HasPrefix(l, "::warning file=claims.yaml,line="):
			warnings++
		default:
			t.Errorf("a line that is no annotation of ours: %q", l)
		}
		if strings.ContainsAny(l, "\x1b\r") {
			t.Errorf("control characters in %q", l)
		}
	}
	if errors != 2 || warnings != 4 {
		t.Errorf("%d errors, %d warnings", errors, warnings)
	}
}

func TestTextIsPlain(t *testing.T) {
	var b bytes.Buffer
	r := mixed(t, fixture(t))
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"fail", "unknown", "promise the mean", "empty/nothing", "To apply: sudo cpupower"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a terminal would obey this")
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
