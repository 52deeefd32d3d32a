package trend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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

// planted runs nodes with a fault at the middle of a year of 240 days.
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

func TestPlantedScratch(t *testing.T) {
	if os.Getenv("CAL") == "" {
		t.Skip()
	}
	n := 60
	u := usual()
	hourly := u
	hourly.every = time.Hour
	hourly.rho = 0.9
	flat := u
	flat.rho, flat.slow, flat.cycle = 0, 0, 0
	rows := []result{
		planted("drop 5 %", n, 1, u, 60*day, nil, func(_ *rand.Rand, at time.Time) fault { return drop(at, 0.05) }),
		planted("drop 3 %", n, 2, u, 60*day, nil, func(_ *rand.Rand, at time.Time) fault { return drop(at, 0.03) }),
		planted("drop 20 %", n, 3, u, 60*day, nil, func(_ *rand.Rand, at time.Time) fault { return drop(at, 0.2) }),
		planted("drift 5 %/quarter", n, 4, u, 120*day, nil, func(_ *rand.Rand, at time.Time) fault { return drift(at, 0.05) }),
		planted("flapping 15 %", n, 5, u, 60*day, []string{KindFlap}, func(rng *rand.Rand, at time.Time) fault { return flapping(rng, at, 0.15, 36*time.Hour) }),
		healthy("healthy", 60, 6, u),
		healthy("healthy, iid", 60, 7, flat),
		healthy("healthy hourly", 6, 8, hourly),
	}
	for _, r := range rows {
		fmt.Println(r.name, r.found, r.nodes, quantiles(r.delay), "naive", r.naiveFound, quantiles(r.naiveDelay), "false/yr", r.falseYear, r.naiveFalseYear)
	}
}

func quantiles(d []float64) string {
	if len(d) == 0 {
		return "–"
	}
	s := slices.Sorted(slices.Values(d))
	return fmt.Sprintf("%.1f (90 %%: %.1f)", stat.Quantile(s, 50), stat.Quantile(s, 90))
}

var _ = strings.TrimSpace
var _ = math.Abs
