package summary_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// checkedRun is 10 requests of 11 tokens, 20 ms to the first and 10 ms between
// them, two of them warm-ups, and an engine that says the same less 3 ms of HTTP.
func checkedRun() (*made, map[string]float64, map[string]float64) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start, start+2*second, start+2*second)
	for i := range 10 {
		m.request("a", start+int64(i)*second/5, 20*ms, 10*ms, 11).Warmup = i < 2
	}
	before := map[string]float64{"requests": 5, "requests_aborted": 1, "prompt_tokens": 70, "output_tokens": 12, "started_seconds": 1e9,
		"ttft_seconds": 0.5, "ttft_count": 5, "e2e_seconds": 1.5, "e2e_count": 5, "after_first_seconds": 1, "after_first_count": 5,
		"step_seconds": 1, "step_count": 7, "tpot_seconds": 0.1, "tpot_count": 5}
	after := maps.Clone(before)
	for name, d := range map[string]float64{"requests": 10, "prompt_tokens": 1000, "output_tokens": 110, "ttft_seconds": 0.170, "ttft_count": 10,
		"e2e_seconds": 1.170, "e2e_count": 10, "after_first_seconds": 1, "after_first_count": 10, "step_seconds": 1, "step_count": 100,
		"tpot_seconds": 0.1, "tpot_count": 10} {
		after[name] += d
	}
	return m, before, after
}

// edges puts the engine's totals before and after the stage's other events.
func (m *made) edges(stage, kind string, before, after map[string]float64) {
	m.events = append([]assay.Event{{At: start - 1, Kind: assay.EventEngineBefore, Stage: stage, Text: kind, Data: before}}, m.events...)
	m.events = append(m.events, assay.Event{At: start + 3*second, Kind: assay.EventEngineAfter, Stage: stage, Text: kind, Data: after})
}

// Ours beside the engine's, in sums: what agrees, what does not, and what
// cannot be compared.
func TestEngineCheck(t *testing.T) {
	tests := map[string]struct {
		change  func(m *made, before, after map[string]float64)
		verdict assay.Verdict
		rows    int
		says    string // in the warning; empty: none
	}{
		"agrees": {nil, assay.Pass, 8, ""},
		"a first token that came late here": {func(_ *made, _, after map[string]float64) {
			after["ttft_seconds"] -= 0.110 // 11 ms a request: more than HTTP takes
		}, assay.Fail, 8, "mean ttft 20 ms here and 6 ms by its page"},
		"tokens that we did not see": {func(_ *made, _, after map[string]float64) { after["output_tokens"]-- }, assay.Fail, 3,
			"110 output tokens here and 109"},
		"a time a token that is wrong": {func(_ *made, _, after map[string]float64) {
			after["tpot_seconds"] += 0.01
			after["e2e_seconds"] += 0.1
		}, assay.Fail, 8, "mean tpot 10 ms here and 11 ms"},
		"a front end that was late with first tokens": {func(_ *made, _, after map[string]float64) {
			after["after_first_seconds"] += 0.1
			after["tpot_seconds"] += 0.01
			after["step_seconds"] += 0.1
			after["step_count"] += 10
		}, assay.Pass, 8, ""},
		"steps that were sent together": {func(_ *made, _, after map[string]float64) { after["step_count"] += 20 }, assay.Pass, 8, ""},
		"chunks that were taken for nothing": {func(m *made, _, after map[string]float64) {
			after["step_count"] += 20
			m.requests[2].Other = "eed"
		}, assay.Fail, 8, "mean gap 10 ms here and 8.333 ms"},
		"more chunks than steps": {func(_ *made, _, after map[string]float64) { after["step_count"] -= 20 }, assay.Fail, 8, "mean gap 10 ms here and 12.5"},
		"another client": {func(_ *made, _, after map[string]float64) {
			after["requests"] += 12
			after["output_tokens"] += 600
		}, assay.Unknown, 3, "12 requests, 600 output tokens): others used it"},
		"a restart":          {func(_ *made, _, after map[string]float64) { after["started_seconds"] += 60 }, assay.Unknown, 0, "started anew"},
		"counters that fell": {func(_ *made, before, _ map[string]float64) { before["requests"] = 1000 }, assay.Unknown, 0, "counters fell"},
		"a page of one of several engines": {func(_ *made, _, after map[string]float64) { after["requests"] -= 5 }, assay.Fail, 3,
			"one of several engines behind the address"},
		"answers that are failures here": {func(m *made, _, _ map[string]float64) {
			m.requests[4].Error = assay.FailEmpty
		}, assay.Fail, 3, "9 requests here and 10 by its page (1 requests failed here although their stream came to its end)"},
		"requests that were cut off": {func(m *made, _, after map[string]float64) {
			m.requests[4].Error = assay.FailCensored
			after["requests"]--
			after["requests_aborted"]++
		}, assay.Unknown, 3, "1 requests were sent and not answered in full"},
		"refused requests are not in its sums": {func(m *made, _, _ map[string]float64) {
			r := m.request("a", start, 0, 0, 1)
			r.Error, r.First, r.Last, r.OutputTokens = assay.FailHTTP429, 0, 0, 0
		}, assay.Pass, 8, ""},
		"a time of another number of requests": {func(_ *made, _, after map[string]float64) { after["ttft_count"]-- }, assay.Unknown, 7,
			"the engine's ttft is of 9 requests and ours of 10"},
		"tokens held back": {func(m *made, _, _ map[string]float64) {
			for i := range m.requests {
				r := &m.requests[i]
				r.First, r.Gaps, r.ChunkTokens = r.Last-10*ms, []int32{10000}, []int32{10, 1}
			}
		}, assay.Unknown, 4, "held them back"},
		"a clock that was stepped": {func(m *made, _, _ map[string]float64) { m.requests[3].ClockStep = true }, assay.Unknown, 1, "no times of their own"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, before, after := checkedRun()
			if tt.change != nil {
				tt.change(m, before, after)
			}
			m.edges("a", "vllm", before, after)
			s := of(t, m)
			c := s.Stages[0].EngineCheck
			if c == nil || c.Engine != "vllm" || c.Verdict != tt.verdict || len(c.Compared) != tt.rows {
				t.Fatalf("%+v; want %s with %d figures", c, tt.verdict, tt.rows)
			}
			text := ""
			for _, w := range s.Warnings {
				if strings.HasPrefix(w.Kind, "engine_") {
					text = w.Text
				}
			}
			if tt.says == "" && text != "" || !strings.Contains(text, tt.says) {
				t.Errorf("warning %q, want %q", text, tt.says)
			}
			if warned(s, "engine_disagrees") != (tt.verdict == assay.Fail) {
				t.Errorf("warnings %v", s.Warnings)
			}
		})
	}
}

