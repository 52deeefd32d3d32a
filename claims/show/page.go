package show

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/report"
)

// maxCharts bounds the report: a chart for each probe with a claim.
const maxCharts = 12

// wholePage is the whole report.
func (r shown) wholePage() report.Page {
	p := r.page(r.probesTable())
	p.Blocks = append(p.Blocks, report.Heading{Text: "Samples"})
	n := len(p.Blocks)
	for _, pr := range r.Probes {
		if c, ok := r.chart(pr); ok && len(p.Blocks)-n < maxCharts {
			p.Blocks = append(p.Blocks, c)
		}
	}
	if len(p.Blocks) == n {
		p.Blocks = append(p.Blocks, report.Paragraph{Text: "No probe gave samples."})
	}
	p.Blocks = append(p.Blocks, r.adviceBlocks()...)
	return p
}

// textPage is the report without its pictures, which a terminal has no room for.
func (r shown) textPage() report.Page {
	p := r.page(r.narrowTable())
	advice := report.List{Head: "advice"}
	for _, a := range r.Advice {
		text := fmt.Sprintf("%s: %s (%s)", a.About, a.Text, strings.Join(a.Evidence, "; "))
		if a.Command != "" {
			text += " To apply: " + a.Command
		}
		advice.Items = append(advice.Items, text)
	}
	if len(advice.Items) > 0 {
		p.Blocks = append(p.Blocks, advice)
	}
	if len(r.Notes) > 0 {
		p.Blocks = append(p.Blocks, report.List{Head: "note", Items: r.Notes})
	}
	return p
}

func (r shown) page(probes report.Table) report.Page {
	p := report.Page{Title: r.Name}
	p.Blocks = append(p.Blocks, report.Verdict{
		Of: r.Machine, Verdict: r.Verdict, Why: r.Because, Score: assay.UnknownQuantity(""),
		Note: fmt.Sprintf("measured %s, in %.0f s%s", r.Started.Format("2006-01-02 15:04:05 UTC"), r.Ended.Sub(r.Started).Seconds(), r.besideWords()),
	})
	if t, ok := r.prerequisitesTable(); ok {
		p.Blocks = append(p.Blocks, t)
	}
	p.Blocks = append(p.Blocks, report.Heading{Text: "Claims"}, r.claimsTable())
	if t, ok := r.goalsTable(); ok {
		p.Blocks = append(p.Blocks, t)
	}
	if c, ok := r.margins(); ok {
		p.Blocks = append(p.Blocks, c)
	}
	p.Blocks = append(p.Blocks, report.Heading{Text: "Probes"}, probes)
	if t, ok := r.missingTable(); ok {
		p.Blocks = append(p.Blocks, t)
	}
	if t, ok := r.changesTable(); ok {
		p.Blocks = append(p.Blocks, t)
	}
	p.Blocks = append(p.Blocks, r.profileBlocks()...)
	return p
}

func (r shown) claimsTable() report.Table {
	t := report.Table{Columns: []report.Column{{Name: "claim"}, {Name: "verdict", Words: true}, {Name: "promised"}, {Name: "[low estimate high]"}, {Name: "of", Words: true}, {Name: "why", Words: true}},
		Note: "A claim passes when its whole 95 % interval keeps the promise and fails when the whole interval breaks it; in between it is unknown."}
	for _, c := range r.Claims {
		t.Rows = append(t.Rows, []string{c.Name, c.Verdict.String(), c.Target.String(), claims.FormatInterval(c.Measured, c.Unit), c.Metric + " of " + c.Probe, c.Why})
	}
	return t
}

func (r shown) goalsTable() (report.Table, bool) {
	t := report.Table{Title: "Goals", Columns: []report.Column{{Name: "claim"}, {Name: "goal"}, {Name: "[low estimate high]"}, {Name: "reached", Words: true}},
		Note: "Goals are where somebody wants to be. They decide nothing."}
	for _, c := range r.Claims {
		if c.Goal == nil {
			continue
		}
		reached := "not decided"
		switch {
		case !c.Measured.Known():
			reached = "not measured"
		case c.GoalVerdict != nil && *c.GoalVerdict == assay.Pass:
			reached = "yes"
		case c.GoalVerdict != nil && *c.GoalVerdict == assay.Fail:
			reached = "no"
		}
		t.Rows = append(t.Rows, []string{c.Name, c.Goal.String(), claims.FormatInterval(c.Measured, c.Unit), reached})
	}
	return t, len(t.Rows) > 0
}

