// Package stillness measures, beside a check of speed or latency, how often the
// machine itself stood still in the same seconds, so that such a check can tell
// its own failure from the machine's.
//
// A bare loop beside the measurement would take a core from it. So a thread
// wakes every 10 ms, does a fixed piece of work of about 0.2 ms and looks at the
// clock: work that took longer than its median ÷ 60 %, or a wake-up that left
// less than 60 % of the interval, is an interval in which the machine stood
// still. There are two such threads, which take about 4 % of one core: one at
// realtime priority, where that is permitted, sees what the machine does to
// everybody (a host that takes the processor away), one at normal priority also
// what others on it do to an engine. The worse of both decides.
//
// Seen on two cores with a load average of 15, builds and tests of others: 0 to
// 1.6 % (once 13 %) at realtime priority, 10 to 27 % at normal priority.
package stillness

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

const (
	every = 10 * time.Millisecond
	work  = 200 * time.Microsecond
	// full is the share of its median speed below which the loop stood still.
	full = 0.6
	// most is the share of such intervals on a machine that counts as quiet.
	most = 0.05
	// least is how many intervals it takes to say anything.
	least = 50
	// tries of a check that times something.
	tries = 3
	// patience is how long a test program may spend on further tries in all: a
	// machine that stands still for an hour must not make the run last three.
	patience = 4 * time.Minute
)

// Seen is what the meter saw.
type Seen struct {
	Intervals int           // of 10 ms
	Still     int           // of these, in which the machine stood still
	Longest   time.Duration // the longest time without a run of the loop
	Realtime  bool          // the meter had realtime priority
	Crowded   float64       // the share by the thread at normal priority
}

// Share is the share of intervals in which the machine stood still, by the
// thread that saw more of it.
func (s Seen) Share() float64 { return max(s.share(), s.Crowded) }

func (s Seen) share() float64 {
	if s.Intervals == 0 {
		return 1
	}
	return float64(s.Still) / float64(s.Intervals)
}

// Quiet reports whether the machine was quiet. Too short a time is not known to
// have been.
func (s Seen) Quiet() bool { return s.Intervals >= least && s.Share() < most }

func (s Seen) String() string {
	return fmt.Sprintf("the machine stood still for %.1f %% of the time (%.1f %% at realtime priority), for %s at most",
		s.Share()*100, s.share()*100, s.Longest.Round(100*time.Microsecond))
}

// Watch starts the meter; the function that it returns ends it and says what it
// saw.
func Watch() (stop func() Seen) {
	var end atomic.Bool
	first, second := watch(&end, true), watch(&end, false)
	return func() Seen {
		end.Store(true)
		s := <-first
		s.Crowded = (<-second).share()
		return s
	}
}

func watch(end *atomic.Bool, wanted bool) <-chan Seen {
	out := make(chan Seen, 1)
	go func() {
		// The thread keeps its priority, and so must end with the goroutine: it
		// is never unlocked.
		runtime.LockOSThread()
		m := meter{seen: Seen{Realtime: wanted && realtime()}}
		m.rounds = calibrate()
		for due := time.Now().Add(every); !end.Load(); due = due.Add(every) {
			nap(time.Until(due))
			m.look(due)
			if late := time.Since(due); late > every { // those intervals are gone
				due = due.Add(late.Truncate(every))
			}
		}
		out <- m.result()
	}()
	return out
}

type meter struct {
	rounds int
	took   []time.Duration // of the work
	late   []time.Duration // of the wake-up before it
	seen   Seen
}

func (m *meter) look(due time.Time) {
	start := time.Now()
	spin(m.rounds)
	m.took = append(m.took, time.Since(start))
	m.late = append(m.late, start.Sub(due))
}

func (m *meter) result() Seen {
	s := m.seen
	sorted := slices.Clone(m.took)
	slices.Sort(sorted)
	if len(sorted) == 0 {
		return s
	}
	median := sorted[len(sorted)/2]
	for i, took := range m.took {
		// An interval that began whole intervals late was as many.
		gone := int(m.late[i] / every)
		s.Intervals += 1 + gone
		s.Still += gone
		lost := m.late[i] % every
		if float64(took)*full > float64(median) || float64(lost) > (1-full)*float64(every) {
			s.Still++
		}
		s.Longest = max(s.Longest, m.late[i], took-median)
	}
	return s
}

// calibrate gives the rounds of spin that take about as long as work.
func calibrate() int {
	rounds := 1000
	for {
		best := time.Duration(1 << 62)
		for range 5 {
			start := time.Now()
			spin(rounds)
			best = min(best, time.Since(start))
		}
		if best > work/4 {
			return max(1, int(float64(rounds)*float64(work)/float64(best)))
		}
		rounds *= 2
	}
}

var sink atomic.Uint64

// spin does a fixed piece of work in registers.
func spin(rounds int) {
	x := uint64(88172645463325252)
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(x)
}

// spent is how long this test program has spent on further tries, in ns.
var spent atomic.Int64

// Timed runs a check that times something, up to three times. One that fails
// while the machine was quiet fails; if the machine stood still each time that
// it failed, the check is skipped with that as the reason. Exact checks do not
// belong into it: they never skip.
func Timed(t *testing.T, what string, try func() error) {
	t.Helper()
	var failed error
	var seen Seen
	for i := range tries {
		start := time.Now()
		stop := Watch()
		err := try()
		seen = stop()
		if i > 0 {
			spent.Add(int64(time.Since(start)))
		}
		if err == nil {
			return
		}
		t.Logf("%s, try %d: %v; %s", what, i+1, err, seen)
		if seen.Quiet() {
			failed = err
		}
		if spent.Load() > int64(patience) {
			break
		}
	}
	if failed != nil {
		t.Errorf("%s: %v", what, failed)
		return
	}
	t.Skipf("skipped: %s", seen)
}
