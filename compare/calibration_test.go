package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// world generates runs in virtual time: no engine, no clock, only the noise
// that real runs have.
type world struct {
	rng      *rand.Rand
	rho      float64 // autocorrelation of requests within a run
	engines  int
	requests int     // a run
	runSD    float64 // run to run, of each engine's own
	roundSD  float64 // of the machine, the same for all engines of a round
	slower   float64 // the last engine takes so many times as long
}

func newWorld(seed uint64, rho float64, engines int) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 17)), rho: rho, engines: engines, requests: 40, runSD: 0.02, roundSD: 0.03, slower: 1}
}

func (w *world) name(i int) string { return string(rune('a' + i)) }

func (w *world) experiment(plan Plan) Experiment {
	plan.Primary, plan.Level, plan.Effect, plan.Power = "e2e_ms_mean", 0.05, 0.05, 0.9
	e := Experiment{Format: ExperimentFormat, ID: "calibration", Workloads: []string{"w"}, Paired: true, Plan: plan, Status: assay.StatusComplete}
	for i := range w.engines {
		e.Engines = append(e.Engines, Engine{Name: w.name(i), Kind: "url"})
	}
	return e
}

// round adds one run of each engine.
func (w *world) round(e *Experiment, round int) {
	machine := math.Exp(w.roundSD * w.rng.NormFloat64())
	for i := range w.engines {
		speed := machine * math.Exp(w.runSD*w.rng.NormFloat64())
		if i == w.engines-1 {
			speed *= w.slower
		}
		e.Samples = append(e.Samples, w.run(w.name(i), round, speed))
	}
}

// run is one run: requests whose times are log-normal with 5 % noise that is
// autocorrelated and shared by all parts of a request, and a little of their own.
func (w *world) run(engine string, round int, speed float64) Sample {
	ttft, e2e, tpot := make([]float64, w.requests), make([]float64, w.requests), make([]float64, w.requests)
	state, total := w.rng.NormFloat64(), 0.0
	for i := range ttft {
		state = w.rho*state + math.Sqrt(1-w.rho*w.rho)*w.rng.NormFloat64()
		ttft[i] = 50 * speed * math.Exp(0.05*state+0.03*w.rng.NormFloat64())
		tpot[i] = 10 * speed * math.Exp(0.05*state+0.01*w.rng.NormFloat64())
		e2e[i] = ttft[i] + 49*tpot[i]
		total += e2e[i]
	}
	for _, v := range [][]float64{ttft, e2e, tpot} {
		slices.Sort(v)
	}
	n := float64(w.requests)
	return Sample{Engine: engine, Workload: "w", Round: round, Requests: w.requests, OK: w.requests, OutputTokens: 50, InputTokens: 20, Client: assay.Certified,
		Metrics: map[string]float64{
			"ttft_ms_p50": stat.Quantile(ttft, 50), "ttft_ms_p99": stat.Quantile(ttft, 99), "tpot_ms_p50": stat.Quantile(tpot, 50),
			"e2e_ms_mean": total / n, "e2e_ms_p50": stat.Quantile(e2e, 50), "e2e_ms_p99": stat.Quantile(e2e, 99),
			"output_tokens_per_second": 50 * n / total * 1000, "requests_per_second": n / total * 1000, "error_rate": 0,
		}}
}

// sd is the spread of the paired log-ratios of the primary metric, from so many
// pilot rounds, so that the plan is made for the truth.
func (w *world) sd() float64 {
	e := w.experiment(Plan{})
	for r := range 4000 {
		w.round(&e, r+1)
	}
	b := newBench(e)
	x, y := b.values(w.name(0), "w", "e2e_ms_mean"), b.values(w.name(w.engines-1), "w", "e2e_ms_mean")
	var m stat.Moments
	for i := range x {
		m.Add(math.Log(x[i] / y[i]))
	}
	return m.Stddev()
}

// outcome runs one experiment to its end, or to the first look that decides.
func (w *world) outcome(plan Plan) (all []Comparison, rounds int) {
	e := w.experiment(plan)
	looks := LookRounds(e.Plan)
	for n := 1; n <= plan.Rounds; n++ {
		w.round(&e, n)
		if n < plan.Rounds && plan.Looks > 1 && slices.Contains(looks, n) && Decided(e) {
			rounds = n
			break
		}
		rounds = n
	}
	all, _ = newBench(e).judged()
	return all, rounds
}

func shown(all []Comparison) bool {
	return slices.ContainsFunc(all, func(c Comparison) bool { return c.Verdict.Shown() })
}

