package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/stat"
)

// Run measures a suite's probes and judges its claims. What a probe cannot do is
// in the result, not in the error: the error is for what kept the suite itself
// from running, such as a results directory that cannot be written, and comes
// before anything is measured. When ctx ends, the rest is unknown.
func Run(ctx context.Context, s Suite, o Options) (*Result, error) {
	o = o.filled()
	if o.Dir != "" {
		if err := makeResultsDir(o.Dir); err != nil {
			return nil, err
		}
	}
	r := &Result{
		Format: ResultFormat, Name: s.Name, File: s.File, Version: o.Version,
		Started: time.Now().UTC(), Stress: o.Stress, Claims: []ClaimResult{}, Probes: []ProbeResult{}, Advice: []Advice{}, Notes: []string{},
	}
	if o.Machine != nil {
		r.Machine = o.Machine.Name()
	}
	past, err := readHistory(o.History)
	if err != nil {
		r.Notes = append(r.Notes, "no comparison with earlier runs: "+err.Error())
	}
	if o.Dir != "" && o.Machine != nil {
		if err := writeFiles(o.Dir, o.Machine.Files()); err != nil {
			return nil, err
		}
	}
	if o.Env.Dir == "" {
		scratch, err := os.MkdirTemp("", "assay-claims")
		if err != nil {
			return nil, fmt.Errorf("make a directory for the probes to write to: %w", err)
		}
		defer os.RemoveAll(scratch)
		o.Env.Dir = scratch
	}
	r.Prerequisites = o.check(s.Requires)
	for _, p := range r.Missing() {
		o.Log.Info("missing: " + p)
	}
	stop := o.beside(ctx, r)
	quick := o
	quick.Duration, quick.Samples, quick.Iterations, quick.Warmup = 200*time.Millisecond, 0, 0, 10*time.Millisecond
	r.Empty, _ = quick.probe(ctx, EmptyProbe(), nil)
	o.Log.Info("empty probe, subtracted nowhere: " + r.Empty.line())
	m := &measuring{o: o, suite: s, past: past, r: r}
	if o.Stress {
		r.Notes = append(r.Notes, "families were measured side by side: the figures are those of a loaded machine; they are not compared with earlier runs and not remembered")
		m.together(ctx)
	} else {
		m.inTurn(ctx)
	}
	r.order(s)
	r.Ended = time.Now().UTC()
	stop()
	r.Interrupted = ctx.Err() != nil
	r.judge()
	if o.Machine != nil {
		r.Advice = append(r.Advice, o.Machine.Advice(r)...)
	}
	if o.History != "" && !o.Stress {
		past.add(r)
		if err := past.save(o.History); err != nil {
			r.Notes = append(r.Notes, "this run is not remembered: "+err.Error())
		}
	}
	if o.Dir != "" {
		if err := r.write(o.Dir); err != nil {
			return r, err
		}
	}
	return r, nil
}

// probe measures one probe and judges its claims.
func (o Options) probe(ctx context.Context, p Probe, claims []Claim) (ProbeResult, []ClaimResult) {
	m := &sampled{err: ctx.Err()}
	if m.err == nil {
		m = o.measure(ctx, p, claims)
	}
	pr := ProbeResult{
		Name: p.Name, Help: p.Help, Needs: p.Needs, Unit: p.Unit, Better: p.Better.String(),
		Status: Measured, Samples: len(m.samples.values), Operations: m.operations, Batch: m.samples.largestBatch(),
		Warmup: m.warmup, Seconds: m.took.Seconds(), Stopped: m.stopped,
	}
	if m.err != nil {
		pr.Why = foreign.Line(m.err.Error(), 1000)
		switch {
		case errors.Is(m.err, ErrWrong):
			pr.Status = Wrong
		case errors.Is(m.err, ErrUnavailable):
			pr.Status, pr.Why = Unavailable, strings.TrimPrefix(pr.Why, ErrUnavailable.Error()+": ")
		case ctx.Err() != nil:
			pr.Status, pr.Why = Interrupted, "the run was interrupted"
		default:
			pr.Status = Broken
		}
	}
	e := estimator{sequence: o.UntilDecided && len(claims) > 0 && m.samples.reduced == nil}
	pr.describe(p, e, m)
	judged := make([]ClaimResult, 0, len(claims))
	for _, c := range claims {
		judged = append(judged, e.claim(c, pr, m))
	}
	return pr, judged
}

// claim judges a claim by what its probe gave.
func (e estimator) claim(c Claim, pr ProbeResult, m *sampled) ClaimResult {
	cr := ClaimResult{Claim: c, Unit: c.figure.unit}
	if c.Goal != nil {
		cr.GoalVerdict = new(assay.Verdict)
	}
	cr.Measured = e.of(c.figure, &m.samples)
	switch pr.Status {
	case Measured:
	case Wrong:
		cr.Verdict, cr.Why = assay.Fail, pr.Why
		cr.Measured = assay.UnknownQuantity(pr.Why)
		return cr
	default:
		// What was measured until an error is not what would have been measured
		// without it: slow samples are the likelier to have met it.
		cr.Why = pr.Why
		if pr.Samples > 0 {
			cr.Why = fmt.Sprintf("ended after %d samples: %s", pr.Samples, pr.Why)
		}
		cr.Measured = assay.UnknownQuantity(cr.Why)
		return cr
	}
	j := e.judge(c, c.Target, cr.Measured, &m.samples)
	cr.Verdict, cr.Why, cr.More = j.verdict, j.why, j.more
	if c.Goal != nil {
		g := e.judge(c, *c.Goal, cr.Measured, &m.samples)
		*cr.GoalVerdict, cr.GoalWhy = g.verdict, g.why
	}
	return cr
}

// maxValues is how many samples a file holds of one probe.
const maxValues = 10_000

