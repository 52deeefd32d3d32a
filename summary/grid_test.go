package summary_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

// gridded is a stage in virtual time, on an engine whose answers take as long as
// they are: a share of the mean before the first token, the rest in equal gaps.
type gridded struct {
	load    string // closed, count, poisson, constant, capped, at once
	lengths string // constant, exponential, lognormal
	ratio   float64
	seed    uint64
}

const (
	gridSeconds = 100 // that requests are sent for
	gridTokens  = 32  // of an answer, in the mean
	gridStreams = 12
	gridFirst   = 0.05 // of the mean E2E, to the first token
)

func (g gridded) String() string { return fmt.Sprintf("%s, %s, E2E %g", g.load, g.lengths, g.ratio) }

// run makes the stage. offered is what was really asked for, in tokens a second:
// of an open load what was sent, over the time; of a closed one what the streams
// had, over the time that they had it in.
func (g gridded) run() (m *made, offered float64) {
	rng := rand.New(rand.NewPCG(g.seed, 7))
	m = newMade()
	m.manifest.Seed = g.seed
	mean := g.ratio * gridSeconds * float64(second)
	ttft := int64(gridFirst * mean)
	gap := (mean - float64(ttft)) / gridTokens
	tokens, spent, last := 0, int64(0), start
	send := func(at int64) *assay.Request {
		n := gridTokens + 1
		switch g.lengths {
		case "exponential":
			n = 2 + int(rng.ExpFloat64()*(gridTokens-1))
		case "lognormal":
			n = 2 + int((gridTokens-1)*math.Exp(0.8*rng.NormFloat64()-0.32))
		}
		r := m.request("s", at, ttft, int64(gap/1000)*1000, n)
		tokens, spent, last = tokens+n, spent+r.End-at, max(last, r.End)
		return r
	}
	plan := assay.Stage{Name: "s", DurationNS: gridSeconds * second}
	end := start + plan.DurationNS
	// As many at once as streams, and no more requests than take a second.
	rate := min(gridStreams/mean*1e9, 4)
	switch g.load {
	case "closed", "count":
		plan.Kind, plan.Concurrency = assay.LoadClosed, gridStreams
		free := make([]int64, gridStreams)
		for k := range free {
			free[k] = start + int64(k)*1000
		}
		if g.load == "count" {
			plan.DurationNS, plan.Requests = 0, max(1, int(math.Round(gridStreams/g.ratio)))
			if g.ratio < 0.03 {
				plan.Requests = 400
			}
		}
		for i := 0; plan.Requests == 0 || i < plan.Requests; i++ {
			k := 0
			for j := range free {
				if free[j] < free[k] {
					k = j
				}
			}
			if plan.Requests == 0 && free[k] >= end || plan.Requests == 0 && i >= 4000 {
				break
			}
			if plan.Requests > 0 {
				end = free[k]
			}
			r := send(free[k])
			r.Stream = k + 1
			free[k] = r.End
		}
		m.span(plan, start, start, end, last)
		return m, gridStreams * float64(tokens) / (float64(spent) / 1e9)
	case "poisson", "constant":
		plan.Kind, plan.Rate = assay.LoadOpen, rate
		at := float64(start)
		if g.load == "poisson" {
			plan.Burstiness = 1
		}
		for ; at < float64(end); at += 1e9 / rate * map[bool]float64{false: 1, true: rng.ExpFloat64()}[g.load == "poisson"] {
			send(int64(at))
		}
		m.span(plan, start, start, end, max(end, last))
	case "at once":
		plan.Kind, plan.DurationNS, plan.Requests = assay.LoadOpen, 0, 100
		for range plan.Requests {
			send(start)
		}
		m.span(plan, start, start, start+1, last)
	}
	return m, float64(tokens) / gridSeconds
}

func long() bool { return os.Getenv("ASSAY_LONG") == "1" }

