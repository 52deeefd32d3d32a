package trust

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// The chance is the exact share of all choices.
func TestChanceBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 46))
	for range 50 {
		n := 2 + r.IntN(9)
		values, probed, k := make([]int64, n), make([]bool, n), 0
		for i := range values {
			values[i] = r.Int64N(7) - 3 // many are the same
			if probed[i] = r.IntN(2) == 0; probed[i] {
				k++
			}
		}
		sum := func(set int) (s int64, size int) {
			for i, v := range values {
				if set>>i&1 == 1 {
					s, size = s+v, size+1
				}
			}
			return s, size
		}
		own := 0
		for i, p := range probed {
			if p {
				own |= 1 << i
			}
		}
		limit, _ := sum(own)
		below, all := 0.0, 0.0
		for set := range 1 << n {
			if s, size := sum(set); size == k {
				all++
				if s <= limit {
					below++
				}
			}
		}
		if got := chanceBelow(values, probed); !(math.Abs(got-below/all) <= 1e-12) {
			t.Fatalf("%v %v: %v, and by counting %v", values, probed, got, below/all)
		}
	}
	if p := signTail(12, 0); p != 1.0/4096 {
		t.Errorf("twelve coins: %v", p)
	}
}

// engine makes a session's windows: what the engine counts of what others ask for, and
// how much of the probes.
func session(r *rand.Rand, others func(i int) float64, own float64) []Window {
	var out []Window
	for i, s := range Plan(r) {
		w := Window{Probed: s.Probe, Seconds: 27 + 6*r.Float64()}
		x := max(0, others(i))
		if s.Probe {
			w.Received = s.Tokens
			x += own * float64(s.Tokens)
		}
		w.Counted = int64(math.Round(x))
		out = append(out, w)
	}
	return out
}

func noise(r *rand.Rand, mean, deviation float64) func(int) float64 {
	return func(int) float64 { return mean + deviation*r.NormFloat64() }
}

// Honest engines, quiet and busy, are never accused, and those with something to show
// pass; counters of anything else never pass.
func TestAddress(t *testing.T) {
	for _, c := range []struct {
		name     string
		others   func(r *rand.Rand) func(int) float64
		own      float64
		capacity float64
		want     assay.Verdict // of nearly all
	}{
		{"quiet", func(r *rand.Rand) func(int) float64 { return noise(r, 0, 0) }, 1, 1000, assay.Pass},
		{"quiet, capacity unknown", func(r *rand.Rand) func(int) float64 { return noise(r, 0, 0) }, 1, 0, assay.Pass},
		{"some traffic", func(r *rand.Rand) func(int) float64 { return noise(r, 300, 40) }, 1, 1000, assay.Pass},
		{"half busy, callers wait", func(r *rand.Rand) func(int) float64 { return noise(r, 15000, 10) }, 0.5, 1000, assay.Pass},
		{"busy, and it varies", func(r *rand.Rand) func(int) float64 { return noise(r, 5000, 2000) }, 1, 1000, assay.Unknown},
		{"saturated: probes only displace", func(r *rand.Rand) func(int) float64 { return noise(r, 30000, 20) }, 0, 1000, assay.Unknown},
		{"day's end: traffic falls", func(r *rand.Rand) func(int) float64 { return func(i int) float64 { return 3000 - 100*float64(i) } }, 1, 1000, assay.Unknown},
		// Not honest.
		{"another engine's URL", func(r *rand.Rand) func(int) float64 { return noise(r, 0, 0) }, 0, 1000, assay.Fail},
		{"another engine's URL, capacity unknown", func(r *rand.Rand) func(int) float64 { return noise(r, 0, 0) }, 0, 0, assay.Fail},
		{"made up: steady", func(r *rand.Rand) func(int) float64 { return noise(r, 500, 3) }, 0, 1000, assay.Fail},
		{"made up: a little noise", func(r *rand.Rand) func(int) float64 { return noise(r, 500, 6) }, 0, 1000, assay.Fail},
		{"made up: noise that hides", func(r *rand.Rand) func(int) float64 { return noise(r, 5000, 2000) }, 0, 1000, assay.Unknown},
		{"made up: as if saturated", func(r *rand.Rand) func(int) float64 { return noise(r, 30000, 3) }, 0, 1000, assay.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const sessions = 100
			counts := map[assay.Verdict]int{}
			for seed := range uint64(sessions) {
				r := rand.New(rand.NewPCG(seed, 46))
				got := Address(session(r, c.others(r), c.own), AddressOptions{Capacity: c.capacity})
				counts[got.Verdict]++
				if got.Text == "" || len(got.Text) > 400 {
					t.Errorf("says %q", got.Text)
				}
			}
			honest := c.own > 0 || strings.HasPrefix(c.name, "saturated")
			if honest && counts[assay.Fail] > 0 {
				t.Errorf("an honest engine was accused %d times in %d", counts[assay.Fail], sessions)
			}
			if !honest && counts[assay.Pass] > 0 {
				t.Errorf("it passed %d times in %d", counts[assay.Pass], sessions)
			}
			if counts[c.want] < sessions*9/10 {
				t.Errorf("%v, and wanted are %v", counts, c.want)
			}
		})
	}
}

