package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// figuresAgree is how far two computations of one figure may differ, relative:
// processors round differently.
const figuresAgree = 1e-6

// figures makes both predicates again from the evidence and holds them against
// what was signed.
func (v *verification) figures() {
	set := func(verdict assay.Verdict, format string, args ...any) {
		v.Figures = VerifiedFigures{verdict, fmt.Sprintf(format, args...)}
	}
	t, b := v.statements[0], v.statements[1]
	switch {
	case v.o.Recompute == nil:
		set(assay.Unknown, "were not made again from the evidence: nobody asked for it")
		return
	case !v.intact || t == nil || b == nil || len(v.Problems) > 0:
		// What a stranger sent is not worth reading in full.
		set(assay.Unknown, "were not made again from the evidence, because of the problems above")
		return
	}
	run, err := journal.Open(v.d.path)
	if err == nil {
		var again readRun
		if again, err = v.again(run); err == nil {
			v.hold(again, t, b)
			return
		}
	}
	set(assay.Unknown, "could not be made again from the evidence: %v", err)
	v.unknown("the figures could not be made again from the evidence: %v", err)
}

// again reads the run as it would be signed now.
func (v *verification) again(run *journal.Run) (r readRun, err error) {
	sum, health, err := v.o.Recompute(v.d.path)
	if err != nil {
		return r, err
	}
	// A summary that was written and read has fewer digits.
	raw, err := json.Marshal(sum)
	if err != nil {
		return r, err
	}
	r = readRun{manifest: run.Manifest(), status: run.Status(), summary: &assay.Summary{}, health: &health}
	if err := json.Unmarshal(raw, r.summary); err != nil {
		return r, err
	}
	r.checks, err = worstCheck(run)
	return r, err
}

func (v *verification) hold(again readRun, t, b *statement) {
	var signed Benchmark
	var tests TestResultPredicate
	if strict(b.statement.Predicate, &signed) != nil || strict(t.statement.Predicate, &tests) != nil {
		return // said already
	}
	if signed.Health == nil { // the run was signed without it
		again.health = nil
	}
	_, p := again.benchmark(b.stamp)
	_, q := again.testResult(t.stamp)
	diff := differences(signed, p.(Benchmark), tests, q.(TestResultPredicate))
	if len(diff) == 0 {
		v.Figures = VerifiedFigures{assay.Pass, fmt.Sprintf("all %d follow from the evidence", len(signed.Results))}
		return
	}
	text := strings.Join(diff[:min(len(diff), 5)], "; ")
	if more := len(diff) - 5; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	verdict := assay.Fail
	if ours := v.o.Version; ours != "" && ours != signed.Tool.Assay {
		verdict = assay.Unknown
		text += fmt.Sprintf(" (it was measured by Assay %s, and this is %s: verify it with that one)", signed.Tool.Assay, ours)
	}
	v.Figures = VerifiedFigures{verdict, "do not follow from the evidence: " + text}
	v.problem(verdict, "the signed figures do not follow from the evidence: %s", text)
}

// differences lists in words what is not the same.
func differences(a, b Benchmark, s, t TestResultPredicate) (out []string) {
	differ := func(what string, signed, found any) {
		out = append(out, fmt.Sprintf("%s is signed as %v and found as %v", what, signed, found))
	}
	if a.Run.Status != b.Run.Status {
		differ("the run's status", a.Run.Status, b.Run.Status)
	}
	if !a.Run.Created.Equal(b.Run.Created) {
		differ("the run's start", clockTime(a.Run.Created), clockTime(b.Run.Created))
	}
	if a.Engine != b.Engine {
		differ("the engine", a.Engine, b.Engine)
	}
	if !slices.Equal(a.GPUs, b.GPUs) {
		differ("the list of GPUs", a.GPUs, b.GPUs)
	}
	if a.Tool != b.Tool {
		differ("the tool", a.Tool, b.Tool)
	}
	if a.Certificate != b.Certificate {
		differ("the client's certificate", a.Certificate, b.Certificate)
	}
	if len(a.Results) != len(b.Results) || a.LeftOut != b.LeftOut {
		differ("the number of figures", len(a.Results)+a.LeftOut, len(b.Results)+b.LeftOut)
	} else {
		for i, x := range a.Results {
			y := b.Results[i]
			name := strings.TrimSpace(x.Stage + " " + x.Metric + " " + x.Stat)
			if x.Stage != y.Stage || x.Metric != y.Metric || x.Stat != y.Stat || x.Unit != y.Unit || x.N != y.N ||
				!sameFigure(x.Value, y.Value) || !sameFigure(x.Lo, y.Lo) || !sameFigure(x.Hi, y.Hi) {
				differ(name, inWords(x), inWords(y))
			}
		}
	}
	switch {
	case a.Health != nil && b.Health == nil || a.Health == nil && b.Health != nil:
		differ("the health report", a.Health != nil, b.Health != nil)
	case a.Health != nil && (a.Health.Verdict != b.Health.Verdict || !sameFigure(a.Health.Score, b.Health.Score)):
		differ("the node's health", a.Health.Verdict, b.Health.Verdict)
	}
	if s.Result != t.Result || !slices.Equal(s.Passed, t.Passed) || !slices.Equal(s.Warned, t.Warned) || !slices.Equal(s.Failed, t.Failed) {
		differ("the result of the tests", s.Result, t.Result)
	}
	return out
}

func inWords(r Result) string {
	if r.Value == nil {
		return "unknown"
	}
	return fmt.Sprintf("%g of %d", *r.Value, r.N)
}

func sameFigure(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Abs(*a-*b) <= figuresAgree*math.Max(math.Abs(*a), math.Abs(*b))
}