// describe fills in the figures that are reported of every probe.
func (pr *ProbeResult) describe(p Probe, e estimator, m *sampled) {
	s := &m.samples
	n := len(s.values)
	if n == 0 || pr.Status == Wrong {
		return
	}
	pr.Sequence = e.sequence
	quantity := func(metric string) *assay.Quantity {
		f, err := metricOf(metric, p)
		if err != nil {
			return nil
		}
		q := e.of(f, s)
		return &q
	}
	pr.Mean, pr.Throughput = quantity("mean"), quantity("throughput")
	pr.P50, pr.P90, pr.P95, pr.P99 = quantity("p50"), quantity("p90"), quantity("p95"), quantity("p99")
	pr.Stride = (n + maxValues - 1) / maxValues
	if s.wrong > 0 {
		pr.Stride = 0
		return
	}
	for i := 0; i < n; i += pr.Stride {
		pr.Values = append(pr.Values, s.values[i])
	}
	for name, x := range m.extra {
		if x.N() > 0 {
			if pr.Extra == nil {
				pr.Extra = map[string]Extra{}
			}
			pr.Extra[name] = Extra{x.N(), x.Mean(), x.Min(), x.Max()}
		}
	}
	if s.reduced != nil {
		low, high := s.reduced.Range()
		pr.Min, pr.Max = known(low), known(high)
		return
	}
	sorted := s.rank()
	pr.Min, pr.Max = known(sorted[0]), known(sorted[n-1])
	var mo stat.Moments
	for _, v := range s.values {
		mo.Add(v)
	}
	pr.Stddev = known(mo.Stddev())
	pr.Tau = autocorrelation(s.values)
	fences := stat.TukeyFences(sorted)
	pr.Outliers = &Outliers{}
	for _, v := range sorted {
		switch fences.Mark(v) {
		case stat.MildOutlier:
			pr.Outliers.Mild++
		case stat.ExtremeOutlier:
			pr.Outliers.Extreme++
		}
	}
}

// order puts claims and probes back into the suite's order.
func (r *Result) order(s Suite) {
	at := map[string]int{}
	for i, c := range s.Claims {
		at["claim "+c.Name] = i
	}
	for i, p := range s.Probes {
		at["probe "+p.Name] = i
	}
	slices.SortStableFunc(r.Claims, func(a, b ClaimResult) int { return at["claim "+a.Name] - at["claim "+b.Name] })
	slices.SortStableFunc(r.Probes, func(a, b ProbeResult) int { return at["probe "+a.Name] - at["probe "+b.Name] })
}

// judge gives the whole its verdict.
func (r *Result) judge() {
	var failed, unknown []string
	for _, c := range r.Claims {
		switch c.Verdict {
		case assay.Pass:
		case assay.Fail:
			failed = append(failed, c.Name)
		default:
			unknown = append(unknown, c.Name)
		}
	}
	for _, p := range r.WrongWithoutClaim() {
		failed = append(failed, p.Name+" (its result was wrong)")
	}
	kept := len(r.Claims) - len(unknown)
	switch {
	case len(failed) > 0:
		r.Verdict, r.Because = assay.Fail, "broken: "+strings.Join(failed, ", ")
		if len(unknown) > 0 {
			r.Because += fmt.Sprintf("; unknown: %s", strings.Join(unknown, ", "))
		}
	case len(unknown) > 0 || len(r.Claims) == 0:
		r.Verdict, r.Because = assay.Unknown, fmt.Sprintf("%d of %d claims are kept; unknown: %s", kept, len(r.Claims), strings.Join(unknown, ", "))
	case kept == 1:
		r.Verdict, r.Because = assay.Pass, "the claim is kept"
	default:
		r.Verdict, r.Because = assay.Pass, fmt.Sprintf("all %d claims are kept", kept)
	}
	var lacks []string
	for _, p := range r.Prerequisites {
		if p.Verdict != assay.Pass {
			lacks = append(lacks, p.What)
		}
	}
	if len(lacks) > 0 {
		r.Because += "; the promises are for another machine, prerequisites are missing: " + strings.Join(lacks, ", ")
	}
	r.Because = foreign.Line(r.Because, 2000)
}

// FormatInterval writes an estimate as [low estimate high].
func FormatInterval(q assay.Quantity, unit string) string {
	switch {
	case !q.Known():
		return "–"
	case q.Lo != q.Lo || q.Hi != q.Hi:
		return FormatValue(q.Est, unit) + " (no interval)"
	}
	// As many digits as tell the ends apart.
	for n := 3; ; n++ {
		lo, hi := formatValue(q.Lo, unit, n), formatValue(q.Hi, unit, n)
		if lo != hi || n == 6 || q.Lo == q.Hi {
			return "[" + lo + " " + formatValue(q.Est, unit, n) + " " + hi + "]"
		}
	}
}

// line is the probe in a line.
func (pr ProbeResult) line() string {
	if pr.Status != Measured {
		return string(pr.Status) + ": " + pr.Why
	}
	q, of := pr.P50, "p50"
	if q == nil || !q.Known() {
		q, of = pr.Mean, "mean"
	}
	if q == nil || !q.Known() {
		why := "no figure"
		if pr.Mean != nil {
			why = pr.Mean.Why
		}
		return fmt.Sprintf("%d samples, %s", pr.Samples, why)
	}
	text := fmt.Sprintf("%s %s, %d samples", of, FormatInterval(*q, pr.Unit), pr.Samples)
	if out := pr.Outliers; out != nil && out.Mild+out.Extreme > 0 {
		text += fmt.Sprintf(", %d outliers", out.Mild+out.Extreme)
	}
	if pr.Change != nil && pr.Change.Word != "" {
		text += ", " + pr.Change.Word
	}
	return text
}