// margins draws the claims on one scale: measured over promised.
func (r shown) margins() (report.Chart, bool) {
	c := report.Chart{Title: "Measured against promised", Kind: report.ChartBars, X: report.Axis{Label: "claim"}, Y: report.Axis{Label: "share of the promise", Unit: "%", Zero: true}, Rule: 100,
		Note: "The line at 100 % is the promise itself: below it is good for <=, above it for >=. Claims without a measurement are not drawn."}
	line := report.Line{}
	for _, x := range r.Claims {
		if !x.Measured.Known() || !(x.Target.Value > 0) {
			continue
		}
		scale := 100 / x.Target.Value
		c.Categories = append(c.Categories, x.Name+" ("+x.Target.Op+")")
		line.Y = append(line.Y, x.Measured.Est*scale)
		line.Lo = append(line.Lo, x.Measured.Lo*scale)
		line.Hi = append(line.Hi, x.Measured.Hi*scale)
		line.Tones = append(line.Tones, toneOf(x.Verdict))
	}
	if len(line.Y) == 0 {
		return c, false
	}
	if least := slices.Min(line.Y); least > 0 && slices.Max(line.Y) > 50*least {
		c.Y.Log, c.Y.Zero = true, false
	}
	c.Lines = []report.Line{line}
	return c, true
}

// toneOf is what a verdict looks like.
func toneOf(v assay.Verdict) report.Tone {
	switch v {
	case assay.Pass:
		return report.ToneGood
	case assay.Fail:
		return report.ToneBad
	}
	return report.ToneWarn
}

func (r shown) probesTable() report.Table {
	t := report.Table{Columns: []report.Column{{Name: "probe"}, {Name: "samples"}, {Name: "mean"}, {Name: "p50"}, {Name: "p95"}, {Name: "p99"}, {Name: "outliers"}},
		Note: "Intervals are [low estimate high] at 95 %. Outliers are marked by Tukey's fences and are in every figure. The empty probe is what measuring itself takes; it is subtracted nowhere. A dash: not available, for the reason in results.json."}
	for _, p := range append([]claims.ProbeResult{r.Empty}, r.Probes...) {
		if p.Samples == 0 || p.Status == claims.Wrong {
			continue
		}
		show := func(q *assay.Quantity) string {
			if q == nil {
				return "–"
			}
			if q.Known() && math.IsNaN(q.Lo) {
				return "too few"
			}
			return claims.FormatInterval(*q, p.Unit)
		}
		n := fmt.Sprint(p.Samples)
		if p.Batch > 1 {
			n += fmt.Sprintf(" × %d", p.Batch)
		}
		outliers := "–"
		if p.Outliers != nil {
			outliers = fmt.Sprint(p.Outliers.Mild + p.Outliers.Extreme)
		}
		t.Rows = append(t.Rows, []string{p.Name, n, show(p.Mean), show(p.P50), show(p.P95), show(p.P99), outliers})
	}
	return t
}

// narrowTable is the probes' table for a terminal: one interval, and the tail as
// points where they have one.
func (r shown) narrowTable() report.Table {
	t := report.Table{Columns: []report.Column{{Name: "probe"}, {Name: "samples"}, {Name: "of", Words: true}, {Name: "[low estimate high]"}, {Name: "p95"}, {Name: "p99"}, {Name: "outliers"}, {Name: "since the last run", Words: true}},
		Note: "Outliers are marked by Tukey's fences and are in every figure. The empty probe is what measuring itself takes; it is subtracted nowhere."}
	point := func(q *assay.Quantity, unit string) string {
		switch {
		case q == nil || !q.Known():
			return "–"
		case math.IsNaN(q.Lo):
			return "too few"
		}
		return claims.FormatValue(q.Est, unit)
	}
	for _, p := range append([]claims.ProbeResult{r.Empty}, r.Probes...) {
		if p.Samples == 0 || p.Status == claims.Wrong || p.Mean == nil {
			continue
		}
		of, q := "p50", p.P50
		if q == nil || !q.Known() {
			of, q = "mean", p.Mean
		}
		outliers, change := "–", "–"
		if p.Outliers != nil {
			outliers = fmt.Sprint(p.Outliers.Mild + p.Outliers.Extreme)
		}
		if p.Change != nil && p.Change.Word != "" {
			change = p.Change.Word
		}
		t.Rows = append(t.Rows, []string{p.Name, fmt.Sprint(p.Samples), of, claims.FormatInterval(*q, p.Unit), point(p.P95, p.Unit), point(p.P99, p.Unit), outliers, change})
	}
	return t
}

