package simulate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func ask1(n int, at int64) *sequence {
	return &sequence{reply: &reply{}, output: n, arrived: at, pos: -1}
}

type given struct {
	q   *sequence
	n   int
	due int64
}

// play runs a law to its end in virtual time.
func play(l law) (all []given) {
	for l.next() != never {
		l.advance(l.next(), func(q *sequence, n int, due int64) bool {
			all = append(all, given{q, n, due})
			return true
		})
	}
	return all
}

func TestFixedScheduleIsAbsolute(t *testing.T) {
	const ttft, itl = 50 * time.Millisecond, 10 * time.Millisecond
	for _, tt := range []struct {
		name   string
		tokens int
		chunk  int
		late   int64 // how late the pacer asks
		want   []int64
	}{
		{"one", 1, 1, 0, []int64{50}},
		{"four", 4, 1, 0, []int64{50, 60, 70, 80}},
		{"asked late", 4, 1, 7e6, []int64{50, 60, 70, 80}},
		{"asked once at the end", 4, 1, 1e9, []int64{50, 60, 70, 80}},
		{"two a chunk", 5, 2, 0, []int64{50, 70, 90}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newFixed(Config{TTFT: ttft, ITL: itl, TokensPerChunk: tt.chunk}, new(gauges))
			q := ask1(tt.tokens, 1e9)
			l.admit(q)
			var got []int64
			tokens := 0
			for l.next() != never {
				l.advance(l.next()+tt.late, func(_ *sequence, n int, due int64) bool {
					got = append(got, (due-1e9)/1e6)
					tokens += n
					return true
				})
			}
			if tokens != tt.tokens {
				t.Errorf("gave %d tokens, want %d", tokens, tt.tokens)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("due %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("due %v, want %v", got, tt.want)
				}
			}
			if l.g.running.Load() != 0 {
				t.Errorf("still %d running", l.g.running.Load())
			}
		})
	}
}

func TestFixedDrift(t *testing.T) {
	l := newFixed(Config{ITL: 10 * time.Millisecond, TokensPerChunk: 1, Faults: Faults{Drift: 0.5}}, new(gauges))
	l.admit(ask1(3, int64(2*time.Minute))) // gaps have doubled by then
	got := play(l)
	if gap := got[1].due - got[0].due; gap != 20e6 {
		t.Errorf("gap after two minutes of 50 %% a minute is %v ns, want 20 ms", gap)
	}
}

func TestSlowdown(t *testing.T) {
	slow := Faults{SlowAt: time.Minute, SlowBy: 3}
	f := newFixed(Config{ITL: 10 * time.Millisecond, TokensPerChunk: 1, Faults: slow}, new(gauges))
	f.admit(ask1(3, int64(30*time.Second)))
	f.admit(ask1(3, int64(90*time.Second)))
	got := play(f)
	if before, after := got[1].due-got[0].due, got[4].due-got[3].due; before != 10e6 || after != 30e6 {
		t.Errorf("gaps are %v ns before and %v ns after, want 10 and 30 ms", before, after)
	}
}

// The heap gives every token once, in order of time, also when sequences are
// dropped from its middle.
func TestFixedOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := newFixed(Config{ITL: time.Millisecond, TokensPerChunk: 1}, new(gauges))
	var all []*sequence
	want := 0
	for range 500 {
		q := ask1(1+r.IntN(20), r.Int64N(1e8))
		all = append(all, q)
		l.admit(q)
		want += q.output
	}
	for i := 0; i < 500; i += 3 {
		l.drop(all[i])
		l.drop(all[i]) // twice does no harm
		want -= all[i].output
	}
	got := play(l)
	if len(got) != want {
		t.Errorf("gave %d tokens, want %d", len(got), want)
	}
	for i := 1; i < len(got); i++ {
		if got[i].due < got[i-1].due {
			t.Fatalf("token %d is due before the one given earlier", i)
		}
	}
}

// example is the worked example of docs/simulate.md.
var example = Batching{
	Slots:        128,
	PrefillRate:  20000,
	StepBase:     10 * time.Millisecond,
	StepPerSeq:   100 * time.Microsecond,
	KVTokens:     9600,
	SwapPerToken: 2 * time.Microsecond,
}

const exampleIn, exampleOut = 100, 200

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*math.Abs(want)) {
		t.Errorf("%s is %.6g, want %.6g within %.3g %%", what, got, want, within*100)
	}
}

// The numbers that the docs print, computed by hand there.
func TestWorkedExample(t *testing.T) {
	b := example
	near(t, "T(1)", b.Latency(1, exampleIn, exampleOut), 0.005+199*0.0101, 1e-9)
	near(t, "peak", b.Peak(exampleIn, exampleOut), 32, 1e-9)
	near(t, "X(32)", b.Throughput(32, exampleIn, exampleOut), 1/(0.005+199*0.0132/32), 1e-9)
	near(t, "knee", b.Knee(exampleIn, exampleOut), 23.1365, 1e-4)
	cliff, ok := b.Cliff(exampleIn, exampleOut)
	if !ok {
		t.Fatal("no cliff")
	}
	near(t, "cliff", cliff, 38.513, 1e-4)
	near(t, "X(cliff)/X(peak)", b.Throughput(cliff, exampleIn, exampleOut)/b.Throughput(32, exampleIn, exampleOut), 0.9, 1e-9)
}

