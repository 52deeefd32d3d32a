package summary_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// The summary of the committed run is the committed summary; the journal's tests
// write both with -update.
func TestGoldenSummary(t *testing.T) {
	const dir = "../journal/testdata/run-v1"
	run, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := of(t, run)
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(dir + "/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the summary differs from %s/summary.json; if that is meant, run go test ./journal -update and look at the difference\n%.2000s", dir, got)
	}
}

// *journal.Run says how it ended; a Source that does not is never complete.
var _ summary.Ending = (*journal.Run)(nil)

type silent struct{ summary.Source }

func TestUnstatedIsNotComplete(t *testing.T) {
	m := newMade()
	if got := of(t, m).Status; got != assay.StatusComplete {
		t.Errorf("status %s", got)
	}
	if got := of(t, silent{m}).Status; got != assay.StatusPartial {
		t.Errorf("status %s of a source that does not say", got)
	}
	m.torn = []string{"requests.jsonl: torn"}
	if got := of(t, m).Status; got != assay.StatusPartial {
		t.Errorf("status %s of a torn run", got)
	}
}

// A stage whose end was not recorded, with requests long after the last event, and
// one that has its end: their windows together are as few as those of other runs.
func TestWindowsOfAnUnendedStage(t *testing.T) {
	m := newMade()
	m.status = ""
	plan := assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}
	m.events = append(m.events, assay.Event{At: start, Kind: assay.EventStageStarted, Stage: "a", Plan: &plan})
	m.span(assay.Stage{Name: "b", Kind: assay.LoadClosed, Concurrency: 1}, start, start, start+1000*second, start+1000*second)
	for k := range int64(5000) {
		m.request("a", start+k*second, 10*ms, 10*ms, 2)
	}
	s := of(t, m)
	if n := len(s.Windows); n > 1024+2*2 || n < 512 {
		t.Fatalf("%d windows", n)
	}
	tokens, last := int64(0), map[string]int64{}
	for _, w := range s.Windows {
		if from, ok := last[w.Stage]; ok && w.From != from {
			t.Fatalf("a hole before %+v", w)
		}
		last[w.Stage] = w.To
		tokens += w.Tokens
	}
	if tokens != 10_000 || last["b"] != start+1000*second || last["a"] != s.Stages[0].Ended {
		t.Errorf("%d tokens, windows to %v", tokens, last)
	}
}

