package compare

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay/report"
)

// ofRuns makes two engines of an experiment into directories of runs.
func ofRuns(rounds int, speed float64) Experiment {
	e := made(rounds, 1, speed)
	e.Config, e.ConfigSHA256 = nil, ""
	for i := range e.Samples {
		s := &e.Samples[i]
		s.Dir = "runs/" + s.Engine
		if rounds > 1 {
			s.Dir = s.Engine + " dir/1"
		}
	}
	return e
}

func brief(t *testing.T, e Experiment) string {
	t.Helper()
	var b strings.Builder
	if err := (report.Look{}).Text(&b, Brief(e, Analyze(e))); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Two runs decide nothing: the page says so, by how much they differ, and what to type
// to know; it says nothing of tests that were not made.
func TestBriefOfTwoRuns(t *testing.T) {
	got := brief(t, ofRuns(1, 0.77))
	for _, want := range []string{
		"Not decided", "metric a b delta 95 % interval verdict", "output_tokens_per_second", " %", "not decided: at least",
		"more runs of each, in turn, like this:", "for n in $(seq", "; do assay hammer -q --again runs/a --out a-runs/more-$n assay hammer -q --again runs/b --out b-runs/more-$n done",
		"assay compare a-runs b-runs",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	for _, noise := range []string{"adjusted", "Holm", "signed-rank", "tests together", "Not answered", "NaN", "effect"} {
		if strings.Contains(got, noise) {
			t.Errorf("it has %q:\n%s", noise, got)
		}
	}
}

func TestBriefOfManyRuns(t *testing.T) {
	got := brief(t, ofRuns(14, 0.77))
	for _, want := range []string{"b is faster", "faster", "… ", "tests together, at level 0.05"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "not decided") {
		t.Errorf("it is decided:\n%s", got)
	}
	// New runs of a directory of runs go beside the others.
	few := brief(t, ofRuns(3, 1.01))
	for _, want := range []string{"--again 'a dir/1' --out 'a dir'/more-$n", "assay compare 'a dir' 'b dir'"} {
		if !strings.Contains(few, want) {
			t.Errorf("it lacks %q:\n%s", want, few)
		}
	}
}

// An experiment of a file is repeated by its file.
func TestBriefOfAnExperiment(t *testing.T) {
	e := made(3, 1, 1.01)
	e.Config, e.ConfigSHA256 = []byte(`{}`), "x"
	if got := brief(t, e); !strings.Contains(got, "more rounds; set experiment.rounds to") {
		t.Errorf("%s", got)
	}
}

// An engine has one colour on the whole page, also where another has no figures.
func TestEnginesKeepTheirColour(t *testing.T) {
	e := full()
	for _, p := range Plots(e, Analyze(e)) {
		if p.Chart.Kind == report.ChartBars && p.Chart.X.Label == "engine" {
			if !p.Chart.ByCategory {
				t.Errorf("%s: bars are not coloured by engine", p.Name)
			}
			continue
		}
		for _, l := range p.Chart.Lines {
			for i, x := range e.Engines {
				if l.Name == x.Name && l.Colour != i+1 {
					t.Errorf("%s: %s has colour %d, want %d", p.Name, l.Name, l.Colour, i+1)
				}
			}
		}
	}
}

// The page begins with a box that says who is faster, and names the machine.
func TestPageHasAVerdictAndAnEnvironment(t *testing.T) {
	e := made(14, 1, 0.77)
	e.Node.CPU, e.Node.Cores = "Example CPU", 8
	p := Page(e, Analyze(e), true)
	if v, ok := p.Blocks[0].(report.Verdict); !ok || v.Word != "b is faster" {
		t.Errorf("%+v", p.Blocks[0])
	}
	var b strings.Builder
	if err := report.HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<section class="verdict v-pass"`, "b is faster</span>", "Environment", "Example CPU", `class="v v-pass" data-label="verdict">faster`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
