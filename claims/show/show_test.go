package show

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/report"
)

// steady is a probe in virtual time whose values lie within 1 % of one.
func steady(name string, value float64, batch int) claims.Probe {
	return claims.Probe{Name: name, Unit: "s", Better: assay.Lower, Start: func(context.Context, claims.Env) (claims.Runner, error) {
		return &steadyRunner{value: value, batch: batch}, nil
	}}
}

type steadyRunner struct {
	value    float64
	batch, n int
}

func (r *steadyRunner) Sample(context.Context) (claims.Measurement, error) {
	r.n++
	time.Sleep(time.Millisecond)
	m := claims.Measurement{Value: r.value * (1 + 0.01*(float64(uint32(r.n)*2654435761)/(1<<31)-1)), Batch: r.batch}
	if r.batch > 1 {
		m.Extra = map[string]float64{"before": 1, "odd": math.NaN()}
	}
	return m, nil
}

func (r *steadyRunner) Close() error { return nil }

// failing is a probe that cannot be started.
func failing(name string, err error) claims.Probe {
	return claims.Probe{Name: name, Unit: "s", Better: assay.Lower, Start: func(context.Context, claims.Env) (claims.Runner, error) { return nil, err }}
}

// machine is one that has advice to give.
type machine struct{}

func (machine) Name() string             { return "a machine" }
func (machine) Files() map[string]string { return nil }
func (machine) Check(claims.Requirements, string) []claims.Prerequisite {
	return []claims.Prerequisite{{What: "kernel", Wanted: "at least 6.14", Have: "5.1", Verdict: assay.Fail, Do: "install a newer kernel"}}
}
func (machine) Advice(*claims.Result) []claims.Advice {
	return []claims.Advice{{Kind: "tuning", About: "CPU governor", Text: "Slow.", Evidence: []string{"scaling_governor: powersave"}, Command: "sudo cpupower frequency-set -g performance"}}
}

// mixed is a run with a claim of each kind, and text that wants to be obeyed.
func mixed(t *testing.T) *claims.Result {
	t.Helper()
	hostile := "a\x1b[31m<b>&\"' %0A::error::x\n::error::y\u202e"
	const file = `claims:
  - {name: c0, probe: consensus/good, metric: p95, target: <= 10ms, goal: <= 1us}
  - {name: c1, probe: spawn/bad, metric: p50, target: <= 1ms}
  - {name: c2, probe: gpu/absent, metric: mean, target: <= 1s}
  - {name: c3, probe: kernel/batches, metric: p95, target: <= 1s}
  - {name: c4, probe: consensus/good, metric: max, target: <= 1s}
  - {name: c5, probe: consensus/good, metric: mean, target: <= 1ms}
measure: [synthesis/wrong]
`
	suite, err := claims.Read(strings.NewReader(file), "claims.yaml", claims.Catalog{Probes: []claims.Probe{
		steady("consensus/good", 1e-3, 1), steady("spawn/bad", 2e-3, 1), steady("kernel/batches", 1e-6, 100),
		failing("gpu/absent", fmt.Errorf("%w: %s", claims.ErrUnavailable, hostile)),
		failing("synthesis/wrong", fmt.Errorf("%w: element 7", claims.ErrWrong)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var r *claims.Result
	synctest.Test(t, func(t *testing.T) {
		r, err = claims.Run(t.Context(), suite, claims.Options{Env: claims.Env{Dir: t.TempDir()}, MaxSamples: 6000, Machine: machine{}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := JUnit(&b, mixed(t)); err != nil {
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
	if err := GitHub(&b, mixed(t)); err != nil {
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
	if err := (report.Look{}).Text(&b, Page(mixed(t))); err != nil {
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

func TestReportPage(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, mixed(t)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<html", "consensus/good", "promise a percentile", "sudo cpupower"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// What the machine lacks stands before the claims, and where processor time went
// after the probes, with what is not in it.
func TestShowsPrerequisitesAndProfile(t *testing.T) {
	r := mixed(t)
	r.Profile = &claims.Profile{By: "runtime/pprof", Of: []string{"assay (process 7)"}, Samples: 10, Hertz: 100, Why: "not in the profile: perf is not installed",
		Hot: []claims.Hot{{Process: "assay", Function: "example.com/a/b.work[\x1b[31m]", Self: 0.7, Total: 0.9, Path: "main.main → example.com/a/b.work"}}}
	var text, page bytes.Buffer
	if err := errors.Join((report.Look{}).Text(&text, Page(r)), HTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"at least 6.14", "install a newer kernel", "Processor time", "main.main → b.work", "70.0 %", "perf is not installed", "10 samples by runtime/pprof"} {
		for name, got := range map[string]string{"text": text.String(), "HTML": page.String()} {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("the %s lacks %q", name, want)
			}
		}
	}
	if strings.ContainsRune(text.String(), '\x1b') || strings.Index(text.String(), "Prerequisites") > strings.Index(text.String(), "Claims") {
		t.Error(text.String())
	}
}

func TestStressStandsInTheHeadline(t *testing.T) {
	r := claims.Result{Stress: true}
	v, ok := shown{&r}.textPage().Blocks[0].(report.Verdict)
	if !ok || !strings.Contains(v.Note, "loaded machine") {
		t.Errorf("the headline is %+v", v)
	}
	r.Stress = false
	if v := (shown{&r}).textPage().Blocks[0].(report.Verdict); strings.Contains(v.Note, "loaded") {
		t.Errorf("without stress the headline is %+v", v)
	}
}
