package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Outcome is what a comparison comes to.
type Outcome string

// The outcomes. Lower and Higher are for metrics that are no speeds.
const (
	Faster        Outcome = "faster"
	Slower        Outcome = "slower"
	LowerIs       Outcome = "lower"
	HigherIs      Outcome = "higher"
	NoDifference  Outcome = "no difference shown"
	NotEnough     Outcome = "not enough data"
	NotComparable Outcome = "not comparable"
)

// Shown reports whether the outcome is a significant difference.
func (o Outcome) Shown() bool { return o == Faster || o == Slower || o == LowerIs || o == HigherIs }

// Comparison is one metric of one engine against another's on one workload.
type Comparison struct {
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	Unit     string `json:"unit"`
	Engine   string `json:"engine"`
	Against  string `json:"against"`
	// Scale is ratio (Engine ÷ Against) or difference (Engine − Against).
	Scale    string         `json:"scale"`
	Paired   bool           `json:"paired"`
	N        int            `json:"n"`
	NAgainst int            `json:"n_against"`
	Change   assay.Quantity `json:"change"`
	// Simultaneous is the interval at the level of the whole family: with its
	// chance all such intervals hold the truth together.
	Simultaneous assay.Quantity `json:"simultaneous"`
	P            *float64       `json:"p"`
	Adjusted     *float64       `json:"p_adjusted"`
	Cliff        *float64       `json:"cliffs_delta"`
	Effect       string         `json:"effect"`
	Verdict      Outcome        `json:"verdict"`
	Better       string         `json:"better,omitempty"`
	More         int            `json:"more_rounds,omitempty"`
	Why          string         `json:"why,omitempty"`
	// Doubts weaken the comparison: it rests on runs whose client was the
	// bottleneck, or some of its rounds are missing.
	Doubts  []string `json:"doubts,omitempty"`
	Invalid int      `json:"runs_with_invalid_client,omitempty"`

	sd       float64   // of the log-ratios, or of the differences
	x, y     []float64 // logarithms, or values
	d        []float64 // x−y by round, when paired
	tested   bool
	hopeless bool // no p below 1 can come of it
	thin     int  // runs whose percentile rests on too few requests
	needed   int  // requests that a run needs for it
}

// Text is the verdict in words, with what belongs to it.
func (c Comparison) Text() string {
	switch {
	case c.Verdict == NotEnough && c.More > 0:
		rounds := "rounds"
		if c.More == 1 {
			rounds = "round"
		}
		how := "about"
		if !c.spread() {
			how = "at least" // what a test needs, whatever the spread
		}
		return fmt.Sprintf("%s (need %s %d more %s)", c.Verdict, how, c.More, rounds)
	case c.Verdict == NotComparable || c.Verdict == NotEnough && c.Why != "":
		return fmt.Sprintf("%s (%s)", c.Verdict, c.Why)
	}
	return string(c.Verdict)
}

// comparisons are those of every workload, metric and pair of engines that
// have any figure, without their adjustment and verdict.
func (b *bench) comparisons() []Comparison {
	out := []Comparison{}
	for _, w := range b.Workloads {
		for _, m := range Metrics() {
			for i, against := range b.engines {
				for _, engine := range b.engines[i+1:] {
					if len(b.runs[key{engine, w}]) == 0 || len(b.runs[key{against, w}]) == 0 {
						continue // it failed, and is reported as that
					}
					if c, ok := b.compare(w, m, engine, against); ok {
						out = append(out, c)
					}
				}
			}
		}
	}
	return out
}