// Whatever is in the lines, a summary comes out, with shares in [0,1] and no
// number that JSON cannot hold.
func TestAnyRunSummarises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMade()
		at := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(start, start+20*second), rapid.Int64())
		name := rapid.SampledFrom([]string{"a", "b", ""})
		count := rapid.OneOf(rapid.IntRange(-3, 50), rapid.Int())
		for range rapid.IntRange(0, 6).Draw(t, "events") {
			kinds := []assay.EventKind{assay.EventStageStarted, assay.EventStageSteady, assay.EventStageLoadEnd, assay.EventStageEnded, assay.EventResumed, assay.EventLimit, "later"}
			e := assay.Event{At: at.Draw(t, "at"), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Stage: name.Draw(t, "stage"),
				Data: map[string]float64{"down_seconds": rapid.Float64().Draw(t, "down")}}
			if rapid.Bool().Draw(t, "plan") {
				e.Plan = &assay.Stage{Kind: rapid.SampledFrom([]assay.LoadKind{assay.LoadClosed, assay.LoadOpen}).Draw(t, "load"), Concurrency: count.Draw(t, "n"), Rate: rapid.Float64().Draw(t, "rate")}
			}
			m.events = append(m.events, e)
		}
		readings := []string{"client_in_flight", "client_cpu_seconds_total", "client_lag_us", "sampling_cpu_seconds_total", "other"}
		for _, n := range assay.ReadingNames() {
			readings = append(readings, n.Name)
		}
		for range rapid.IntRange(0, 30).Draw(t, "readings") {
			r := assay.Reading{At: at.Draw(t, "at"), Name: rapid.SampledFrom(readings).Draw(t, "name"),
				Source: rapid.SampledFrom([]string{"", "nvml", "dcgm"}).Draw(t, "source"), Device: rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "device")}
			if rapid.Bool().Draw(t, "value") {
				v := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Float64Range(0, 1000)).Draw(t, "v")
				r.Value = &v
			}
			r.Counts = rapid.SliceOfN(rapid.Int64Range(-5, 1<<50), 0, 5).Draw(t, "counts")
			m.readings = append(m.readings, r)
		}
		for range rapid.IntRange(0, 12).Draw(t, "requests") {
			r := assay.Request{ID: "x", Stage: name.Draw(t, "stage"), Warmup: rapid.Bool().Draw(t, "warmup"), Scheduled: at.Draw(t, "a"), Eligible: at.Draw(t, "b"), Sent: at.Draw(t, "c"),
				First: at.Draw(t, "d"), Last: at.Draw(t, "e"), End: at.Draw(t, "f"), Gaps: rapid.SliceOfN(rapid.Int32(), 0, 5).Draw(t, "gaps"),
				ChunkTokens: rapid.SliceOfN(rapid.Int32Range(-1, 9), 0, 6).Draw(t, "chunks"), OutputTokens: count.Draw(t, "out"), InputTokens: count.Draw(t, "in"), AskedOutput: count.Draw(t, "asked"),
				Reads: rapid.IntRange(0, 50).Draw(t, "reads"), FirstMerged: rapid.Bool().Draw(t, "fm"), Error: rapid.SampledFrom(append(assay.Failures(), "", "", "", "")).Draw(t, "error"),
				TokensFrom: rapid.SampledFrom([]string{"", "usage", "chunks"}).Draw(t, "from")}
			r.MergedReads = rapid.IntRange(0, r.Reads).Draw(t, "merged")
			if rapid.Bool().Draw(t, "engine") {
				r.Engine = &assay.EngineTimings{Eval: at.Draw(t, "eval"), EvalIntervals: count.Draw(t, "intervals"), Prompt: at.Draw(t, "prompt")}
			}
			m.requests = append(m.requests, r)
		}
		m.manifest.Judge = assay.Judge{Search: assay.SearchMaxConcurrency, Objectives: []assay.Objective{{Metric: "ttft", Stat: "p99", Max: 5}, {Metric: "nonsense", Max: 1}},
			Goodput: []assay.Limit{{Metric: "tpot", MaxMS: 5}}, Percentiles: []float64{99.9, -4, 200, math.NaN()}}
		s, err := summary.Of(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		if bytes.Contains(b, []byte("NaN")) {
			t.Fatal("NaN")
		}
		if n := len(s.Windows); n > 1024+2*len(s.Stages) {
			t.Fatalf("%d windows", n)
		}
		for _, g := range s.GPUs {
			for reason, v := range g.Throttled {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%s for %v of the time", reason, v)
				}
			}
			for name, st := range g.Stats {
				if !(st.Min <= st.Mean && st.Mean <= st.Max) {
					t.Fatalf("%s: %+v", name, st)
				}
			}
		}
		for _, st := range s.Stages {
			for what, v := range map[string]float64{"error rate": st.ErrorRate, "good share": st.GoodShare, "marked": st.MarkedGapShare, "merged": s.Client.MergedShare} {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%s is %v", what, v)
				}
			}
			for what, v := range map[string]float64{"requests": st.RequestsPerSecond, "tokens": st.OutputTokensPerSecond, "whole": st.WholeRequestsPerSecond} {
				if !(v >= 0) || math.IsInf(v, 0) {
					t.Fatalf("%s a second: %v", what, v)
				}
			}
			for _, d := range []assay.Dist{st.TTFT, st.TPOT, st.ITL, st.E2E} {
				for _, p := range d.Percentiles {
					if !(p.Value >= d.Min && p.Value <= d.Max) || p.Held() && !(p.Lo <= p.Value && p.Value <= p.Hi) {
						t.Fatalf("%+v in %v…%v", p, d.Min, d.Max)
					}
				}
			}
		}
	})
}
