package compare

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
)

// verdictOf is the answer in a box: who is faster, that nobody is, or that it is not
// decided.
func verdictOf(a Analysis) report.Verdict {
	v := report.Verdict{Score: assay.UnknownQuantity(""), Why: sentence(a.Overall.Because) + "."}
	switch {
	case a.Overall.Fastest != Tied:
		v.Verdict, v.Word = assay.Pass, a.Overall.Fastest+" is faster"
	case undecided(a) != nil:
		v.Word = "Not decided"
	default:
		v.Word = sentence(string(NoDifference))
	}
	return v
}

// undecided is the comparison of the primary metric that needs the most further runs;
// nil: none needs any.
func undecided(a Analysis) *Comparison {
	var out *Comparison
	for i, c := range a.Comparisons {
		if c.Metric == a.Family.Primary && c.Verdict == NotEnough && c.More > 0 && (out == nil || c.More > out.More) {
			out = &a.Comparisons[i]
		}
	}
	return out
}

// Brief is the answer for a terminal: who is faster, the figures that say so, what
// failed, and what to do where nothing could be decided. The page has the rest.
func Brief(e Experiment, a Analysis) report.Page {
	p := report.Page{Title: titleOf(e, a), Blocks: []report.Block{verdictOf(a)}}
	if len(e.Engines) == 2 {
		for _, w := range e.Workloads {
			if t := sideBySide(e, a, w); len(t.Rows) > 0 {
				p.Blocks = append(p.Blocks, t)
			}
		}
		p.Blocks = append(p.Blocks, failures(a)...)
	} else {
		p.Blocks = append(p.Blocks, rest(Page(e, a, false))...)
	}
	p.Blocks = append(p.Blocks, more(e, a)...)
	return p
}

// rest are the blocks of a page below its verdict that a terminal has room for.
func rest(p report.Page) []report.Block {
	var keep []report.Block
	for _, b := range p.Blocks[1:] {
		switch b := b.(type) {
		case report.Heading:
			if b.Text == "Agreement of the answers at temperature 0" || b.Text == "Success criteria" {
				return keep
			}
		case report.Table:
			if strings.HasPrefix(b.Title, figuresTitle) || strings.HasPrefix(b.Title, countersTitle) {
				continue // the page has them
			}
		}
		keep = append(keep, b)
	}
	return keep
}

// sideBySide is what two engines came to on a workload, and the difference.
func sideBySide(e Experiment, a Analysis, workload string) report.Table {
	names := engineNames(e)
	t := report.Table{Columns: []report.Column{
		{Name: "metric"}, {Name: names[0]}, {Name: names[1]}, {Name: "delta"}, {Name: confidence(a.Family.Confidence) + " interval", Drop: 1}, {Name: "verdict", Words: true}}}
	if len(e.Workloads) > 1 {
		t.Title = workload
	}
	tested, doubted := false, false
	for _, c := range a.Comparisons {
		x, y := a.of(names[0], workload, c.Metric), a.of(names[1], workload, c.Metric)
		if c.Workload != workload || x == nil || y == nil || metricOf(c.Metric).Better == assay.Neither {
			continue
		}
		scale, unit := shownUnit(x.Unit)
		said := string(c.Verdict)
		switch {
		case c.Verdict == NotEnough:
			said = "not decided"
		case c.Verdict == NotComparable:
			said = c.Text()
		case len(c.Doubts) > 0:
			said, doubted = said+" *", true
		}
		tested = tested || c.P != nil && c.spread()
		delta, span := difference(c)
		t.Rows = append(t.Rows, []string{c.Metric + ", " + unit, number(x.Mean.Est / scale), number(y.Mean.Est / scale), delta, span, said})
	}
	var note []string
	if tested {
		how := "not paired"
		if a.Family.Paired {
			how = "paired by round"
		}
		note = append(note, fmt.Sprintf("Figures are means over runs, %s. A verdict holds for all %d tests together, at level %s.", how, a.Family.Tests, number(a.Family.Level)))
	}
	if doubted {
		note = append(note, "*: there are doubts, which -v lists.")
	}
	t.Note = strings.Join(note, " ")
	return t
}

