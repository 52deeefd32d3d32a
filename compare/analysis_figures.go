package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Figure is one metric of one engine on one workload, over its runs.
type Figure struct {
	Engine   string `json:"engine"`
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	Unit     string `json:"unit"`
	// Mean is that of the runs, with Student's interval over runs.
	Mean   assay.Quantity `json:"mean"`
	Median float64        `json:"median"`
	Stddev *float64       `json:"stddev"`
	CV     *float64       `json:"cv"` // standard deviation ÷ mean, run to run
	Min    float64        `json:"min"`
	Max    float64        `json:"max"`
	// Trimmed leaves a tenth of the runs out at either end. It is there only
	// when remove_outliers asks for it, and nothing is decided by it.
	Trimmed *float64 `json:"trimmed_mean,omitempty"`
	// Normality is Shapiro and Wilk's p, for the record; it chooses nothing.
	Normality *float64  `json:"shapiro_wilk_p"`
	Values    []float64 `json:"values"`
	Rounds    []int     `json:"rounds"`
	Marked    []Marked  `json:"marked_runs"`
	// Within is the interval of a single run from its own requests.
	Within *assay.Quantity `json:"within_run,omitempty"`
}

// Marked is a run that lies outside Tukey's fences of its engine's runs. It
// stays in every figure and every test.
type Marked struct {
	Round int     `json:"round"`
	Value float64 `json:"value"`
	How   string  `json:"how"` // mild, extreme
}

const trimShare = 0.1

func (b *bench) figures() []Figure {
	out := []Figure{}
	for _, w := range b.Workloads {
		for _, m := range Metrics() {
			for _, e := range b.engines {
				if runs := b.having(e, w, m.Name); len(runs) > 0 {
					out = append(out, b.figure(m, runs))
				}
			}
		}
	}
	return out
}

func (b *bench) figure(m Metric, runs []*Sample) Figure {
	f := Figure{Engine: runs[0].Engine, Workload: runs[0].Workload, Metric: m.Name, Unit: m.Unit, Marked: []Marked{}}
	var moments stat.Moments
	for _, s := range runs {
		v, _ := figure(s, m.Name)
		moments.Add(v)
		f.Values, f.Rounds = append(f.Values, v), append(f.Rounds, s.Round)
	}
	sorted := slices.Sorted(slices.Values(f.Values))
	f.Median, f.Min, f.Max = middle(sorted), sorted[0], sorted[len(sorted)-1]
	mean, sd := moments.Mean(), moments.Stddev()
	f.Mean = assay.Quantity{N: len(sorted), Est: mean}
	f.Mean.Lo, f.Mean.Hi = stat.MeanInterval(mean, sd, float64(len(sorted)), b.family.Confidence)
	f.Mean.Lo = max(0, f.Mean.Lo) // no time, rate, size or share is less
	f.Stddev = known(sd)
	if mean != 0 {
		f.CV = known(sd / math.Abs(mean))
	}
	if b.Analysis.RemoveOutliers {
		f.Trimmed = known(stat.TrimmedMean(sorted, trimShare))
	}
	f.Normality = known(stat.ShapiroWilk(f.Values).P)
	fences := stat.TukeyFences(sorted)
	for i, v := range f.Values {
		if how := fences.Mark(v); how != stat.Inside {
			f.Marked = append(f.Marked, Marked{Round: f.Rounds[i], Value: v, How: how.String()})
		}
	}
	if q, ok := runs[0].Within[m.Name]; ok && len(runs) == 1 {
		f.Within = &q
	}
	return f
}

// middle is the median of sorted runs, the mean of the middle two when there
// are two.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// of finds a figure; nil when the engine has none.
func (a Analysis) of(engine, workload, metric string) *Figure {
	for i := range a.Figures {
		if f := &a.Figures[i]; f.Engine == engine && f.Workload == workload && f.Metric == metric {
			return f
		}
	}
	return nil
}

// between finds the comparison of two engines, whichever way round it is.
func (a Analysis) between(x, y, workload, metric string) *Comparison {
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		if c.Workload == workload && c.Metric == metric && (c.Engine == x && c.Against == y || c.Engine == y && c.Against == x) {
			return c
		}
	}
	return nil
}

// Agreement says how often two engines, or one engine in two rounds, gave the
// same answer to the same test case at temperature 0.
type Agreement struct {
	Workload string  `json:"workload"`
	Engine   string  `json:"engine"`
	Against  string  `json:"against"` // the same engine: between its own rounds
	Same     int     `json:"same"`
	Of       int     `json:"of"`
	Share    float64 `json:"share"`
}

func (g Agreement) String() string {
	who := fmt.Sprintf("%s and %s", g.Engine, g.Against)
	if g.Engine == g.Against {
		who = g.Engine + " between its own rounds"
	}
	return fmt.Sprintf("%s: %s gave the same answer in %d of %d cases", g.Workload, who, g.Same, g.Of)
}

func (b *bench) agreement() []Agreement {
	out := []Agreement{}
	for _, w := range b.Workloads {
		for i, against := range b.engines {
			for _, engine := range b.engines[i:] {
				g := Agreement{Workload: w, Engine: engine, Against: against}
				x, y := b.runs[key{engine, w}], b.runs[key{against, w}]
				switch {
				case engine == against:
					for k := 1; k < len(x); k++ {
						g.count(x[k-1].Texts, x[k].Texts)
					}
				case b.Paired:
					px, py := paired(x, y)
					for k := range px {
						g.count(px[k].Texts, py[k].Texts)
					}
				default:
					for k := range min(len(x), len(y)) {
						g.count(x[k].Texts, y[k].Texts)
					}
				}
				if g.Of > 0 {
					g.Share = float64(g.Same) / float64(g.Of)
					out = append(out, g)
				}
			}
		}
	}
	return out
}

// count adds the test cases of which both answers are known.
func (g *Agreement) count(x, y []string) {
	for i := range min(len(x), len(y)) {
		if x[i] != "" && y[i] != "" {
			g.Of++
			if x[i] == y[i] {
				g.Same++
			}
		}
	}
}