func TestClosedFormEdges(t *testing.T) {
	b := example
	b.KVTokens = 0
	if got := b.Peak(exampleIn, exampleOut); got != 128 {
		t.Errorf("without a KV limit the peak is %v, want all slots", got)
	}
	if _, ok := b.Cliff(exampleIn, exampleOut); ok {
		t.Error("a cliff without a KV limit")
	}
	near(t, "latency at twice the slots", b.Latency(256, exampleIn, exampleOut), 2*b.Latency(128, exampleIn, exampleOut), 1e-9)
	b = example
	b.SwapPerToken = time.Nanosecond // swapping is cheaper than batching gains
	if got := b.Peak(exampleIn, exampleOut); got != 128 {
		t.Errorf("with cheap swapping the peak is %v, want all slots", got)
	}
}

// closedLoop plays n clients that ask again as soon as they are answered.
func closedLoop(b Batching, n, in, out, requests int) (throughput, latency float64) {
	l := newLoop(Config{Batching: b}, new(gauges))
	start := func(at int64) {
		l.admit(&sequence{reply: &reply{}, input: in, output: out, arrived: at, pos: -1})
	}
	for i := range n {
		start(int64(i) * 1e6)
	}
	warm, done := 2*n, 0
	var from, last int64
	var sum float64
	for done < warm+requests {
		var ended []int64
		l.advance(l.next(), func(q *sequence, _ int, due int64) bool {
			if q.left() == 0 {
				ended = append(ended, due)
				done++
				if done == warm {
					from = due
				} else if done > warm {
					sum += float64(due - q.arrived)
				}
				last = due
			}
			return true
		})
		for _, at := range ended {
			start(at)
		}
	}
	return float64(done-warm) / (float64(last-from) / 1e9), sum / float64(done-warm) / 1e9
}

func TestLoopFollowsClosedForm(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8, 16, 24, 32, 36, 48, 64, 128, 192} {
		x, r := closedLoop(example, n, exampleIn, exampleOut, 40*n)
		near(t, "throughput", x, example.Throughput(float64(n), exampleIn, exampleOut), 0.02)
		near(t, "latency", r, example.Latency(float64(n), exampleIn, exampleOut), 0.02)
		if t.Failed() {
			t.Fatalf("at n = %d", n)
		}
	}
}

// The loop is never behind because it was asked late: iterations follow each
// other in virtual time.
func TestLoopKeepsVirtualTime(t *testing.T) {
	run := func(late int64) (due []int64) {
		l := newLoop(Config{Batching: example}, new(gauges))
		for i := range 3 {
			l.admit(&sequence{reply: &reply{}, input: 100, output: 10, arrived: int64(i), pos: -1})
		}
		for l.next() != never {
			l.advance(l.next()+late, func(_ *sequence, _ int, at int64) bool {
				due = append(due, at)
				return true
			})
		}
		return due
	}
	a, b := run(0), run(30e6)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("token %d is due at %d when asked in time, at %d when asked late", i, a[i], b[i])
		}
	}
}

func TestLoopSlotsAndPreemption(t *testing.T) {
	g := new(gauges)
	b := example
	b.Slots, b.KVTokens = 2, 150
	l := newLoop(Config{Batching: b}, g)
	var all []*sequence
	for range 4 {
		q := &sequence{reply: &reply{}, input: 50, output: 50, pos: -1}
		all = append(all, q)
		l.admit(q)
	}
	keep := func(*sequence, int, int64) bool { return true }
	for range 6 {
		l.advance(l.next(), keep)
	}
	if r, w := g.running.Load(), g.waiting.Load(); r != 2 || w != 2 {
		t.Errorf("%d running and %d waiting, want 2 and 2", r, w)
	}
	if p := g.preempted.Load(); p != 1 {
		t.Errorf("%d preempted, want 1: the second does not fit into the cache", p)
	}
	l.drop(all[0])
	l.drop(all[3])
	if r, w := g.reserved.Load(), g.waiting.Load(); r != 100 || w != 1 {
		t.Errorf("after drops %d tokens are reserved and %d wait, want 100 and 1", r, w)
	}
	play(l)
	if all[1].left() != 0 || all[2].left() != 0 || all[0].left() == 0 || all[3].given != 0 {
		t.Error("the wrong sequences were completed")
	}
	if l.reserved != 0 {
		t.Errorf("%d tokens still reserved", l.reserved)
	}
}

// Two requests, worked out by hand, in milliseconds.
func TestLoopTimeline(t *testing.T) {
	b := Batching{Slots: 4, PrefillRate: 1000, StepBase: 10 * time.Millisecond, StepPerSeq: time.Millisecond}
	l := newLoop(Config{Batching: b}, new(gauges))
	one := &sequence{reply: &reply{}, input: 10, output: 3, pos: -1}
	two := &sequence{reply: &reply{}, input: 20, output: 2, arrived: 5e6, pos: -1}
	l.admit(two)
	l.admit(one) // handed over later, but arrived earlier
	want := []given{
		{one, 1, 10},               // prefill of 10 tokens
		{two, 1, 30},               // 20 tokens; the first one waits
		{one, 1, 42}, {two, 1, 42}, // a step of two
		{one, 1, 53}, // a step of one
	}
	got := play(l)
	if len(got) != len(want) {
		t.Fatalf("%d tokens, want %d", len(got), len(want))
	}
	for i, w := range want {
		if got[i].q != w.q || got[i].due != w.due*1e6 {
			t.Errorf("token %d is due at %d ns, want %d ms", i, got[i].due, w.due)
		}
	}
}
