package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/report"
)

// Page is the analysis for people: the answer first, then every comparison,
// then what it rests on. With charts it is report.html, without it is
// comparison_table.md.
func Page(e Experiment, a Analysis, charts bool) report.Page {
	p := report.Page{Title: titleOf(e, a)}
	add := func(b ...report.Block) { p.Blocks = append(p.Blocks, b...) }
	add(verdictOf(a))
	add(report.Paragraph{Head: "Recommendation:", Text: a.Overall.Recommendation + "."})
	if a.Status != assay.StatusComplete && a.Status != "" {
		add(report.Paragraph{Head: "Status:", Text: fmt.Sprintf("%s. The experiment did not come to its end; the figures are of the runs that there are.", a.Status)})
	}
	add(matrixTable(e, a))
	if charts {
		for _, plot := range Plots(e, a) {
			if len(plot.Chart.Lines) > 0 {
				add(plot.Chart)
			}
		}
	}
	for _, w := range e.Workloads {
		add(report.Heading{Text: w})
		if t := comparisonTable(a, w); len(t.Rows) > 0 {
			add(t)
		}
		if doubts := doubts(a, w); len(doubts) > 0 {
			add(report.List{Head: "Doubts", Items: doubts})
		}
		if charts {
			add(rounds(e, a, w)...)
		}
		if t := countersTable(e, w); len(t.Rows) > 0 {
			add(t)
		}
		if t := figureTable(e, a, w); len(t.Rows) > 0 {
			add(t)
		}
	}
	add(ending(a)...)
	add(environment(e)...)
	add(reproduction(e)...)
	return p
}

