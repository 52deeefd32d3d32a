package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// ComparisonFormat names the format of the analysis that this version writes.
const ComparisonFormat = "assay/comparison/v1"

// Analysis is what an experiment says. It holds no opinion that its figures do
// not carry: where the runs are too few, too different or absent, it says so.
type Analysis struct {
	Experiment  string
	Name        string
	Status      assay.Status
	Family      Family
	Figures     []Figure     // of each engine, workload and metric
	Comparisons []Comparison // of each workload, metric and pair
	Agreement   []Agreement
	Failures    []Failure
	Criteria    []Criterion
	Overall     Overall
	Advice      []Advice
	Unanswered  []Unanswered
	Notes       []string
}

// Family is the tests that were made together: the chance that any of them
// finds a difference where there is none is at most Level.
type Family struct {
	Tests      int     `json:"tests"`
	Level      float64 `json:"level"`
	Confidence float64 `json:"confidence_level"`
	Adjust     string  `json:"adjust"`
	Test       string  `json:"test"`
	Paired     bool    `json:"paired"`
	Look       int     `json:"look"` // which of the planned looks this is; from 1
	Looks      int     `json:"looks"`
	// LevelNow is what this look may use of Level; all of it with one look.
	LevelNow float64 `json:"level_now"`
	Effect   float64 `json:"effect"`
	Power    float64 `json:"power"`
	Primary  string  `json:"primary_metric"`
}

// Failure is an engine that was dropped, or a run of it that gave no figures.
type Failure struct {
	Engine   string `json:"engine"`
	Workload string `json:"workload,omitempty"` // empty: the engine itself
	Round    int    `json:"round,omitempty"`
	Why      string `json:"why"`
	LogTail  string `json:"log_tail,omitempty"`
}

// The tests and corrections by their names in the plan.
const (
	testSignedRank  = "signed_rank"
	testMannWhitney = "mann_whitney_u"
	adjustHolm      = "holm"
	adjustBonf      = "bonferroni"
)

// defaults of a plan that says nothing.
const (
	defaultLevel      = 0.05
	defaultEffect     = 0.05
	defaultPower      = 0.9
	defaultConfidence = 0.95
)

// Analyze says what the experiment shows. It is a pure function: the same
// samples in any order give the same answer.
func Analyze(e Experiment) Analysis {
	b := newBench(e)
	a := Analysis{Experiment: e.ID, Name: e.Name, Status: e.Status, Family: b.family, Notes: slices.Clone(e.Notes)}
	a.Failures = b.failures()
	a.Figures = b.figures()
	a.Comparisons, a.Family = b.judged()
	a.Agreement = b.agreement()
	a.Overall = b.overall(a)
	a.Criteria = b.criteria(a)
	a.Advice, a.Unanswered = b.advice(a)
	a.Overall.Recommendation = recommendation(a)
	a.Notes = append(a.Notes, b.notes(a)...)
	return a
}

// judged are all comparisons with their verdicts, and the family of tests that
// they make.
func (b *bench) judged() ([]Comparison, Family) {
	all, f := b.comparisons(), b.family
	f.Tests = adjust(all, f)
	for i := range all {
		all[i].judge(f)
	}
	return all, f
}

// Tests is how many tests the analysis of the experiment would make: what the
// plan divides its level by. Any runs count, the pilot's too.
func Tests(e Experiment) int {
	e.Samples = slices.Clone(e.Samples)
	for i := range e.Samples {
		e.Samples[i].Round++
	}
	n := 0
	for _, c := range newBench(e).comparisons() {
		if c.tested || c.Verdict == "" {
			n++
		}
	}
	return n
}

// bench is an experiment sorted for the analysis.
type bench struct {
	Experiment
	family  Family
	engines []string
	runs    map[key][]*Sample // judged, with figures, by round
	whole   []string          // workloads whose throughput is that of whole runs
}

type key struct{ engine, workload string }

func newBench(e Experiment) *bench {
	b := &bench{Experiment: e, runs: map[key][]*Sample{}}
	for _, x := range e.Engines {
		b.engines = append(b.engines, x.Name)
	}
	for i := range e.Samples {
		s := &e.Samples[i]
		if s.Round > 0 && s.Failed == "" {
			k := key{s.Engine, s.Workload}
			b.runs[k] = append(b.runs[k], s)
		}
	}
	b.levelRates()
	for _, runs := range b.runs {
		slices.SortStableFunc(runs, func(x, y *Sample) int { return cmp.Compare(x.Round, y.Round) })
	}
	p := e.Plan
	b.family = Family{
		Level: within(p.Level, defaultLevel), Power: within(p.Power, defaultPower), Effect: within(p.Effect, defaultEffect),
		Confidence: within(e.Analysis.Confidence, defaultConfidence),
		Adjust:     adjustHolm, Test: testSignedRank, Paired: e.Paired, Primary: p.Primary, Look: 1, Looks: max(1, p.Looks),
	}
	if p.Adjust == adjustBonf {
		b.family.Adjust = adjustBonf
	}
	if !e.Paired || p.Test == testMannWhitney {
		b.family.Test = testMannWhitney
	}
	if b.family.Primary == "" {
		b.family.Primary = "e2e_ms_mean"
	}
	b.family.LevelNow = b.family.Level
	if b.family.Looks > 1 {
		b.family.Look, b.family.LevelNow = lookNow(b.family, p.Rounds, b.rounds())
	}
	return b
}

