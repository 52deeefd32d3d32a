package load

import (
	"testing"
	"time"
)

// A replay that was interrupted goes on where the trace stopped: what is over is
// not sent again, what was under way goes out at once, what comes is due as much
// later as the trace has it.
func TestReplayGoesOnWhereItStopped(t *testing.T) {
	const s = time.Second
	trace := []Arrival{
		{At: 0},
		{At: 10 * s, Conversation: "a"}, // over
		{At: 20 * s},                    // interrupted
		{At: 5 * s, Conversation: "a", Think: 3 * s},
		{At: 30 * s}, // the last that went out
		{At: 40 * s},
		{At: 60 * s, Conversation: "b"}, // never begun
		{Conversation: "b", Think: 2 * s},
		{At: 7 * s}, // unordered, over
		{At: 10 * s, Conversation: "c"},
		{Conversation: "c", Think: 4 * s},
	}
	sent := map[int]Sent{0: SentDone, 1: SentDone, 2: SentAgain, 4: SentDone, 8: SentDone, 9: SentAgain}
	r := Replay(trace, ReplayOptions{Sent: func(n int) Sent { return sent[n] }})
	st := State{Ended: -1}
	want := func(item int, at time.Duration) {
		t.Helper()
		step := r.Next(st)
		if step.Arrival == nil || step.Arrival != &trace[item] || step.At != at {
			t.Fatalf("%+v, want line %d at %s", step, item, at)
		}
		st.Issued++
		st.Ended = -1
	}
	ends := func(n int, at time.Duration) { st.Ended, st.Freed, st.Now, st.Done = n, at, at, st.Done+1 }

	want(2, 0)
	want(9, 0)
	want(3, 3*s) // its predecessor was over
	ends(1, 5*s) // line 9 ends: the next turn of c is due 4 s later
	want(10, 9*s)
	want(5, 10*s)
	want(6, 30*s)
	ends(5, 33*s) // line 6, and the next turn of b
	want(7, 35*s)
	if step := r.Next(st); !step.Stop {
		t.Errorf("after all: %+v", step)
	}

	all := Replay(trace, ReplayOptions{Sent: func(int) Sent { return SentDone }})
	if step := all.Next(State{Ended: -1}); !step.Stop {
		t.Errorf("with nothing left: %+v", step)
	}
}
