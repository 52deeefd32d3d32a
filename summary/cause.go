package summary

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

const (
	// changeLeast is the least change of level, as a share of the level before,
	// that is looked for in clocks when figures got worse by as much.
	changeLeast = 0.05
	// changeApart is how many windows two changes may lie apart and still be one
	// event: latencies are known when a request ends, clocks at once.
	changeApart = 4
	// activeLeast is the share of time that a reason for low clocks must have
	// been on after the change, beyond what it was before, to be named.
	activeLeast = 0.05
)

// clock is a GPU's clock over the windows of the watched stage.
type clock struct {
	gpu   string
	y     []float64
	flags map[string][]float64 // by reason

	looked bool
	falls  []change
}

// fell are the falls of the clock, looked for when somebody asks.
func (c *clock) fell() []change {
	if !c.looked {
		c.looked, c.falls = true, changes(c.y, -1)
	}
	return c.falls
}

// clocks are those of all GPUs that say it.
func (n *node) clocks(first int64, count int, width int64) []clock {
	var out []clock
	for _, g := range n.gpus {
		y := g.series[assay.GPUSMClock].values(first, count, width)
		if y == nil {
			continue
		}
		c := clock{gpu: g.uuid, y: filled(y), flags: map[string][]float64{}}
		for _, name := range g.names {
			if reason, ok := strings.CutPrefix(name, throttledPrefix); ok {
				if v := g.series[name].values(first, count, width); v != nil {
					c.flags[reason] = filled(v)
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// fallen is a fall of clocks that explains worse figures.
type fallen struct {
	gpu        string
	others     int // more GPUs whose clocks fell
	from, to   float64
	window     int // where the figures changed; 0: they drifted
	clocksAt   int // where the clocks did
	reasons    []string
	percentage float64 // by how much the figure got worse
	of         string
}

// findCause looks for clocks that fell when a figure got worse: at the same
// moment, or steadily as it did. nil: there are none, or nothing got worse.
func findCause(at []float64, q curve, v stat.TrendVerdict, clocks []clock) *fallen {
	if len(clocks) == 0 {
		return nil
	}
	var best *fallen
	take := func(f *fallen) {
		switch {
		case f == nil:
		case best == nil:
			best = f
		case f.from-f.to > best.from-best.to:
			f.others = best.others + 1
			best = f
		default:
			best.others++
		}
	}
	// A steady trend would be cut into steps, so it is asked about first.
	drifts := v.Direction == stat.Rising && q.bad > 0 || v.Direction == stat.Falling && q.bad < 0
	if drifts && !v.Stepped {
		for i := range clocks {
			take(clocks[i].drifted(at, len(clocks)))
		}
	}
	if best == nil {
		worse := changes(filled(q.y), q.bad)
		for i := range clocks {
			take(clocks[i].fellWith(worse))
		}
	}
	if best != nil {
		best.of = q.of
	}
	return best
}

// fellWith gives the fall of the clock that lies nearest to one of the changes.
func (c *clock) fellWith(worse []change) *fallen {
	if len(worse) == 0 {
		return nil
	}
	var best *fallen
	for _, f := range c.fell() {
		for _, w := range worse {
			if apart := w.at - f.at; apart > changeApart || apart < -changeApart {
				continue
			}
			if best == nil || f.before-f.after > best.from-best.to {
				best = &fallen{
					gpu: c.gpu, from: f.before, to: f.after, window: w.at, clocksAt: f.at,
					reasons: c.active(f.since, f.at, f.until), percentage: w.share() * 100,
				}
			}
		}
	}
	return best
}

// drifted gives the fall of a clock that sinks without a step.
func (c *clock) drifted(at []float64, tests int) *fallen {
	o := stat.DefaultDrift()
	o.Level, o.Tests = trendLevel, tests
	v := steep(at, c.y, stat.Drift(at, c.y, o), o)
	if v.Direction != stat.Falling {
		return nil
	}
	n := len(c.y)
	from, to := meanOf(c.y[:n/4+1]), meanOf(c.y[n-n/4-1:])
	if !(to < from) {
		return nil
	}
	return &fallen{gpu: c.gpu, from: from, to: to, reasons: c.active(0, n/4+1, n)}
}

// active are the reasons that were on from a window on, more than before.
func (c *clock) active(since, at, until int) []string {
	var out []string
	for reason, y := range c.flags {
		if meanOf(y[at:until])-meanOf(y[since:at]) >= activeLeast {
			out = append(out, reason)
		}
	}
	slices.Sort(out)
	return out
}

func (f *fallen) say(moment func(int) int64) string {
	b := &strings.Builder{}
	if f.window > 0 {
		verb := "rose"
		if f.of == "output_tokens_per_second" {
			verb = "fell"
		}
		fmt.Fprintf(b, "%s %s by %.0f %%: ", f.of, verb, f.percentage)
	}
	fmt.Fprintf(b, "clocks of GPU %s fell from %.2f to %.2f GHz", f.gpu, f.from/1e9, f.to/1e9)
	if f.window > 0 {
		fmt.Fprintf(b, " at %s UTC", time.Unix(0, moment(f.clocksAt)).UTC().Format("15:04:05"))
	} else {
		b.WriteString(" over the stage")
	}
	if len(f.reasons) > 0 {
		fmt.Fprintf(b, " while %s was active", strings.Join(f.reasons, ", "))
	}
	switch {
	case f.others == 1:
		b.WriteString("; those of another GPU fell too")
	case f.others > 1:
		fmt.Fprintf(b, "; those of %d other GPUs fell too", f.others)
	}
	return b.String()
}

// change is one change of level.
type change struct {
	since, at, until int // windows: the level before, the change, the end of the level after
	before, after    float64
}

// share is how large it is, of the level before.
func (c change) share() float64 { return math.Abs(c.after-c.before) / math.Abs(c.before) }

// changes are those of at least changeLeast in a direction.
func changes(y []float64, direction float64) []change {
	points := stat.ChangePoints(y, stat.ChangeOptions{})
	var out []change
	edges := append(append([]int{0}, points...), len(y))
	for i := 1; i+1 < len(edges); i++ {
		c := change{since: edges[i-1], at: edges[i], until: edges[i+1]}
		c.before, c.after = meanOf(y[c.since:c.at]), meanOf(y[c.at:c.until])
		if (c.after-c.before)*direction > 0 && c.before != 0 && c.share() >= changeLeast {
			out = append(out, c)
		}
	}
	return out
}

// filled lets a value stand until the next where nothing was read; the first
// one stands for what came before.
func filled(y []float64) []float64 {
	out := slices.Clone(y)
	last := math.NaN()
	for i := range out {
		if math.IsNaN(out[i]) {
			out[i] = last
		}
		last = out[i]
	}
	for i := len(out) - 2; i >= 0; i-- {
		if math.IsNaN(out[i]) {
			out[i] = out[i+1]
		}
	}
	return out
}

// meanOf is NaN without values.
func meanOf(y []float64) float64 {
	sum := 0.0
	for _, v := range y {
		sum += v
	}
	return sum / float64(len(y))
}
