package stat

import (
	"cmp"
	"math"
	"slices"
)

// A search for the highest load that keeps objectives runs stages at a load, a
// level, until it can say which side of the limit the level is on. What decides
// is Wald's sequential test on violations: it may look after every stage and
// still errs as seldom as it says.
const (
	// LevelStages is how many stages a level gets before it is left undecided.
	LevelStages = 10
	// levelVoids is how many stages of a level may say nothing at all.
	levelVoids = 3
	// levelConfidence is that of the interval of a mean over stages. It is
	// looked at after every stage, so it is wider than the 95 % of one look.
	levelConfidence = 0.99
	// edgeWidth is how near to its limit a mean's interval must lie to be an edge.
	edgeWidth = 0.05
)

// levelBound is where Wald's test stops: both errors are then at most 1 in 100.
var levelBound = math.Log(99)

// Trial is what one stage showed about one objective.
type Trial struct {
	// Allowed is the share of requests that may violate the objective: 0.01 for
	// a p99. Zero or less: the objective is a mean, and Mean and Limit decide.
	Allowed float64
	// N requests were judged, and so many of them violated the objective.
	N, Violations int
	// Tau is the autocorrelation time: so many requests say as much as one
	// independent one. Less than 1 counts as 1.
	Tau float64
	// Clustered: whatever speaks against the stage lies in one part of it.
	Clustered bool
	// Optional: the objective can break a level, but a level is kept without
	// having shown it.
	Optional bool
	// Mean and Limit are of an objective on a mean; a NaN is no mean, and +Inf
	// that of a stage in which nothing succeeded.
	Mean, Limit float64
}

// violated reports whether the stage speaks against the objective at all.
func (t Trial) violated() bool {
	if t.Allowed > 0 {
		return t.Violations > 0
	}
	return t.Mean > t.Limit
}

// score is what the stage adds to the test: above zero it speaks for a broken
// objective. The hypotheses are half the allowed share of violations and twice
// of it, or the middle between it and 1 where that is less, as for a median.
func (t Trial) score() float64 {
	violation, good := waldWeights(t.Allowed)
	return (violation*float64(t.Violations) + good*float64(t.N-t.Violations)) / max(1, t.Tau)
}

func waldWeights(allowed float64) (violation, good float64) {
	low, high := allowed/2, min(2*allowed, (1+allowed)/2)
	return math.Log(high / low), math.Log((1 - high) / (1 - low))
}

// Probe is one stage of a search.
type Probe struct {
	Load   float64
	Trials []Trial // one for each objective, in the same order in every stage
	// Behind: the engine did not keep up with the rate. Two such stages break a level.
	Behind bool
	// Void: the stage says nothing, as when no request could end in its time.
	Void bool
}

func (p Probe) clustered() bool {
	return slices.ContainsFunc(p.Trials, func(t Trial) bool { return t.Clustered && t.violated() })
}

// LevelVerdict is what the stages of a level say together.
type LevelVerdict uint8

// The verdicts on a level. The zero value is no answer.
const (
	LevelOpen      LevelVerdict = iota // more stages are needed
	LevelKept                          // the objectives are kept
	LevelBroken                        // one of them is not
	LevelEdge                          // LevelStages stages did not part it from the limit: this is where it is
	LevelUndecided                     // LevelStages stages were too few to say anything
)

var levelNames = [...]string{"open", "kept", "broken", "edge", "unknown"}

func (v LevelVerdict) String() string { return levelNames[min(int(v), len(levelNames)-1)] }

// Level is what the stages at one load say together.
type Level struct {
	Load    float64
	Verdict LevelVerdict
	// Leans: what was seen so far speaks rather for broken.
	Leans bool
	// Stages, SetAside and Void are indices of the probes: those that count,
	// the one that was set aside (negative: none), and how many said nothing.
	Stages   []int
	SetAside int
	Void     int
	// Requests and Violations are of the objective that is nearest to breaking.
	Requests, Violations int
	// Lacks is how many times the requests that were seen the level still needs
	// to be kept, if none violates an objective; 0 when it is decided.
	Lacks float64
}