// parallel calls f with 0…n−1 on all cores.
func parallel(n int, f func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// Over a grid of loads the throughput of a steady window is what was offered,
// within 3 % in the mean; a stage without a window has the whole stage's figure,
// says so and why; and none has nothing.
func TestThroughputOverAGridOfLoads(t *testing.T) {
	seeds := 10
	if long() {
		seeds = 100
	}
	var grid []gridded
	for _, load := range []string{"closed", "count", "poisson", "constant", "at once"} {
		for _, lengths := range []string{"constant", "exponential", "lognormal"} {
			for _, ratio := range []float64{0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1, 2} {
				grid = append(grid, gridded{load: load, lengths: lengths, ratio: ratio})
			}
		}
	}
	var mu sync.Mutex
	var worst float64
	windows := 0
	parallel(len(grid), func(i int) {
		g := grid[i]
		ratio, n := 0.0, 0
		var squares float64
		for seed := range seeds {
			g.seed = uint64(seed)
			m, offered := g.run()
			s, err := summary.Of(m)
			if err != nil {
				t.Error(err)
				return
			}
			st := s.Stages[0]
			if !(st.RequestsPerSecond > 0) || !(st.OutputTokensPerSecond > 0) || !(st.WholeOutputTokensPerSecond > 0) {
				t.Errorf("%s: %v requests and %v tokens a second", g, st.RequestsPerSecond, st.OutputTokensPerSecond)
			}
			if st.Windowed() != (st.WindowWhy == "") || st.Windowed() != (st.SteadyTo > st.SteadyFrom) {
				t.Errorf("%s: window %d…%d, why %q", g, st.SteadyFrom, st.SteadyTo, st.WindowWhy)
			}
			if !st.Windowed() {
				if st.OutputTokensPerSecond != st.WholeOutputTokensPerSecond || len(s.Trends) != 0 || st.WindowCV != nil {
					t.Errorf("%s: without a window %v tokens a second, %d trends", g, st.OutputTokensPerSecond, len(s.Trends))
				}
				continue
			}
			n++
			ratio += st.OutputTokensPerSecond / offered
			off := st.OutputTokensPerSecond/offered - 1
			squares += off * off
		}
		if g.load == "at once" && n > 0 || g.ratio == 2 && n > 0 || g.ratio <= 0.03 && g.load != "at once" && n < seeds {
			t.Errorf("%s: %d of %d have a window", g, n, seeds)
		}
		if n == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		windows += n
		off := ratio/float64(n) - 1
		worst = max(worst, math.Abs(off))
		// With fewer than a hundred seeds the mean has an error of its own.
		allowed := 0.03
		if n < 100 {
			allowed += 2 * math.Sqrt(squares) / float64(n)
		}
		t.Logf("%-32s %3d windows, %+.2f %%", g, n, off*100)
		if !(math.Abs(off) <= allowed) {
			t.Errorf("%s: off by %+.2f %% in the mean of %d", g, off*100, n)
		}
	})
	t.Logf("%d windows, the worst mean is off by %.2f %%", windows, worst*100)
}

// Clean loads raise a false alarm, of any trend, in no more than one run of a
// hundred: filling and draining are no drift.
func TestCleanLoadsRaiseNoAlarm(t *testing.T) {
	runs := 200
	if long() {
		runs = 1000
	}
	var mu sync.Mutex
	alarms, tested := 0, 0
	parallel(runs, func(i int) {
		g := gridded{
			load: []string{"closed", "poisson", "constant", "count"}[i%4], lengths: []string{"constant", "exponential", "lognormal"}[i/4%3],
			ratio: []float64{0.01, 0.03, 0.1, 0.2}[i/12%4], seed: uint64(1000 + i),
		}
		m, _ := g.run()
		s, err := summary.Of(m)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		if len(s.Trends) > 0 {
			tested++
		}
		for _, x := range s.Trends {
			if x.Found == assay.Fail {
				alarms++
				t.Logf("%s, seed %d: %s: %s", g, g.seed, x.Of, x.Why)
				break
			}
		}
	})
	t.Logf("%d alarms in %d runs, %d of them with a window", alarms, runs, tested)
	if alarms > runs/100 || tested < runs/2 {
		t.Errorf("%d of %d clean runs raise an alarm, and %d were tested", alarms, runs, tested)
	}
}
