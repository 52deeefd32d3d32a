package trend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay/stat"
)

// alarm is when a rule said something first, and what.
type alarm struct {
	at   time.Time
	kind string
}

// alarms goes through a history as the server does: each change of configuration
// begins anew, each report is looked at once.
func alarms(history []Point, o Options) (out []alarm) {
	for from := 0; from < len(history); {
		to := from + 1
		for to < len(history) && history[to].Config == history[from].Config {
			to++
		}
		series := history[from:to]
		for _, c := range Changes(Throughput, series, o).Changes {
			if c.Loss < o.MinLoss {
				continue
			}
			kind := KindDrop
			if c.Drift {
				kind = KindDrift
			}
			out = append(out, alarm{c.Found, kind})
		}
		for i := o.MinPoints; i <= len(series); i++ {
			if _, ok := Flapping(Throughput, series[:i], o); ok {
				out = append(out, alarm{series[i-1].At, KindFlap})
			}
		}
		from = to
	}
	slices.SortStableFunc(out, func(a, b alarm) int { return a.at.Compare(b.at) })
	return out
}

// naive is what one would write in an afternoon: a report that is more than three
// standard deviations below the mean of the last 24.
func naive(history []Point) (out []alarm) {
	for i := 24; i < len(history); i++ {
		if history[i].Config != history[i-24].Config {
			continue
		}
		var m stat.Moments
		for _, p := range history[i-24 : i] {
			m.Add(p.Value)
		}
		if history[i].Value < m.Mean()-3*m.Stddev() {
			out = append(out, alarm{history[i].At, "naive"})
		}
	}
	return out
}

// result is a row of the table.
type result struct {
	name           string
	nodes          int
	found          int
	delay          []float64 // days
	falseYear      float64   // a node-year
	naiveFound     int
	naiveDelay     []float64
	naiveFalseYear float64
}

// planted runs nodes for 240 days with a fault in the middle.
func planted(name string, nodes int, seed uint64, w world, within time.Duration, kinds []string, make func(*rand.Rand, time.Time) fault) result {
	rng := rand.New(rand.NewPCG(seed, 44))
	at := epoch.Add(120 * day)
	r := result{name: name, nodes: nodes}
	for range nodes {
		h := w.history(rng, 240*day, make(rng, at))
		if d, ok := first(alarms(h, Default()), at, within, kinds); ok {
			r.found++
			r.delay = append(r.delay, d)
		}
		if d, ok := first(naive(h), at, within, nil); ok {
			r.naiveFound++
			r.naiveDelay = append(r.naiveDelay, d)
		}
	}
	return r
}

func first(all []alarm, at time.Time, within time.Duration, kinds []string) (days float64, ok bool) {
	for _, a := range all {
		if a.at.After(at) && a.at.Sub(at) <= within && (kinds == nil || slices.Contains(kinds, a.kind)) {
			return a.at.Sub(at).Hours() / 24, true
		}
	}
	return 0, false
}

// healthy counts alarms of nodes without a fault.
func healthy(name string, years int, seed uint64, w world) result {
	rng := rand.New(rand.NewPCG(seed, 45))
	r := result{name: name, nodes: years}
	for range years {
		h := w.history(rng, year, none)
		r.falseYear += float64(len(alarms(h, Default()))) / float64(years)
		r.naiveFalseYear += float64(len(naive(h))) / float64(years)
	}
	return r
}

func long() bool { return os.Getenv("ASSAY_LONG") == "1" }

// TestPlantedFaults makes the table of docs/benchmarks.md: nodes that report every six
// hours for 240 days, with a fault in the middle, and healthy ones. ASSAY_LONG=1 makes
// it as it is printed there.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	n, years := 8, 8
	if long() {
		n, years = 100, 200
	}
	u := usual()
	hourly := u
	hourly.every, hourly.rho = time.Hour, 0.9
	seed := uint64(1)
	t.Logf("seed %d", seed)
	rows := []result{
		planted("drop of 5 %", n, seed, u, 60*day, nil, func(_ *rand.Rand, at time.Time) fault { return drop(at, 0.05) }),
		planted("drop of 3 %", n, seed, u, 60*day, nil, func(_ *rand.Rand, at time.Time) fault { return drop(at, 0.03) }),
		planted("drop of 20 %", n, seed, u, 60*day, nil, func(_ *rand.Rand, at time.Time) fault { return drop(at, 0.2) }),
		planted("drift of 5 % a quarter", n, seed, u, 120*day, nil, func(_ *rand.Rand, at time.Time) fault { return drift(at, 0.05) }),
		planted("flapping, 15 % for about 36 hours", n, seed, u, 60*day, []string{KindFlap}, func(rng *rand.Rand, at time.Time) fault {
			return flapping(rng, at, 0.15, 36*time.Hour)
		}),
		healthy("healthy", years, seed, u),
	}
	if long() {
		rows = append(rows, healthy("healthy, hourly", 12, seed, hourly))
	}
	for _, r := range rows {
		t.Logf("| %s | %d of %d | %s | %.2f | %d | %s | %.1f |", r.name, r.found, r.nodes, quantiles(r.delay), r.falseYear, r.naiveFound, quantiles(r.naiveDelay), r.naiveFalseYear)
	}
	// What is not found lies mostly on nodes whose engine was changed just before.
	for i, b := range []struct{ found, delay float64 }{{0.85, 4}, {0.7, 7}, {0.85, 3}, {0.7, 95}, {0.75, 12}} {
		r := rows[i]
		if got := float64(r.found) / float64(r.nodes); got < b.found-slack(n) {
			t.Errorf("%s: %d of %d were found, less than %g", r.name, r.found, r.nodes, b.found)
		}
		if got := stat.Median(r.delay); !(got <= b.delay) {
			t.Errorf("%s: found after %.1f days, more than %g", r.name, got, b.delay)
		}
	}
	if r := rows[5]; r.falseYear > 0.1+slack(years) {
		t.Errorf("%g false alarms a node-year are more than 0.1", r.falseYear)
	}
	if r := rows[5]; r.naiveFalseYear < 20*r.falseYear {
		t.Errorf("three standard deviations have %g false alarms a node-year, and this %g: say so in the table", r.naiveFalseYear, r.falseYear)
	}
}

// slack is what chance makes of a share of so many: two standard deviations of a half.
func slack(n int) float64 { return 1 / math.Sqrt(float64(n)) }

func quantiles(d []float64) string {
	if len(d) == 0 {
		return "–"
	}
	s := slices.Sorted(slices.Values(d))
	return fmt.Sprintf("%.1f (90 %%: %.1f)", stat.Quantile(s, 50), stat.Quantile(s, 90))
}