// compare is one comparison; ok is false when neither engine has the metric.
func (b *bench) compare(workload string, m Metric, engine, against string) (Comparison, bool) {
	c := Comparison{Workload: workload, Metric: m.Name, Unit: m.Unit, Engine: engine, Against: against, Scale: "ratio",
		Paired: b.family.Test == testSignedRank, Change: assay.UnknownQuantity(""), Simultaneous: assay.UnknownQuantity(""), Effect: stat.EffectUnknown.String()}
	ours, theirs := b.having(engine, workload, m.Name), b.having(against, workload, m.Name)
	if len(ours) == 0 && len(theirs) == 0 {
		return c, false
	}
	for _, missing := range []struct {
		n    int
		name string
	}{{len(ours), engine}, {len(theirs), against}} {
		if missing.n == 0 {
			return c.not(fmt.Sprintf("%s has no figure for it", missing.name)), true
		}
	}
	if m.SameWork {
		if why := differentWork(engine, against, ours, theirs); why != "" {
			return c.not(why), true
		}
	}
	if c.Paired {
		ours, theirs = paired(ours, theirs)
		if len(ours) == 0 {
			c.Verdict, c.Why = NotEnough, "no round has both engines"
			return c, true
		}
	}
	c.doubt(b, ours, theirs)
	c.take(m, ours, theirs)
	c.estimate(b.family.Confidence, &c.Change)
	if m.Better == assay.Neither {
		c.Simultaneous.Why = ""
		return c.not("it describes and is no merit"), true
	}
	test := c.test()
	if c.hopeless = c.flat(); !c.hopeless && len(c.x) > 1 && len(c.y) > 1 && !math.IsNaN(test.P) {
		c.tested = true
	}
	c.P = known(test.P)
	if c.spread() { // two of two are always apart, and so "large"
		delta := stat.CliffDelta(c.x, c.y, b.family.Confidence)
		c.Cliff, c.Effect = known(delta.Est), delta.Size().String()
	}
	return c, true
}

// minSpread is how many runs it takes to say anything of how far they spread.
const minSpread = 5

func (c Comparison) spread() bool { return min(c.N, c.NAgainst) >= minSpread }

func (c Comparison) not(why string) Comparison {
	c.Verdict, c.Why = NotComparable, why
	return c
}

func (b *bench) having(engine, workload, metric string) []*Sample {
	var out []*Sample
	for _, s := range b.runs[key{engine, workload}] {
		if _, ok := figure(s, metric); ok {
			out = append(out, s)
		}
	}
	return out
}

// paired keeps the runs whose round both engines have.
func paired(x, y []*Sample) (px, py []*Sample) {
	byRound := map[int]*Sample{}
	for _, s := range y {
		byRound[s.Round] = s
	}
	for _, s := range x {
		if o := byRound[s.Round]; o != nil {
			px, py = append(px, s), append(py, o)
			delete(byRound, s.Round)
		}
	}
	return px, py
}

// maxWorkDifference is by how much mean output lengths may differ before engines have
// not done the same work.
const maxWorkDifference = 0.02

// differentWork says why the engines did not do the same work; empty: they did.
func differentWork(engine, against string, x, y []*Sample) string {
	a, b := meanOf(x, func(s *Sample) float64 { return s.OutputTokens }), meanOf(y, func(s *Sample) float64 { return s.OutputTokens })
	if !(a > 0) || !(b > 0) {
		return "output lengths are not known, so that the same work cannot be told"
	}
	if off := math.Abs(a/b - 1); off > maxWorkDifference {
		return fmt.Sprintf("different work: answers of %s have %s tokens on average, those of %s %s", engine, number(a), against, number(b))
	}
	return ""
}

func meanOf(runs []*Sample, of func(*Sample) float64) float64 {
	var m stat.Moments
	for _, s := range runs {
		m.Add(of(s))
	}
	return m.Mean()
}

