package summary_test

import (
	"slices"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

var fourStreams = assay.Stage{Name: "c4", Kind: assay.LoadClosed, Concurrency: 4}

// watch shows a watchdog one look a second for so many seconds: streams requests
// in flight, and as many tokens in each second as rate gives. It returns the
// seconds in which it barked.
func watch(w *summary.Watchdog, seconds, streams int, rate func(second int) float64) (barks []int) {
	tokens := 0.0
	for s := range seconds {
		if s > 0 {
			tokens += rate(s - 1)
		}
		if v, slow := w.Look(start+int64(s)*second, int64(tokens), float64(s*streams)); slow {
			barks = append(barks, s)
			if !(v.TokensPerSecond < v.FirstMinute/2) || v.At != start+int64(s)*second {
				panic("what it says is not what it saw")
			}
		}
	}
	return barks
}

func TestWatchdogOfSlowInference(t *testing.T) {
	from := func(at int, before, after float64) func(int) float64 {
		return func(s int) float64 {
			if s < at {
				return before
			}
			return after
		}
	}
	for _, c := range []struct {
		name    string
		stage   assay.Stage
		seconds int
		rate    func(int) float64
		want    []int
	}{
		{"steady", fourStreams, 600, from(0, 0, 400), nil},
		{"a third less is no alarm", fourStreams, 600, from(200, 400, 260), nil},
		// A quarter from 200 s on: below half when more than two thirds of the 30 s are slow.
		{"slow", fourStreams, 600, from(200, 400, 100), []int{221}},
		{"stuck", fourStreams, 600, from(200, 400, 0), []int{216}},
		{"slow and well again, twice", fourStreams, 600, func(s int) float64 {
			if s >= 200 && s < 240 || s >= 400 && s < 440 {
				return 0
			}
			return 400
		}, []int{216, 416}},
		{"a pause of ten seconds is not 30 s", fourStreams, 600, func(s int) float64 {
			if s >= 200 && s < 210 {
				return 0
			}
			return 400
		}, nil},
		{"slow from the 62nd second on: seen when 30 s lie behind the first minute", fourStreams, 600, from(62, 400, 0), []int{91}},
		{"a stage of 90 s has no watchdog", fourStreams, 91, from(60, 400, 0), nil},
		{"nothing came in the first half minute, which is not the first minute", fourStreams, 600, from(30, 0, 400), nil},
		{"no token ever", fourStreams, 600, from(0, 0, 0), nil},
		// One answer of 40 s, of which 35 s are reading the prompt.
		{"heaps are not watched", assay.Stage{Kind: assay.LoadClosed, Concurrency: 1}, 600, func(s int) float64 {
			if s%40 >= 35 {
				return 100
			}
			return 0
		}, nil},
		{"a step of a search overloads on purpose", assay.Stage{Kind: assay.LoadClosed, Concurrency: 4, Probe: true}, 600, from(200, 400, 0), nil},
		{"a ramp changes by design", assay.Stage{Kind: assay.LoadRamp, RateFrom: 1, RateTo: 9}, 600, from(200, 400, 0), nil},
		{"all at once thins out", assay.Stage{Kind: assay.LoadOpen}, 600, from(200, 400, 0), nil},
		{"an open load at one rate is watched", assay.Stage{Kind: assay.LoadOpen, Rate: 4}, 600, from(200, 400, 0), []int{216}},
	} {
		if got := watch(summary.NewWatchdog(c.stage), c.seconds, 4, c.rate); !slices.Equal(got, c.want) {
			t.Errorf("%s: barked at %v, want %v", c.name, got, c.want)
		}
	}
}

// More requests in flight at the same total are slower each, fewer are not; and
// a time in which almost none was is no sign.
func TestWatchdogCountsByRequestInFlight(t *testing.T) {
	run := func(streams func(s int) float64, rate func(s int) float64) (barks int) {
		w := summary.NewWatchdog(assay.Stage{Kind: assay.LoadOpen, Rate: 4})
		tokens, busy := 0.0, 0.0
		for s := range 600 {
			if _, slow := w.Look(start+int64(s)*second, int64(tokens), busy); slow {
				barks++
			}
			tokens += rate(s)
			busy += streams(s)
		}
		return barks
	}
	late := func(before, after float64) func(int) float64 {
		return func(s int) float64 {
			if s < 300 {
				return before
			}
			return after
		}
	}
	if n := run(late(8, 8), late(400, 400)); n != 0 {
		t.Errorf("steady: %d", n)
	}
	if n := run(late(8, 2), late(400, 100)); n != 0 {
		t.Errorf("a quarter of the load: %d", n)
	}
	if n := run(late(8, 24), late(400, 400)); n != 1 {
		t.Errorf("three times as many wait for the same tokens: %d", n)
	}
	if n := run(late(8, 0.01), late(400, 0)); n != 0 {
		t.Errorf("nobody asks any more: %d", n)
	}
}

// A client that was stopped sees no tokens meanwhile, and blames nobody.
func TestWatchdogForgetsWhatItSleptThrough(t *testing.T) {
	w := summary.NewWatchdog(fourStreams)
	tokens, at := int64(0), start
	step := func(seconds int, jump int64) {
		for range seconds {
			if v, slow := w.Look(at, tokens, float64(at-start)/1e9*4); slow {
				t.Fatalf("barked after a pause: %+v", v)
			}
			at += second
			tokens += 400
		}
		at += jump
	}
	step(100, 60*second) // stopped for a minute: no token, all of it in flight
	step(100, 0)
}

// What the watchdog said is in the stage's summary, and keeps the schema.
func TestSlowInferenceIsInTheSummary(t *testing.T) {
	m := newMade()
	m.events = []assay.Event{
		{At: start, Kind: assay.EventStageStarted, Stage: "c4", Plan: &fourStreams},
		{At: start + 221*second, Kind: assay.EventSlowInference, Stage: "c4", Text: "slow", Data: map[string]float64{"tokens_per_second": 3, "first_minute": 12}},
		{At: start + 222*second, Kind: assay.EventSlowInference, Stage: "c4", Text: "nonsense", Data: map[string]float64{"tokens_per_second": -3}},
		{At: start + 223*second, Kind: assay.EventSlowInference, Stage: "elsewhere", Text: "of no stage", Data: map[string]float64{"tokens_per_second": 3, "first_minute": 12}},
		{At: start + 600*second, Kind: assay.EventStageEnded, Stage: "c4"},
	}
	sum := of(t, m)
	if len(sum.Stages) != 1 || len(sum.Stages[0].Slowed) != 1 || sum.Stages[0].Slowed[0] != (assay.Slowed{At: start + 221*second, TokensPerSecond: 3, FirstMinute: 12}) {
		t.Errorf("%+v", sum.Stages)
	}
}
