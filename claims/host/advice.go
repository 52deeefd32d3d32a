package host

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// Advice makes the advice of a run from its results and from readings before and
// after it. What was not read gives none.
func (m *Machine) Advice(r *claims.Result) []claims.Advice { return m.advise(m.now(), r) }

func (m *Machine) advise(after *Machine, r *claims.Result) []claims.Advice {
	return slices.Concat(
		bottlenecks(r), contention(m, after, span(m, after, r).Seconds()), variation(r),
		m.tuning(), m.gpuTuning())
}

// span is the time that the counters grew in. They were read before the first probe
// and after the last, so that it is longer than the measurement.
func span(before, after *Machine, r *claims.Result) time.Duration {
	return max(after.at.Sub(before.at), r.Ended.Sub(r.Started))
}

// bottlenecks are the claims that are furthest from being kept: what to work on
// first.
func bottlenecks(r *claims.Result) []claims.Advice {
	worst, by := -1, 1.0
	for i, c := range r.Claims {
		if c.Verdict != assay.Fail || !c.Measured.Known() {
			continue
		}
		if off := shortfall(c); off > by {
			worst, by = i, off
		}
	}
	if worst < 0 {
		return nil
	}
	c := r.Claims[worst]
	return []claims.Advice{{
		Kind: "bottleneck", About: c.Name,
		Text:     fmt.Sprintf("%s is the furthest from its promise, by a factor of %s: start with %s.", c.Name, claims.FormatValue(by, ""), c.Probe),
		Evidence: []string{fmt.Sprintf("%s of %s: %s, promised %s", c.Metric, c.Probe, claims.FormatInterval(c.Measured, c.Unit), c.Target)},
	}}
}

// shortfall is by which factor the estimate misses the target; 1 and less: it
// does not.
func shortfall(c claims.ClaimResult) float64 {
	if !(c.Measured.Est > 0) || !(c.Target.Value > 0) {
		return 0
	}
	if c.Target.Better() == assay.Higher {
		return c.Target.Value / c.Measured.Est
	}
	return c.Measured.Est / c.Target.Value
}

// contention is what else went on while we measured.
func contention(before, after *Machine, seconds float64) []claims.Advice {
	var out []claims.Advice
	grew := func(name string) (float64, bool) {
		a, okA := before.number(name)
		b, okB := after.number(name)
		return b - a, okA && okB && b >= a
	}
	for _, x := range []struct{ what, name, text string }{
		{"cpu", "pressure cpu", "Work waited for a CPU during the run: other work shares this machine, or it has too few cores."},
		{"memory", "pressure memory", "Work waited for memory during the run: the machine is short of it."},
		{"io", "pressure io", "Work waited for storage during the run; the probes that write to disk are part of it."},
	} {
		// A tenth of the time is far above an idle machine's.
		if us, ok := grew(x.name); ok && seconds > 0 && us/1e6 > seconds/10 {
			out = append(out, claims.Advice{Kind: "bottleneck", About: x.what, Text: x.text,
				Evidence: []string{fmt.Sprintf("/proc/pressure/%s: some work was held up for %.1f s of %.1f s", x.what, us/1e6, seconds)}})
		}
	}
	if pages, ok := grew("pswpin"); ok {
		if outs, ok := grew("pswpout"); ok && pages+outs > 0 {
			out = append(out, claims.Advice{Kind: "bottleneck", About: "swap", Text: "Memory was swapped during the run: latencies of memory are those of the disk.",
				Evidence: []string{fmt.Sprintf("/proc/vmstat: %.0f pages swapped in and %.0f out", pages, outs)}})
		}
	}
	if kills, ok := grew("oom_kill"); ok && kills > 0 {
		out = append(out, claims.Advice{Kind: "hardware", About: "memory", Text: "The kernel killed a process for want of memory during the run: more memory, or less at once.",
			Evidence: []string{fmt.Sprintf("/proc/vmstat: oom_kill rose by %.0f", kills)}})
	}
	if share, ok := stolen(before.facts["stat"], after.facts["stat"]); ok && share > 0.02 {
		out = append(out, claims.Advice{Kind: "bottleneck", About: "hypervisor", Text: "The hypervisor gave this machine's CPU time to others: measure on a machine of your own.",
			Evidence: []string{fmt.Sprintf("/proc/stat: %s %% of CPU time was stolen", claims.FormatValue(100*share, ""))}})
	}
	return out
}

// stolen is the share of CPU time that a hypervisor took, between two first lines
// of /proc/stat.
func stolen(before, after string) (float64, bool) {
	a, b := strings.Fields(before), strings.Fields(after)
	if len(a) < 9 || len(b) < 9 {
		return 0, false
	}
	total, steal := 0.0, 0.0
	for i := 1; i <= 8; i++ {
		x, errX := strconv.ParseFloat(a[i], 64)
		y, errY := strconv.ParseFloat(b[i], 64)
		if errX != nil || errY != nil || y < x {
			return 0, false
		}
		total += y - x
		if i == 8 {
			steal = y - x
		}
	}
	if total <= 0 {
		return 0, false
	}
	return steal / total, true
}

// variation names the probes whose tail is far from their middle.
func variation(r *claims.Result) []claims.Advice {
	var out []claims.Advice
	for _, p := range r.Probes {
		if p.Status != claims.Measured || p.P50 == nil || p.P99 == nil || !p.P50.Known() || !p.P99.Known() || math.IsNaN(p.P99.Lo) || math.IsNaN(p.P50.Hi) || !(p.P50.Hi > 0) {
			continue
		}
		if ratio := p.P99.Lo / p.P50.Hi; p.Better == assay.Lower.String() && ratio > 5 && len(out) < 5 {
			out = append(out, claims.Advice{Kind: "variation", About: p.Name,
				Text: fmt.Sprintf("One in a hundred takes at least %s times as long as the middle: look at what happens then (other work, clocks, page faults) before the code of the usual case.", claims.FormatValue(ratio, "")),
				Evidence: []string{fmt.Sprintf("p50 %s, p99 %s, %d mild and %d extreme outliers of %d samples",
					claims.FormatInterval(*p.P50, p.Unit), claims.FormatInterval(*p.P99, p.Unit), p.Outliers.Mild, p.Outliers.Extreme, p.Samples)}})
		}
	}
	return out
}