// levelRates takes the throughput of whole runs for all runs of a workload of
// which one has no steady window: a window's figure against a whole run's, which
// is lower with the same engine, would be no comparison.
func (b *bench) levelRates() {
	for k, runs := range b.runs {
		if !slices.Contains(b.whole, k.workload) && slices.ContainsFunc(runs, func(s *Sample) bool { return s.RatesOf == assay.RatesOfWhole }) {
			b.whole = append(b.whole, k.workload)
		}
	}
	slices.Sort(b.whole)
	for k, runs := range b.runs {
		if !slices.Contains(b.whole, k.workload) {
			continue
		}
		for i, s := range runs {
			level := *s
			level.Metrics = maps.Clone(s.Metrics)
			for _, name := range []string{"output_tokens_per_second", "requests_per_second"} {
				delete(level.Metrics, name)
				if v, ok := s.Whole[name]; ok {
					level.Metrics[name] = v
				}
			}
			runs[i] = &level
		}
	}
}

// within is v, or the default when v is not a share.
func within(v, otherwise float64) float64 {
	if v > 0 && v < 1 {
		return v
	}
	return otherwise
}

// rounds is how many rounds the experiment came to.
func (b *bench) rounds() int {
	most := 0
	for _, runs := range b.runs {
		most = max(most, runs[len(runs)-1].Round)
	}
	return most
}

// values are those of a metric over the runs that have it.
func (b *bench) values(engine, workload, metric string) []float64 {
	var out []float64
	for _, s := range b.runs[key{engine, workload}] {
		if v, ok := figure(s, metric); ok {
			out = append(out, v)
		}
	}
	return out
}

func figure(s *Sample, metric string) (float64, bool) {
	v, ok := s.Metrics[metric]
	return v, ok && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// failures are engines and runs without figures, in the order of the engines.
func (b *bench) failures() []Failure {
	out := []Failure{}
	for _, e := range b.Engines {
		if e.Failed != "" {
			out = append(out, Failure{Engine: e.Name, Why: e.Failed, LogTail: e.LogTail})
		}
		var runs []Failure
		for _, s := range b.Samples {
			if s.Engine == e.Name && s.Failed != "" && s.Round > 0 {
				runs = append(runs, Failure{Engine: e.Name, Workload: s.Workload, Round: s.Round, Why: s.Failed})
			}
		}
		slices.SortFunc(runs, func(x, y Failure) int {
			return cmp.Or(cmp.Compare(x.Round, y.Round), cmp.Compare(x.Workload, y.Workload))
		})
		out = append(out, runs...)
	}
	return out
}

// metricOf is the metric of a name; the zero Metric when there is none.
func metricOf(name string) Metric {
	for _, m := range Metrics() {
		if m.Name == name {
			return m
		}
	}
	return Metric{Name: name}
}

// notes are remarks that follow from the whole.
func (b *bench) notes(a Analysis) []string {
	var out []string
	if a.Family.Looks > 1 && a.Family.LevelNow < a.Family.Level {
		out = append(out, fmt.Sprintf("The experiment may end at any of %d planned looks; this is look %d, which may use a level of %.2g of the %.2g of all of them.", a.Family.Looks, a.Family.Look, a.Family.LevelNow, a.Family.Level))
	}
	if b.Paired && a.Family.Test == testMannWhitney {
		out = append(out, "The configuration asks for Mann–Whitney U, so rounds are not used as blocks; the signed-rank test would find smaller differences.")
	}
	if !b.Paired {
		out = append(out, "The runs were not made in rounds, so that a drift of the machine between the engines cannot be told from a difference between them.")
	}
	for _, w := range b.whole {
		out = append(out, fmt.Sprintf("On %s not every run has a steady window, so throughput is that of the whole runs, with their filling and draining in it: longer runs would show more.", w))
	}
	if n := b.thinTails(); n > 0 {
		out = append(out, fmt.Sprintf("A 99th percentile of a run needs %d requests to have an interval of its own; the shortest run here has %d. Between runs it is compared all the same, as a noisy figure; no gate is decided by it.", stat.QuantileNeeds(99), n))
	}
	return out
}

// thinTails is the fewest requests of a run that has a 99th percentile, when
// that is too few for an interval; 0: none is.
func (b *bench) thinTails() int {
	fewest := 0
	for _, runs := range b.runs {
		for _, s := range runs {
			_, ttft := s.Metrics["ttft_ms_p99"]
			_, e2e := s.Metrics["e2e_ms_p99"]
			if (ttft || e2e) && s.OK > 0 && int64(s.OK) < stat.QuantileNeeds(99) && (fewest == 0 || s.OK < fewest) {
				fewest = s.OK
			}
		}
	}
	return fewest
}

// known is v as JSON has it: null when it is not a number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