// The stated chances hold where they are largest: an engine that counts just a quarter
// of the probes under wild traffic, and a counter that has nothing to do with them.
func TestAddressKeepsItsChances(t *testing.T) {
	const sessions, chance = 1000, 0.01
	accused, passed := 0, 0
	for seed := range uint64(sessions) {
		r := rand.New(rand.NewPCG(seed, 47))
		wild := func(int) float64 { return math.Exp(5 + 2*r.NormFloat64()) }
		o := AddressOptions{FalseAlarm: chance, FalsePass: chance, Capacity: 1e9}
		if w := session(r, func(i int) float64 { return 1000 + wild(i) }, 0.25); Address(w, o).Verdict == assay.Fail {
			accused++
		}
		if w := session(r, func(i int) float64 { return 1000 + wild(i) }, 0); Address(w, o).Verdict == assay.Pass {
			passed++
		}
	}
	// Three standard deviations above the chance.
	limit := int(sessions*chance + 3*math.Sqrt(sessions*chance))
	if accused > limit || passed > limit {
		t.Errorf("of %d sessions %d accused an honest engine and %d passed a strange counter; at most %d may", sessions, accused, passed, limit)
	}
	t.Logf("of %d sessions at a chance of %v: %d false alarms, %d false passes", sessions, chance, accused, passed)
}

// What does not count does not decide.
func TestAddressNeedsWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 46))
	good := func() []Window { return session(r, noise(r, 0, 0), 1) }
	void := good()
	for i := range void {
		void[i].Void = "the agent measured its engine itself"
	}
	hostile := good()
	for i := range hostile {
		hostile[i].Counted = math.MinInt64 + int64(i)
	}
	huge := good()
	for i := range huge {
		huge[i].Counted = math.MaxInt64
	}
	silent := good()
	for i := range silent {
		silent[i].Received, silent[i].Counted = 0, 0
	}
	long := good()
	for len(long) < 10000 {
		long = append(long, long...)
	}
	for name, w := range map[string][]Window{"none": nil, "few": good()[:7], "void": void, "hostile": hostile, "huge": huge, "nothing came back": silent} {
		if got := Address(w, AddressOptions{Capacity: 1000}); got.Verdict != assay.Unknown || got.Text == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	Address(long, AddressOptions{}) // and it ends
}

// Plans are secret: half of the windows, and no two alike.
func TestPlan(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		p, text, n := Plan(rand.New(rand.NewPCG(seed, 1))), "", 0
		for _, s := range p {
			text += fmt.Sprint(s.Probe)
			if s.Probe {
				n++
			}
			if s.Tokens < minTokens || s.Tokens > maxTokens || s.Delay < 0 || s.Delay >= 1 {
				t.Errorf("step %+v", s)
			}
		}
		if len(p) != Windows || n != Windows/2 || seen[text] {
			t.Errorf("%d of %d windows are probed, or it was there before", n, len(p))
		}
		seen[text] = true
	}
}

func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// A node is compared at its own load, without what the network adds.
func TestSpeed(t *testing.T) {
	claims := []Claim{{Streams: 7.8, TTFT: ms(400), TPOT: ms(30)}, {Streams: 1, TTFT: ms(100), TPOT: ms(10)}}
	probes := func(n int, s Seen) (out []Seen) {
		r := rand.New(rand.NewPCG(1, 1))
		for range n {
			one := s
			one.TTFT += ms(5 * r.Float64())
			one.TPOT += ms(0.5 * r.Float64())
			out = append(out, one)
		}
		return out
	}
	mixed := append(probes(8, Seen{ms(100), ms(10), ms(1), 1}), probes(4, Seen{ms(1000), ms(100), ms(1), 1})...)
	for _, c := range []struct {
		name   string
		seen   []Seen
		claims []Claim
		want   assay.Verdict
	}{
		{"as it says", probes(12, Seen{ms(100), ms(10), ms(1), 1}), claims, assay.Pass},
		{"behind a slow network", probes(12, Seen{ms(1500), ms(10), ms(1400), 1}), claims, assay.Pass},
		{"slow when it is busy, as it says", probes(12, Seen{ms(390), ms(29), ms(1), 8}), claims, assay.Pass},
		{"busier than it ever measured", probes(12, Seen{ms(4000), ms(300), ms(1), 9}), claims, assay.Unknown},
		{"load unknown", probes(12, Seen{ms(4000), ms(300), ms(1), 0}), claims, assay.Unknown},
		{"nothing claimed", probes(12, Seen{ms(4000), ms(300), ms(1), 1}), nil, assay.Unknown},
		{"few probes", probes(9, Seen{ms(4000), ms(300), ms(1), 1}), claims, assay.Unknown},
		{"slow now and then", mixed, claims, assay.Unknown},
		{"tokens half as fast", probes(12, Seen{ms(100), ms(20), ms(1), 1}), claims, assay.Fail},
		{"first token late", probes(12, Seen{ms(300), ms(10), ms(1), 1}), claims, assay.Fail},
		{"hides behind the network", probes(12, Seen{ms(3000), ms(10), ms(2900), 1}), claims, assay.Unknown},
	} {
		if got := Speed(c.seen, c.claims, 0.25); got.Verdict != c.want {
			t.Errorf("%s: %v, %s", c.name, got.Verdict, got.Text)
		}
	}
}