// doubt notes what weakens a comparison of these runs.
func (c *Comparison) doubt(b *bench, x, y []*Sample) {
	for _, s := range slices.Concat(x, y) {
		if s.Client == assay.Invalid {
			c.Invalid++
		}
		if n := s.needed(c.Metric); n > 0 {
			c.thin, c.needed = c.thin+1, max(c.needed, n)
		}
	}
	if c.Invalid > 0 {
		c.Doubts = append(c.Doubts, fmt.Sprintf("%d of its %d runs were measured by a client that was itself the bottleneck", c.Invalid, len(x)+len(y)))
	}
	if c.Paired {
		if missing := max(len(b.having(c.Engine, c.Workload, c.Metric)), len(b.having(c.Against, c.Workload, c.Metric)), b.roundsOf(c.Workload)) - len(x); missing > 0 {
			c.Doubts = append(c.Doubts, fmt.Sprintf("%d of %d rounds are left out, since one of the two has no figure there", missing, missing+len(x)))
		}
	}
	in := func(s *Sample) float64 { return s.InputTokens }
	if p, q := meanOf(x, in), meanOf(y, in); p > 0 && q > 0 && math.Abs(p/q-1) > maxWorkDifference {
		c.Doubts = append(c.Doubts, fmt.Sprintf("prompts had %s tokens on average for %s and %s for %s", number(p), c.Engine, number(q), c.Against))
	}
}

// roundsOf is how many rounds of a workload any engine has figures of.
func (b *bench) roundsOf(workload string) int {
	seen := map[int]bool{}
	for _, e := range b.engines {
		for _, s := range b.runs[key{e, workload}] {
			seen[s.Round] = true
		}
	}
	return len(seen)
}

// take sets the values that are compared: logarithms where every value is
// positive, so that differences are ratios, and the values themselves elsewhere.
func (c *Comparison) take(m Metric, x, y []*Sample) {
	logs := m.Unit != "ratio"
	for _, s := range slices.Concat(x, y) {
		if v, _ := figure(s, m.Name); !(v > 0) {
			logs = false
		}
	}
	get := func(runs []*Sample) []float64 {
		out := make([]float64, len(runs))
		for i, s := range runs {
			out[i], _ = figure(s, m.Name)
			if logs {
				out[i] = math.Log(out[i])
			}
		}
		return out
	}
	c.x, c.y, c.N, c.NAgainst = get(x), get(y), len(x), len(y)
	if !logs {
		c.Scale = "difference"
	}
	var sx, sy, sd stat.Moments
	for _, v := range c.x {
		sx.Add(v)
	}
	for _, v := range c.y {
		sy.Add(v)
	}
	c.sd = math.Sqrt(sx.Variance() + sy.Variance())
	if c.Paired {
		c.d = make([]float64, len(c.x))
		for i := range c.x {
			c.d[i] = c.x[i] - c.y[i]
			sd.Add(c.d[i])
		}
		c.sd = sd.Stddev()
	}
}

func (c *Comparison) test() stat.RankTest {
	if c.Paired {
		return stat.SignedRank(c.d, stat.TestOptions{})
	}
	return stat.MannWhitney(c.x, c.y, stat.TestOptions{})
}

// flat says that no difference is there to be tested: every one is exactly
// zero. Such a test cannot reject whatever the level, so it takes no part of
// the family's level (Tarone).
func (c *Comparison) flat() bool {
	first := c.x[0]
	for _, v := range slices.Concat(c.x, c.y) {
		if v != first {
			first = math.NaN()
		}
	}
	if !c.Paired || first == c.x[0] {
		return first == c.x[0]
	}
	for _, v := range c.d {
		if v != 0 {
			return false
		}
	}
	return true
}

// estimate is the Hodges–Lehmann estimate with its interval.
func (c *Comparison) estimate(confidence float64, q *assay.Quantity) {
	var s stat.Shift
	if c.Paired {
		s = stat.HodgesLehmann(c.d, confidence)
	} else {
		s = stat.HodgesLehmann2(c.x, c.y, confidence)
	}
	*q = assay.Quantity{N: min(c.N, c.NAgainst), Est: s.Est, Lo: s.Lo, Hi: s.Hi}
	if c.Scale == "ratio" {
		q.Est, q.Lo, q.Hi = math.Exp(s.Est), math.Exp(s.Lo), math.Exp(s.Hi)
	}
	if math.IsNaN(q.Lo) {
		q.Why = "too few runs for an interval"
	}
}