func (r shown) missingTable() (report.Table, bool) {
	t := report.Table{Title: "Not measured as planned", Columns: []report.Column{{Name: "probe"}, {Name: "how it ended", Words: true}, {Name: "why", Words: true}}}
	for _, p := range r.Probes {
		if p.Status != claims.Measured {
			t.Rows = append(t.Rows, []string{p.Name, string(p.Status), p.Why})
		}
	}
	return t, len(t.Rows) > 0
}

func (r shown) changesTable() (report.Table, bool) {
	t := report.Table{Title: "Since the last run on this machine", Columns: []report.Column{{Name: "probe"}, {Name: "change", Words: true}, {Name: "ratio"}, {Name: "since", Words: true}, {Name: "why", Words: true}},
		Note: "The ratio's interval is at 99 %. A change decides no claim."}
	for _, p := range r.Probes {
		if c := p.Change; c != nil {
			word := c.Word
			if word == "" {
				word = "not compared"
			}
			t.Rows = append(t.Rows, []string{p.Name, word, claims.FormatInterval(c.Ratio, ""), c.Since.Format("2006-01-02 15:04"), c.Why})
		}
	}
	return t, len(t.Rows) > 0
}

// chart draws a probe's samples in their order, with what was promised of them.
func (r shown) chart(p claims.ProbeResult) (report.Chart, bool) {
	scale, unit := axis(p)
	c := report.Chart{Title: p.Name, Kind: report.ChartLine, X: report.Axis{Label: "sample"}, Y: report.Axis{Label: "value", Unit: unit}, Note: p.Help}
	var xs, ys []float64
	for i, v := range p.Values {
		xs, ys = append(xs, float64(i*max(1, p.Stride))), append(ys, v*scale)
	}
	if p.P50 != nil && p.P50.Known() && p.Min != nil && p.Max != nil {
		c.Y.Log = *p.Min > 0 && *p.Max > 20*p.P50.Est
	}
	c.Lines = append(c.Lines, report.Line{Name: "samples", X: xs, Y: ys, Dots: true})
	claimed := false
	for _, x := range r.Claims {
		if x.Probe != p.Name {
			continue
		}
		claimed = true
		// A promise far off would press the samples into a line.
		v := x.Target.Value * scale
		if x.Unit == p.Unit && len(xs) > 1 && p.Max != nil && v < 20*scale*(*p.Max) {
			c.Lines = append(c.Lines, report.Line{Name: "promised " + x.Metric + " " + x.Target.String(), X: []float64{xs[0], xs[len(xs)-1]}, Y: []float64{v, v}, Dashed: true})
		}
	}
	return c, claimed && len(ys) > 1 && p.Status == claims.Measured
}

// axis is by what a probe's values are multiplied to be drawn, and their unit
// then.
func axis(p claims.ProbeResult) (float64, string) {
	if p.P50 != nil && p.P50.Known() && p.P50.Est > 0 {
		of, name := claims.Scale(p.P50.Est, p.Unit)
		return 1 / of, name
	}
	return 1, p.Unit
}

func (r shown) adviceBlocks() []report.Block {
	out := []report.Block{report.Heading{Text: "Advice"}}
	t := report.Table{Columns: []report.Column{{Name: "about"}, {Name: "kind", Words: true}, {Name: "advice", Words: true}, {Name: "evidence", Words: true}, {Name: "command", Words: true}},
		Note: "Nothing of this was applied."}
	for _, a := range r.Advice {
		t.Rows = append(t.Rows, []string{a.About, a.Kind, a.Text, strings.Join(a.Evidence, "; "), a.Command})
	}
	if len(t.Rows) == 0 {
		out = append(out, report.Paragraph{Text: "No reading gives cause for any."})
	} else {
		out = append(out, t)
	}
	if len(r.Notes) > 0 {
		out = append(out, report.List{Head: "note", Items: r.Notes})
	}
	return out
}
