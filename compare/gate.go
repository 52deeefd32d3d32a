package compare

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Gate is a limit on how much worse than the first engine another may be:
// "ttft_p99<=+5%", "tokens/s>=-5%".
type Gate struct {
	Metric Metric
	// Margin is the change that is still allowed, as a share: +0.05 or −0.05.
	// For metrics that are shares themselves (error_rate) it is a difference:
	// +1% allows one failure in a hundred more.
	Margin float64
	Text   string
}

var gateForm = regexp.MustCompile(`^\s*([a-z0-9_/]{1,64})\s*(<=|>=)\s*([+-][0-9]{1,6}(?:\.[0-9]{1,6})?)\s*%\s*$`)

// shortMetrics are what people call the metrics.
var shortMetrics = map[string]string{
	"tokens/s": "output_tokens_per_second", "output_tokens/s": "output_tokens_per_second", "throughput": "output_tokens_per_second",
	"requests/s": "requests_per_second", "latency": "e2e_ms_mean", "tokens/j": "tokens_per_joule",
}

// gateMetric finds a metric by its name, with or without its unit.
func gateMetric(name string) (Metric, bool) {
	if long, ok := shortMetrics[name]; ok {
		name = long
	}
	for _, m := range Metrics() {
		if m.Name == name || strings.Replace(m.Name, "_ms_", "_", 1) == name {
			return m, true
		}
	}
	return Metric{}, false
}

// ParseGate reads one gate.
func ParseGate(s string) (Gate, error) {
	m := gateForm.FindStringSubmatch(s)
	if m == nil {
		return Gate{}, fmt.Errorf("%q is not a gate; write METRIC<=+PERCENT%% or METRIC>=-PERCENT%%, for example ttft_p99<=+5%% or tokens/s>=-5%%", clipName(s))
	}
	g := Gate{Text: strings.Join(strings.Fields(s), "")}
	var ok bool
	if g.Metric, ok = gateMetric(m[1]); !ok {
		var names []string
		for _, k := range Metrics() {
			if k.Better != assay.Neither {
				names = append(names, strings.Replace(k.Name, "_ms_", "_", 1))
			}
		}
		return Gate{}, fmt.Errorf("gate %q: there is no metric %q; there are %s, tokens/s and requests/s", g.Text, m[1], strings.Join(names, ", "))
	}
	switch {
	case g.Metric.Better == assay.Neither:
		return Gate{}, fmt.Errorf("gate %q: %s is neither better when higher nor when lower", g.Text, g.Metric.Name)
	case g.Metric.Better == assay.Lower && m[2] == ">=":
		return Gate{}, fmt.Errorf("gate %q: %s is better when lower; write <=", g.Text, g.Metric.Name)
	case g.Metric.Better == assay.Higher && m[2] == "<=":
		return Gate{}, fmt.Errorf("gate %q: %s is better when higher; write >=", g.Text, g.Metric.Name)
	}
	v, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return Gate{}, fmt.Errorf("gate %q: %w", g.Text, err)
	}
	if g.Margin = v / 100; g.Margin <= -1 {
		return Gate{}, fmt.Errorf("gate %q: nothing falls by 100 %% or more", g.Text)
	}
	return g, nil
}

// ParseGates reads gates with commas between.
func ParseGates(s string) ([]Gate, error) {
	var out []Gate
	for part := range strings.SplitSeq(s, ",") {
		g, err := ParseGate(part)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// GateResult is one gate, checked against one comparison.
type GateResult struct {
	Gate     string         `json:"gate"`
	Workload string         `json:"workload"`
	Engine   string         `json:"engine"`
	Against  string         `json:"against"`
	Change   assay.Quantity `json:"change"`
	Verdict  string         `json:"verdict"` // kept, broken, undecided
	Why      string         `json:"why,omitempty"`

	gate stat.Gate
}

// CheckGates checks every gate against each engine's comparison with the first, on
// every workload. The verdict is pass when all are kept, fail when one is
// broken, and unknown otherwise: what could not be compared passes no gate.
func CheckGates(e Experiment, a Analysis, gates []Gate) ([]GateResult, assay.Verdict) {
	var out []GateResult
	for _, g := range gates {
		asked := false
		for _, w := range e.Workloads {
			for i, engine := range engineNames(e) {
				if i == 0 {
					continue
				}
				asked = true
				out = append(out, check(g, a, engine, engineNames(e)[0], w))
			}
		}
		if !asked {
			out = append(out, GateResult{Gate: g.Text, Verdict: stat.Undecided.String(), Why: "there is nothing to compare"})
		}
	}
	verdict := assay.Pass
	if len(out) == 0 {
		verdict = assay.Unknown
	}
	for _, h := range out {
		switch {
		case h.gate == stat.Broken:
			return out, assay.Fail
		case h.gate != stat.Kept:
			verdict = assay.Unknown
		}
	}
	return out, verdict
}

func check(g Gate, a Analysis, engine, first, workload string) GateResult {
	h := GateResult{Gate: g.Text, Workload: workload, Engine: engine, Against: first, Change: assay.UnknownQuantity("")}
	c := a.between(engine, first, workload, g.Metric.Name)
	switch {
	case c == nil:
		h.Why = "neither engine has a figure of " + g.Metric.Name
	case c.Verdict == NotComparable:
		h.Why = c.Why
	case c.Invalid > 0:
		h.Change, h.Why = c.Change, c.Doubts[0]
	case min(c.N, c.NAgainst) < 2:
		h.Change, h.Why = c.Change, "single runs decide nothing: variation from run to run is not known"
	case c.thin > 0:
		h.Change, h.Why = c.Change, fmt.Sprintf("%d of its %d runs have too few requests for a percentile that can be told: a run needs about %d", c.thin, c.N+c.NAgainst, c.needed)
	case math.IsNaN(c.Change.Lo) || math.IsNaN(c.Change.Hi):
		h.Change, h.Why = c.Change, c.Change.Why
	case c.Scale == "difference" && g.Metric.Unit != "ratio":
		h.Change, h.Why = c.Change, "a value is zero, so that there is no ratio"
	default:
		h.Change = c.Change
		limit := 1 + g.Margin
		if c.Scale == "difference" {
			limit = g.Margin
		}
		h.gate = stat.NonInferiority(c.Change.Lo, c.Change.Hi, limit)
		if g.Metric.Better == assay.Higher {
			h.gate = stat.NonInferiorityAtLeast(c.Change.Lo, c.Change.Hi, limit)
		}
		if h.gate == stat.Undecided {
			h.Why = "the interval includes the limit"
		}
	}
	h.Verdict = h.gate.String()
	return h
}
