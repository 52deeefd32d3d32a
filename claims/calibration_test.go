package claims

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
)

// knownProbe is a distribution whose figures are known, as a probe that takes the time
// it says, in a bubble's virtual time.
type knownProbe struct {
	name string
	// draw gives the next value; last is the one before, for values that are
	// correlated.
	draw           func(r *rand.Rand, last float64) float64
	first          func(r *rand.Rand) float64 // what comes before the first
	mean, p50, p95 float64
}

func knownProbes() []knownProbe {
	const s = 0.5 // of the log-normal
	ar := func(r *rand.Rand, last float64) float64 { return 0.01 + 0.6*(last-0.01) + 0.8*0.001*r.NormFloat64() }
	return []knownProbe{
		{name: "exponential", draw: func(r *rand.Rand, _ float64) float64 { return 0.01 * r.ExpFloat64() },
			mean: 0.01, p50: 0.01 * math.Ln2, p95: 0.01 * math.Log(20)},
		{name: "normal", draw: func(r *rand.Rand, _ float64) float64 { return 0.01 + 0.001*r.NormFloat64() },
			mean: 0.01, p50: 0.01, p95: 0.01 + 0.001*1.6448536269514722},
		{name: "log-normal", draw: func(r *rand.Rand, _ float64) float64 { return 0.01 * math.Exp(s*r.NormFloat64()) },
			mean: 0.01 * math.Exp(s*s/2), p50: 0.01, p95: 0.01 * math.Exp(s*1.6448536269514722)},
		{name: "two kinds of work", draw: func(r *rand.Rand, _ float64) float64 {
			if r.Float64() < 0.8 {
				return 0.004 + 0.002*r.Float64()
			}
			return 0.02 + 0.01*r.Float64()
		}, mean: 0.8*0.005 + 0.2*0.025, p50: 0.004 + 0.002*0.5/0.8, p95: 0.02 + 0.01*0.75},
		{name: "correlated", draw: ar, first: func(r *rand.Rand) float64 { return 0.01 + 0.001*r.NormFloat64() },
			mean: 0.01, p50: 0.01, p95: 0.01 + 0.001*1.6448536269514722},
	}
}

func (k knownProbe) probe(seed uint64) Probe {
	return Probe{Name: "known/" + k.name, Unit: unitSeconds, Better: assay.Lower,
		Start: func(context.Context, Env) (Runner, error) {
			r := rand.New(rand.NewPCG(seed, 7))
			last, owed, n := 0.0, 0.0, 0
			if k.first != nil {
				last = k.first(r)
			}
			return &runnerOf{sample: func(context.Context) (Measurement, error) {
				last = k.draw(r, last)
				// Sleeping is what a virtual second costs most in: it is done for
				// several samples at once.
				if owed, n = owed+last, n+1; n%16 == 0 {
					time.Sleep(time.Duration(owed * 1e9))
					owed = 0
				}
				return Measurement{Value: last}, nil
			}}, nil
		}}
}

// runnerOf is a runner made of functions.
type runnerOf struct {
	sample func(context.Context) (Measurement, error)
	close  func() error
}

func (r *runnerOf) Sample(ctx context.Context) (Measurement, error) { return r.sample(ctx) }

func (r *runnerOf) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// Over a thousand runs of twenty virtual seconds each, the 95 % interval holds the
// truth 95 % ± 2 of the time.
func TestIntervalsCover(t *testing.T) {
	runs := experiments(1000)
	for _, k := range knownProbes() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			p := k.probe(0)
			truth := map[string]float64{"mean": k.mean, "p50": k.p50, "p95": k.p95, "throughput": 1 / k.mean}
			covered := map[string]int{}
			for run := range runs {
				synctest.Test(t, func(t *testing.T) {
					o := Options{Duration: 20 * time.Second}.filled()
					m := o.measure(t.Context(), k.probe(uint64(run)+1), nil)
					if m.err != nil || m.stopped != stopDuration {
						t.Fatalf("stopped by %q: %v", m.stopped, m.err)
					}
					for name, v := range truth {
						f, err := metricOf(name, p)
						if err != nil {
							t.Fatal(err)
						}
						if q := (estimator{}).of(f, &m.samples); q.Lo <= v && v <= q.Hi {
							covered[name]++
						}
					}
				})
			}
			for name := range truth {
				share := float64(covered[name]) / float64(runs)
				t.Logf("%s: %.1f %%", name, 100*share)
				// The allowance widens where a race build makes fewer runs.
				if slack := 0.02 * math.Sqrt(1000/float64(runs)); !(math.Abs(share-0.95) <= slack) {
					t.Errorf("%s: the interval held the truth in %.1f %% of %d runs", name, 100*share, runs)
				}
			}
		})
	}
}