// Over a whole experiment between equals, any difference at all is shown in no
// more than 5 % of experiments; a true 5 % is found in 90 % at the computed
// rounds; and looking early raises neither error.
func TestCalibration(t *testing.T) {
	experiments := 2000
	if raced || testing.Short() {
		experiments = 100
		t.Logf("%d experiments instead of 2,000, because of the race detector or -short", experiments)
	}
	for _, engines := range []int{2, 3} {
		for _, rho := range []float64{0, 0.8} {
			for _, looks := range []int{1, 4} {
				if engines == 3 && (rho == 0 || looks == 1) {
					continue // the hardest of them is enough
				}
				t.Run(fmt.Sprintf("engines=%d,rho=%g,looks=%d", engines, rho, looks), func(t *testing.T) {
					t.Parallel()
					calibrate(t, experiments, engines, rho, looks)
				})
			}
		}
	}
}

func calibrate(t *testing.T, experiments, engines int, rho float64, looks int) {
	w := newWorld(uint64(engines*100+looks)+uint64(rho*10), rho, engines)
	sd := w.sd()
	probe := w.experiment(Plan{})
	w.round(&probe, 0)
	plan := Plan{Looks: looks, Tests: Tests(probe)}
	plan.Rounds = PlanRounds(sd, plan)
	alarms := 0
	for range experiments {
		if all, _ := w.outcome(plan); shown(all) {
			alarms++
		}
	}
	w.slower = 1.05
	found, wrong, spent, different := 0, 0, 0, experiments/2
	for range different {
		all, rounds := w.outcome(plan)
		spent += rounds
		c := Analysis{Comparisons: all}.between(w.name(engines-1), w.name(0), "w", "e2e_ms_mean")
		switch {
		case c.Verdict == Slower && c.Engine == w.name(engines-1):
			found++
		case c.Verdict.Shown():
			wrong++
		}
	}
	n := float64(experiments)
	t.Logf("sd of log-ratios %.4f, %d tests, %d rounds: a difference is shown between equals in %.2f %% of experiments; a true one of 5 %% is found in %.2f %%, after %.1f rounds on average",
		sd, plan.Tests, plan.Rounds, 100*float64(alarms)/n, 100*float64(found)/float64(different), float64(spent)/float64(different))
	if float64(alarms)/n > 0.05+error3(0.05, n) {
		t.Errorf("%d of %d experiments between equals show a difference", alarms, experiments)
	}
	if m := float64(different); float64(found)/m < 0.9-error3(0.9, m) {
		t.Errorf("a true difference of 5 %% is found in %d of %d experiments", found, different)
	}
	if wrong > 0 {
		t.Errorf("%d experiments show the difference the wrong way round", wrong)
	}
}

// error3 is three standard errors of a proportion.
func error3(p, n float64) float64 { return 3 * math.Sqrt(p*(1-p)/n) }

// No engine is called the most consistent of equals in more than 5 %.
func TestConsistencyIsCalibrated(t *testing.T) {
	experiments := 400
	if raced || testing.Short() {
		experiments = 100
	}
	w := newWorld(5, 0, 3)
	named := 0
	for range experiments {
		e := w.experiment(Plan{})
		for r := range 12 {
			w.round(&e, r+1)
		}
		if Analyze(e).Overall.MostConsistent != Tied {
			named++
		}
	}
	t.Logf("of %d experiments between three equals, %d name a most consistent engine", experiments, named)
	if n := float64(experiments); float64(named)/n > 0.05+error3(0.05, n) {
		t.Errorf("%d of %d name one", named, experiments)
	}
}

// Looking again and again with the whole level each time is wrong far more
// often than the level says: what sharing it out is for. One metric, so that no
// correction for a family hides it.
func TestLookingAgainAndAgainIsWrongMoreOften(t *testing.T) {
	const experiments, rounds, looks = 600, 48, 12
	w := newWorld(9, 0, 2)
	w.requests = 1
	naive, planned := 0, 0
	for range experiments {
		whole := w.experiment(Plan{Rounds: rounds, Looks: looks})
		for n := range rounds {
			w.round(&whole, n+1)
		}
		for i := range whole.Samples {
			whole.Samples[i].Metrics = map[string]float64{"e2e_ms_mean": whole.Samples[i].Metrics["e2e_ms_mean"]}
		}
		part, careless := false, false
		for _, n := range LookRounds(whole.Plan) {
			e := whole
			e.Samples = whole.Samples[:2*n]
			part = part || Decided(e)
			e.Plan.Looks = 1
			careless = careless || Decided(e)
		}
		if part {
			planned++
		}
		if careless {
			naive++
		}
	}
	n := float64(experiments)
	t.Logf("of %d experiments between equals with %d looks, %.1f %% stop with a difference when each look has the whole level, and %.1f %% when they share it",
		experiments, looks, 100*float64(naive)/n, 100*float64(planned)/n)
	if float64(planned)/n > 0.05+error3(0.05, n) || float64(naive)/n < 0.1 {
		t.Errorf("%d of %d with a shared level, %d with the whole", planned, experiments, naive)
	}
}