// Levels judges the stages of a search, level by level, by rising load. The
// order of stages at a level is that in which they were run.
//
// A level is kept when every objective's test says so, and broken when one
// objective's says so and stages of two have violations: one bad moment of the
// machine is no property of the load. For the same reason the first stage whose
// violations all lie in one part of it is set aside.
func Levels(probes []Probe) []Level {
	by := map[float64][]int{}
	var loads []float64
	for i, p := range probes {
		if _, ok := by[p.Load]; !ok {
			loads = append(loads, p.Load)
		}
		by[p.Load] = append(by[p.Load], i)
	}
	slices.SortFunc(loads, cmp.Compare[float64])
	var out []Level
	for _, load := range loads {
		out = append(out, judgeLevel(load, probes, by[load]))
	}
	return out
}

func judgeLevel(load float64, probes []Probe, stages []int) Level {
	l := Level{Load: load, SetAside: -1}
	var tests []levelTest
	behind := 0
	for _, i := range stages {
		p := probes[i]
		switch {
		case p.Void:
			l.Void++
			continue
		case l.SetAside < 0 && p.clustered():
			l.SetAside = i
			continue
		}
		l.Stages = append(l.Stages, i)
		if p.Behind {
			behind++
		}
		for k, t := range p.Trials {
			if k == len(tests) {
				tests = append(tests, levelTest{})
			}
			tests[k].add(t)
		}
		if l.decide(tests, behind); l.Verdict != LevelOpen {
			break
		}
	}
	if l.Verdict == LevelOpen && l.Void >= levelVoids {
		l.Verdict = LevelUndecided
	}
	l.fill(tests)
	return l
}

// decide looks at the tests after a stage.
func (l *Level) decide(tests []levelTest, behind int) {
	kept, edge, all := len(tests) > 0, false, true
	l.Leans = behind > 0
	for i := range tests {
		t := &tests[i]
		l.Leans = l.Leans || t.leans()
		if t.verdict == LevelBroken {
			l.Verdict = LevelBroken
			return
		}
		if !t.keeps() {
			kept = false
			edge = edge || t.atEdge()
			all = all && t.atEdge()
		}
	}
	n := len(l.Stages)
	switch {
	case behind >= 2:
		l.Verdict = LevelBroken
	case kept && (behind == 0 || n-behind >= 2):
		l.Verdict = LevelKept
	case n < LevelStages:
	case edge && all:
		l.Verdict = LevelEdge
	default:
		l.Verdict = LevelUndecided
	}
}

// fill gives the figures of the test that is nearest to breaking.
func (l *Level) fill(tests []levelTest) {
	worst := -1
	for i := range tests {
		if tests[i].last.Allowed > 0 && (worst < 0 || tests[i].sum > tests[worst].sum) {
			worst = i
		}
		if l.Verdict == LevelUndecided || l.Verdict == LevelOpen {
			l.Lacks = max(l.Lacks, tests[i].lacks())
		}
	}
	if worst >= 0 {
		l.Requests, l.Violations = tests[worst].n, tests[worst].violations
	}
}

// levelTest is one objective's test over the stages of a level.
type levelTest struct {
	verdict       LevelVerdict
	sum           float64 // Wald's
	n, violations int
	effective     float64
	violating     int // stages that speak against it
	stages        int
	means         Moments
	last          Trial
}