// difference writes by how much the second engine differs from the first, and the
// interval of that.
func difference(c Comparison) (delta, span string) {
	if !c.Change.Known() {
		return "–", "–"
	}
	write := func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*(v-1)) }
	if c.Scale == "difference" {
		scale, unit := shownUnit(c.Unit)
		write = func(v float64) string {
			text := number(v / scale)
			if v > 0 {
				text = "+" + text
			}
			return strings.TrimSpace(text + " " + strings.ReplaceAll(unit, "%", "points"))
		}
	}
	delta, span = write(c.Change.Est), "–"
	if !math.IsNaN(c.Change.Lo) && !math.IsNaN(c.Change.Hi) {
		span = write(c.Change.Lo) + " … " + write(c.Change.Hi)
	}
	return delta, span
}

// shownUnit is the unit that people read a figure in, and what it is in the unit that
// the figure has.
func shownUnit(unit string) (scale float64, name string) {
	switch unit {
	case "bytes":
		return gib, "GiB"
	case "ratio":
		return 0.01, "%"
	}
	return 1, unit
}

// more says how to come to an answer where there is none yet.
func more(e Experiment, a Analysis) []report.Block {
	c := undecided(a)
	if c == nil {
		return nil
	}
	how := "about"
	if !c.spread() {
		how = "at least"
	}
	say := func(format string, args ...any) report.Paragraph {
		return report.Paragraph{Head: "next", Text: fmt.Sprintf("not decided: %s %d more ", how, c.More) + fmt.Sprintf(format, args...)}
	}
	if repeatable(e) {
		return []report.Block{say("rounds; set experiment.rounds to %d in the file.", c.N+c.More)}
	}
	first, second := madeBy(e, c.Against), madeBy(e, c.Engine)
	if first == "" || second == "" {
		return []report.Block{say("runs of each.")}
	}
	// A directory of runs takes the new ones in; a run that stands alone stays where
	// it is, and the new ones have a directory of their own.
	n, x, y := c.More, filepath.Dir(first), filepath.Dir(second)
	if c.N == 1 {
		n, x, y = c.N+c.More, c.Against+"-runs", c.Engine+"-runs"
	}
	again := func(run, dir string) string {
		return fmt.Sprintf("  assay hammer -q --again %s --out %s/more-$n", foreign.Shell(run), foreign.Shell(dir))
	}
	return []report.Block{
		say("runs of each, in turn, like this:"),
		report.Commands{fmt.Sprintf("for n in $(seq %d); do", n), again(first, x), again(second, y), "done", "assay compare " + foreign.Shell(x, y)},
	}
}

// madeBy is the directory of an engine's latest run; empty: it is not known.
func madeBy(e Experiment, engine string) string {
	dir, round := "", 0
	for _, s := range e.Samples {
		if s.Engine == engine && s.Round >= round {
			dir, round = s.Dir, s.Round
		}
	}
	return dir
}

// environment is the machine and what ran on it.
func environment(e Experiment) []report.Block {
	t := report.Table{Columns: []report.Column{{Name: "of"}, {Name: "what", Words: true}, {Name: "is", Words: true}}}
	put := func(of, what, is string) {
		if is != "" && is != "0" {
			t.Rows = append(t.Rows, []string{of, what, is})
		}
	}
	put("machine", "system", strings.TrimSpace(e.Node.OS+" "+e.Node.Arch+" "+e.Node.Kernel))
	put("machine", "processor", e.Node.CPU)
	put("machine", "cores", strconv.Itoa(e.Node.Cores))
	if e.Node.MemoryBytes > 0 {
		put("machine", "memory", number(float64(e.Node.MemoryBytes)/gib)+" GiB")
	}
	for _, g := range e.Node.GPUs {
		of := "GPU " + strconv.Itoa(g.Index)
		put(of, "name", g.Name)
		put(of, "driver", g.Driver)
		put(of, "CUDA of the driver", g.CUDA)
		put(of, "VBIOS", g.VBIOS)
	}
	for _, x := range e.Engines {
		for _, k := range []string{"model", "backend", "version"} {
			put(x.Name, k, x.Lock[k])
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []report.Block{report.Heading{Text: "Environment"}, t}
}