func titleOf(e Experiment, a Analysis) string {
	if a.Name == "" {
		return "Comparison of " + strings.Join(engineNames(e), ", ")
	}
	return a.Name
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	if word, _, _ := strings.Cut(s, " "); strings.Contains(word, "_") { // a metric is written as it is looked for
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// figuresTitle begins the title of the tables of each engine's figures.
const figuresTitle = "Engines on "

func matrixTable(e Experiment, a Analysis) report.Table {
	t := report.Table{Title: "At a glance", Columns: []report.Column{{Name: "engine"}, {Name: "latency, ms"}, {Name: "throughput, tokens/s"}, {Name: "speedup"}, {Name: "verdict by latency", Words: true}}}
	for _, r := range a.Overall.Matrix {
		verdict := r.Verdict
		if r.Failed != "" {
			verdict = "failed: " + clipName(r.Failed)
		}
		t.Rows = append(t.Rows, []string{r.Engine, pointer(r.Latency), pointer(r.Throughput), interval(r.Speedup), verdict})
	}
	if a.Overall.LatencyOf != "" {
		t.Note = fmt.Sprintf("Latency is of %s, throughput of %s: means over runs. Speedup is against %s, by latency, with its %s interval.", a.Overall.LatencyOf, a.Overall.ThroughputOf, engineNames(e)[0], confidence(a.Family.Confidence))
	}
	return t
}

func pointer(v *float64) string {
	if v == nil {
		return "–"
	}
	return number(*v)
}

func interval(q assay.Quantity) string {
	switch {
	case !q.Known():
		return "–"
	case math.IsNaN(q.Lo) || math.IsNaN(q.Hi) || q.Lo == q.Hi:
		return strconv.FormatFloat(q.Est, 'f', 2, 64)
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", q.Est, q.Lo, q.Hi)
}

func comparisonTable(a Analysis, workload string) report.Table {
	t := report.Table{Title: "Comparisons on " + workload, Columns: []report.Column{
		{Name: "metric"}, {Name: "engine", Words: true}, {Name: "against", Words: true}, {Name: "change"}, {Name: "verdict", Words: true},
		{Name: "adjusted p"}, {Name: "p"}, {Name: "effect", Words: true}, {Name: "runs"}}}
	out := map[string]bool{} // engines that failed as a whole are listed below
	for _, f := range a.Failures {
		if f.Workload == "" {
			out[f.Engine] = true
		}
	}
	for _, c := range a.Comparisons {
		if c.N == 0 && c.Workload == workload && (out[c.Engine] || out[c.Against]) {
			continue
		}
		if c.Workload != workload {
			continue
		}
		runs := strconv.Itoa(c.N)
		if !c.Paired && c.NAgainst != c.N {
			runs += "/" + strconv.Itoa(c.NAgainst)
		}
		said, effect := c.Text(), c.Effect
		if len(c.Doubts) > 0 {
			said += " *"
		}
		if c.Cliff != nil {
			effect += fmt.Sprintf(" (δ %+.2f)", *c.Cliff)
		} else {
			effect = "–"
		}
		t.Rows = append(t.Rows, []string{c.Metric, c.Engine, c.Against, change(c, c.Change), said, chance(c.Adjusted), chance(c.P), effect, runs})
	}
	how := "paired by round: signed-rank test, Hodges–Lehmann ratio"
	if a.Family.Test == testMannWhitney {
		how = "unpaired: Mann–Whitney U, Hodges–Lehmann ratio"
	}
	t.Note = fmt.Sprintf("Change is engine ÷ against (engine − against for shares) with its %s interval; %s; p adjusted by %s over %d tests, level %s. A verdict with * has doubts, listed below.",
		confidence(a.Family.Confidence), how, title(a.Family.Adjust), a.Family.Tests, number(a.Family.Level))
	return t
}

func title(s string) string {
	if s == adjustBonf {
		return "Bonferroni"
	}
	return "Holm"
}

// chance writes a probability.
func chance(p *float64) string {
	switch {
	case p == nil:
		return "–"
	case *p < 0.0001:
		return "<0.0001"
	}
	return strconv.FormatFloat(*p, 'f', 4, 64)
}

// doubts are the doubts of a workload's comparisons, each once.
func doubts(a Analysis, workload string) []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range a.Comparisons {
		for _, d := range c.Doubts {
			text := fmt.Sprintf("%s against %s: %s", c.Engine, c.Against, d)
			if c.Workload == workload && !seen[text] {
				seen[text] = true
				out = append(out, text)
			}
		}
	}
	return out
}

func figureTable(e Experiment, a Analysis, workload string) report.Table {
	t := report.Table{Title: figuresTitle + workload, Columns: []report.Column{
		{Name: "metric"}, {Name: "engine", Words: true}, {Name: "runs"}, {Name: "mean"}, {Name: "interval"}, {Name: "median"}, {Name: "variation"}}}
	if e.Analysis.RemoveOutliers {
		t.Columns = append(t.Columns, report.Column{Name: "trimmed mean"})
	}
	t.Columns = append(t.Columns, report.Column{Name: "marked runs", Words: true})
	within := false
	for _, f := range a.Figures {
		within = within || f.Within != nil && f.Workload == workload
	}
	if within {
		t.Columns = append(t.Columns, report.Column{Name: "within run"})
	}
	for _, f := range a.Figures {
		if f.Workload != workload {
			continue
		}
		scale, unit := shownUnit(f.Unit)
		span := "–"
		if !math.IsNaN(f.Mean.Lo) {
			span = fmt.Sprintf("[%s, %s]", number(f.Mean.Lo/scale), number(f.Mean.Hi/scale))
		}
		cv := "–"
		if f.CV != nil {
			cv = percent(*f.CV)
		}
		row := []string{f.Metric + ", " + unit, f.Engine, strconv.Itoa(len(f.Values)), number(f.Mean.Est / scale), span, number(f.Median / scale), cv}
		if e.Analysis.RemoveOutliers {
			trimmed := "–"
			if f.Trimmed != nil {
				trimmed = number(*f.Trimmed / scale)
			}
			row = append(row, trimmed)
		}
		var marked []string
		for _, m := range f.Marked {
			marked = append(marked, fmt.Sprintf("round %d (%s, %s)", m.Round, number(m.Value/scale), m.How))
		}
		row = append(row, strings.Join(marked, "; "))
		if within {
			q := "–"
			if f.Within != nil && f.Within.Known() && !math.IsNaN(f.Within.Lo) {
				q = fmt.Sprintf("[%s, %s]", number(f.Within.Lo/scale), number(f.Within.Hi/scale))
			}
			row = append(row, q)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = fmt.Sprintf("Interval: of the mean over runs, %s. Variation: standard deviation ÷ mean, from run to run. Marked runs lie outside Tukey's fences; nothing is removed.", confidence(a.Family.Confidence))
	if e.Analysis.RemoveOutliers {
		t.Note += " Trimmed mean leaves a tenth out at either end, because remove_outliers asks for it; nothing is decided by it."
	}
	if within {
		t.Note += " Within run: a 95 % interval from the requests of one run. It says how well the run knows itself, and decides nothing between engines."
	}
	return t
}

// rounds shows the primary metric of every run, in the order of rounds.
func rounds(e Experiment, a Analysis, workload string) []report.Block {
	m := metricOf(a.Family.Primary)
	c := report.Chart{Title: m.Name + " by round", Kind: report.ChartLine, X: report.Axis{Label: "round"}, Y: report.Axis{Label: m.Name, Unit: m.Unit}, Small: true,
		Note: "Each point is a run. Rounds in which all engines move together are the machine's doing, and pairing takes them out."}
	if !a.Family.Paired {
		c.X.Label, c.Note = "run", "Each point is a run."
	}
	most := 0
	for i, name := range engineNames(e) {
		if f := a.of(name, workload, m.Name); f != nil {
			l := report.Line{Name: name, Y: f.Values, Colour: i + 1}
			for _, r := range f.Rounds {
				l.X = append(l.X, float64(r))
			}
			most = max(most, len(f.Values))
			c.Lines = append(c.Lines, l)
		}
	}
	if most < 2 {
		return nil
	}
	return []report.Block{c}
}

// failures are the engines and the runs that gave no figures.
func failures(a Analysis) []report.Block {
	var out []report.Block
	if len(a.Failures) > 0 {
		out = append(out, report.Heading{Text: "Failures"})
		const most = 50
		var items []string
		for i, f := range a.Failures {
			if i == most {
				items = append(items, fmt.Sprintf("and %d more", len(a.Failures)-most))
				break
			}
			text := f.Engine + ": " + f.Why
			if f.Workload != "" {
				text = fmt.Sprintf("%s, %s, round %d: %s", f.Engine, f.Workload, f.Round, f.Why)
			}
			items = append(items, text)
		}
		out = append(out, report.List{Items: items})
		for _, f := range a.Failures {
			if tail := strings.TrimSpace(f.LogTail); tail != "" {
				lines := strings.Split(tail, "\n")
				out = append(out, report.List{Head: "End of the log of " + f.Engine, Items: lines[max(0, len(lines)-20):]})
			}
		}
	}
	return out
}

// ending is what stands below the workloads.
func ending(a Analysis) []report.Block {
	out := failures(a)
	if len(a.Agreement) > 0 {
		var items []string
		for _, g := range a.Agreement {
			items = append(items, g.String())
		}
		out = append(out, report.Heading{Text: "Agreement of the answers at temperature 0"}, report.List{Items: items})
	}
	criteria := report.Table{Columns: []report.Column{{Name: "criterion"}, {Name: "met", Words: true}, {Name: "measured", Words: true}}}
	for _, c := range a.Criteria {
		met := "not met"
		if c.Met {
			met = "met"
		}
		criteria.Rows = append(criteria.Rows, []string{c.Name, met, c.Measured})
	}
	out = append(out, report.Heading{Text: "Success criteria"}, criteria)
	out = append(out, advised(a)...)
	if len(a.Notes) > 0 {
		out = append(out, report.Heading{Text: "Notes"}, report.List{Items: a.Notes})
	}
	return out
}

// advised is the advice, and what it could not be given for.
func advised(a Analysis) []report.Block {
	var advice, missing []string
	for _, v := range a.Advice {
		advice = append(advice, v.Text)
	}
	for _, u := range a.Unanswered {
		missing = append(missing, u.Question+": "+u.Why)
	}
	out := []report.Block{report.Heading{Text: "Advice"}}
	if len(advice) > 0 {
		out = append(out, report.List{Items: advice})
	}
	if len(missing) > 0 {
		out = append(out, report.List{Head: "Not answered", Items: missing})
	}
	if len(out) == 1 {
		return nil
	}
	return out
}