func (t *levelTest) add(s Trial) {
	t.last = s
	t.stages++
	if s.violated() {
		t.violating++
	}
	if t.verdict != LevelOpen {
		return
	}
	if s.Allowed <= 0 {
		t.addMean(s)
		return
	}
	t.n += s.N
	t.violations += s.Violations
	t.effective += float64(s.N) / max(1, s.Tau)
	t.sum += s.score()
	if t.violating < 2 {
		// One stage alone breaks nothing, however bad it was; nor may it weigh
		// so much that many good ones cannot make up for it.
		t.sum = min(t.sum, levelBound)
	}
	switch {
	case t.sum >= levelBound && t.violating >= 2:
		t.verdict = LevelBroken
	case t.sum <= -levelBound:
		t.verdict = LevelKept
	}
}

func (t *levelTest) addMean(s Trial) {
	t.means.Add(s.Mean) // passes over a NaN
	lo, hi := t.interval()
	if math.IsInf(s.Mean, 1) {
		lo, hi = s.Mean, s.Mean
	}
	switch {
	case hi <= s.Limit: // not with a NaN: one stage has no interval
		t.verdict = LevelKept
	case lo > s.Limit && t.violating >= 2:
		t.verdict = LevelBroken
	}
}

func (t *levelTest) leans() bool {
	if t.last.Allowed <= 0 {
		return t.means.N() > 0 && t.means.Mean() > t.last.Limit || math.IsInf(t.last.Mean, 1)
	}
	return t.sum > 0
}

func (t *levelTest) keeps() bool {
	return t.verdict == LevelKept || t.last.Optional && !t.leans()
}

// atEdge reports whether a test that did not end says that the limit is here:
// it found violations in two stages, or a mean whose interval includes the limit
// and nothing that is far from it.
func (t *levelTest) atEdge() bool {
	if t.last.Allowed > 0 {
		return t.violating >= 2
	}
	lo, hi := t.interval()
	near := edgeWidth * t.last.Limit
	return lo >= t.last.Limit-near && hi <= t.last.Limit+near
}

// interval is that of a mean over stages.
func (t *levelTest) interval() (lo, hi float64) {
	return MeanInterval(t.means.Mean(), t.means.Stddev(), float64(t.means.N()), levelConfidence)
}

// lacks is how many times what was seen this test still needs to say kept.
func (t *levelTest) lacks() float64 {
	if t.verdict != LevelOpen || t.last.Allowed <= 0 || t.last.Optional || !(t.effective > 0) {
		return 0
	}
	_, good := waldWeights(t.last.Allowed)
	return (levelBound + t.sum) / -good / t.effective
}

// Boundary is where a search puts the highest load that keeps the objectives.
type Boundary struct {
	Kept   Level // the highest that was kept, below Broken; zero: none was
	Edge   Level // the lowest between both that is an edge; zero: none is
	Broken Level // the lowest that was broken; its load is +Inf when none was
}

// BoundaryOf takes levels by rising load, as Levels gives them.
func BoundaryOf(levels []Level) Boundary {
	b := Boundary{Broken: Level{Load: math.Inf(1), SetAside: -1}}
	for _, l := range levels {
		if l.Verdict == LevelBroken {
			b.Broken = l
			break
		}
	}
	for _, l := range levels {
		if l.Verdict == LevelKept && l.Load < b.Broken.Load {
			b.Kept = l
		}
	}
	for _, l := range levels {
		if l.Verdict == LevelEdge && l.Load > b.Kept.Load && l.Load < b.Broken.Load {
			b.Edge = l
			break
		}
	}
	return b
}

// Agreement is how near the figures of two stages at one load lie to each other
// when nothing happened in one of them.
const Agreement = 0.03

// Typical is the figure of a load that was measured several times, and whether
// it is confirmed: two that agree confirm each other and give their mean, of
// three or more the median holds against one that went wrong.
func Typical(values []float64) (v float64, confirmed bool) {
	switch len(values) {
	case 0:
		return 0, false
	case 1:
		return values[0], false
	case 2:
		a, b := values[0], values[1]
		return (a + b) / 2, math.Abs(a-b) <= Agreement*max(math.Abs(a), math.Abs(b))
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, true
}