// When the truth is exactly what was promised, --until-decided may decide, either
// way, in at most 5 % of runs: it looks again and again, and its intervals must
// bear that.
func TestUntilDecidedErrsSeldom(t *testing.T) {
	runs := experiments(1000)
	for _, k := range knownProbes() {
		// A throughput is decided where its mean is.
		for name, truth := range map[string]float64{"mean": k.mean, "p50": k.p50, "p95": k.p95} {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				claim := claimOn(t, k.probe(0), name, truth)
				wrong := 0
				for run := range runs {
					synctest.Test(t, func(t *testing.T) {
						o := Options{UntilDecided: true, Budget: 20 * time.Second}.filled()
						m := o.measure(t.Context(), k.probe(uint64(run)+1), []Claim{claim})
						if m.err != nil {
							t.Fatal(m.err)
						}
						if m.stopped == stopDecided {
							wrong++
						}
					})
				}
				share := float64(wrong) / float64(runs)
				t.Logf("decided in %.1f %% of runs", 100*share)
				if share > 0.05 {
					t.Errorf("decided in %.1f %% of %d runs, where nothing is to be decided", 100*share, runs)
				}
			})
		}
	}
}

// A promise that is kept or broken by a tenth is decided, the right way, and soon.
func TestUntilDecidedDecides(t *testing.T) {
	k := knownProbes()[0]
	for name, truth := range map[string]float64{"mean": k.mean, "p50": k.p50, "p95": k.p95, "throughput": 1 / k.mean} {
		for _, by := range []float64{0.8, 1.25} {
			claim := claimOn(t, k.probe(0), name, truth*by)
			want := assay.Pass
			if claim.Target.Kept(truth) == false {
				want = assay.Fail
			}
			right := 0
			const runs = 50
			for run := range runs {
				synctest.Test(t, func(t *testing.T) {
					o := Options{UntilDecided: true, Budget: 5 * time.Minute}.filled()
					m := o.measure(t.Context(), k.probe(uint64(run)+1), []Claim{claim})
					if claim.Target.Judge(estimator{sequence: true}.of(claim.figure, &m.samples)) == want {
						right++
					}
				})
			}
			if right < runs-3 {
				t.Errorf("%s, promise ×%g: %d of %d decided rightly", name, by, right, runs)
			}
		}
	}
}

func claimOn(t *testing.T, p Probe, metric string, value float64) Claim {
	t.Helper()
	f, err := metricOf(metric, p)
	if err != nil {
		t.Fatal(err)
	}
	op := "<="
	if f.better == assay.Higher {
		op = ">="
	}
	return Claim{Name: metric + " of " + p.Name, Probe: p.Name, Metric: f.name, figure: f, Target: Target{Op: op, Value: value, Unit: f.unit}}
}

// About as many samples as were said to be needed do decide.
func TestMoreSamplesIsAboutRight(t *testing.T) {
	for _, k := range knownProbes()[:3] {
		for _, name := range []string{"mean", "p50", "p95", "throughput"} {
			p := k.probe(3)
			f, err := metricOf(name, p)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(11, 3))
			var s samples
			take := func(n int64) {
				for range n {
					s.add(Measurement{Value: k.draw(r, 0)})
				}
			}
			take(400)
			q := estimator{}.of(f, &s)
			c := claimOn(t, p, name, q.Est*1.05)
			n, ok := estimator{}.more(f, c.Target, &s)
			if got := c.Target.Judge(q); got != assay.Unknown {
				if n > 20 {
					t.Errorf("%s %s: decided, and yet %d more", k.name, name, n)
				}
				continue
			}
			if !ok {
				t.Errorf("%s %s: no number", k.name, name)
				continue
			}
			// The truth is not where the estimate was: aim at where it goes.
			take(4 * n)
			after := estimator{}.of(f, &s)
			if was, is := q.Hi-q.Lo, after.Hi-after.Lo; !(is <= was*1.3*math.Sqrt(400/float64(400+4*n))+1e-12) {
				t.Errorf("%s %s: %d more samples were to narrow the interval from %g; it is %g", k.name, name, 4*n, was, is)
			}
		}
	}
}