// A page that could not be read, or was read at one edge only, is not compared.
func TestEngineCheckNeedsBothEdges(t *testing.T) {
	m, before, after := checkedRun()
	m.edges("a", "vllm", before, after)
	m.events[len(m.events)-1].Data = nil
	m.events[len(m.events)-1].Text = "it hangs"
	if c := of(t, m).Stages[0].EngineCheck; c.Verdict != assay.Unknown || !strings.Contains(c.Why, "it hangs") {
		t.Errorf("%+v", c)
	}
	m.events = m.events[:len(m.events)-1]
	if c := of(t, m).Stages[0].EngineCheck; c.Verdict != assay.Unknown || len(c.Compared) != 0 {
		t.Errorf("%+v", c)
	}
}

// A stage that was taken up again has two pairs of edges: their differences are
// added up, and what was counted in between belongs to nobody.
func TestEngineCheckOfAResumedStage(t *testing.T) {
	m, before, after := checkedRun()
	half, later := maps.Clone(before), maps.Clone(before)
	for k := range after {
		half[k] = before[k] + (after[k]-before[k])/2
		later[k] = half[k] + 1000
		after[k] += 1000
	}
	for _, x := range []map[string]float64{before, half, later, after} {
		delete(x, "started_seconds")
	}
	m.edges("a", "vllm", before, after)
	last := m.events[len(m.events)-1]
	m.events = append(m.events[:len(m.events)-1],
		assay.Event{At: start + second, Kind: assay.EventEngineAfter, Stage: "a", Text: "vllm", Data: half},
		assay.Event{At: start + second, Kind: assay.EventEngineBefore, Stage: "a", Text: "vllm", Data: later}, last)
	if c := of(t, m).Stages[0].EngineCheck; c.Verdict != assay.Pass {
		t.Errorf("%+v", c)
	}
}

// An engine without a page is compared by what it says in its answers.
func TestEngineCheckByAnswers(t *testing.T) {
	m, _, _ := checkedRun()
	if c := of(t, m).Stages[0].EngineCheck; c != nil {
		t.Fatalf("%+v of an engine that says nothing", c)
	}
	for i := range m.requests {
		m.requests[i].Engine = &assay.EngineTimings{Prompt: 14 * ms, Load: 2 * ms, Eval: 100 * ms, EvalIntervals: 10, Generation: 99 * ms}
	}
	c := of(t, m).Stages[0].EngineCheck
	if c == nil || c.Verdict != assay.Pass || len(c.Compared) != 3 || c.Engine != "" {
		t.Fatalf("%+v", c)
	}
	m.requests[5].Engine.Generation = 60 * ms
	c = of(t, m).Stages[0].EngineCheck
	if x, _ := c.Find("after_first", "answers"); x.Verdict != assay.Fail || !strings.Contains(x.Note, "1 of 10 requests") || !strings.Contains(x.Note, "+40.00 ms") {
		t.Errorf("%+v", x)
	}
}
