package inference

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// timed is an event and when it arrives, in milliseconds after the request was
// sent.
type timed struct {
	ms   int64
	data string
}

// play gives what a client makes of events that arrive so, each by a read of
// its own.
func play(t *testing.T, b Backend, tuning Tuning, job Job, events []timed) (*assay.Request, Habits) {
	t.Helper()
	c := offline(t, b)
	if !c.stamps {
		t.Skip("no stamps here")
	}
	c.Tune(tuning)
	s := newStream(c, 0)
	r := new(assay.Request)
	s.reset(r, &job)
	const sent = int64(1e18)
	s.watch.totalDue, s.watch.sent, r.Sent = 1<<63-1, sent, sent
	seq := uint64(0)
	feed := func(ms int64, text string) {
		seq++
		s.read(seq, sent+ms*1e6+5000, sent+ms*1e6)
		s.feed([]byte(text))
		if s.inRead > 1 {
			s.blame(true)
		}
	}
	feed(0, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
	for _, e := range events {
		feed(e.ms, "data: "+e.data+"\n\n")
	}
	s.eof()
	s.judge(false)
	s.settle()
	return r, s.saw
}

// chat is a chunk of a choice; count below 0: without usage.
func chat(delta string, finish bool, count int) string {
	reason := "null"
	if finish {
		reason = `"length"`
	}
	out := fmt.Sprintf(`{"choices":[{"index":0,"delta":%s,"finish_reason":%s}]`, delta, reason)
	if count >= 0 {
		out += fmt.Sprintf(`,"usage":{"prompt_tokens":5,"completion_tokens":%d}`, count)
	}
	return out + "}"
}

func text(s string) string { return fmt.Sprintf(`{"content":%q}`, s) }

func usage(n int) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, n)
}

const role = `{"role":"assistant","content":""}`

// An answer of 128 tokens, 10 ms each, the last 88 without text: its times are
// those of all tokens, whether the engine counts in each chunk or at the end.
func TestTokensWithoutText(t *testing.T) {
	for _, counting := range []bool{true, false} {
		count := func(n int) int {
			if counting {
				return n
			}
			return -1
		}
		events := []timed{{45, chat(role, false, count(0))}}
		for i := range 128 {
			said := ""
			if i < 40 {
				said = "x"
			}
			events = append(events, timed{50 + 10*int64(i), chat(text(said), i == 127, count(i+1))})
		}
		events = append(events, timed{1330, usage(128)}, timed{1331, "[DONE]"})
		r, _ := play(t, OpenAIChat, Tuning{Counting: counting}, Job{MaxTokens: 128}, events)
		if !r.OK() || r.OutputTokens != 128 || r.Unplaced != 0 {
			t.Fatalf("counting %v: %s %s, %d tokens, %d unplaced", counting, r.Error, r.Detail, r.OutputTokens, r.Unplaced)
		}
		ttft, _ := r.TTFT()
		e2e, _ := r.E2E()
		tpot, _ := r.TPOT()
		if ttft != 50e6 || e2e != 1320e6 || tpot != 10e6 || len(r.Gaps) != 127 {
			t.Errorf("counting %v: TTFT %d E2E %d TPOT %g, %d gaps", counting, ttft, e2e, tpot, len(r.Gaps))
		}
		if r.Other != "rud" {
			t.Errorf("counting %v: other %q", counting, r.Other)
		}
	}
}

// Which chunks are tokens, by what the engine says of them.
func TestPlacement(t *testing.T) {
	each := Tuning{Counting: true}
	for _, tt := range []struct {
		name    string
		tuning  Tuning
		events  []timed
		tokens  int
		first   int64 // ms
		last    int64
		gaps    []int32 // ms
		chunks  []int32
		rest    int
		other   string
		answer  int64 // ms; 0: with the first
		none    bool
		failure assay.Failure
	}{
		{"every token silent, counted", each, []timed{{5, chat(role, false, 0)}, {10, chat(text(""), false, 1)}, {20, chat(text(""), true, 2)}, {21, usage(2)}, {22, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "rud", 0, true, ""},
		{"every token silent, final count", Tuning{}, []timed{{5, chat(role, false, -1)}, {10, chat(text(""), false, -1)}, {20, chat(text(""), true, -1)}, {21, usage(2)}, {22, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "rud", 0, true, ""},
		{"nobody counted", Tuning{}, []timed{{10, chat(text(""), false, -1)}, {20, chat(text(""), true, -1)}, {22, "[DONE]"}},
			0, 0, 0, nil, nil, 0, "efd", 0, false, assay.FailEmpty},
		{"a finish chunk that is no token", Tuning{}, []timed{{10, chat(text("a"), false, -1)}, {20, chat(text("b"), false, -1)}, {25, chat(`{}`, true, -1)}, {26, usage(2)}, {27, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "fud", 0, false, ""},
		{"a finish chunk that is a token, last in turn", Tuning{}, []timed{{10, chat(text("a"), false, -1)}, {20, chat(text(""), false, -1)}, {30, chat(`{}`, true, -1)}, {31, usage(2)}, {32, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "fud", 0, false, ""},
		{"a finish chunk as the only token chunk", each, []timed{{5, chat(role, false, 0)}, {10, chat(text("a"), true, 1)}, {11, usage(1)}, {12, "[DONE]"}},
			1, 10, 10, nil, nil, 0, "rud", 0, false, ""},
		{"several tokens in an event", each, []timed{{10, chat(text("a"), false, 3)}, {20, chat(text("bc"), false, 5)}, {30, chat(text("d"), true, 6)}, {31, usage(6)}, {32, "[DONE]"}},
			6, 10, 30, []int32{10, 10}, []int32{3, 2, 1}, 0, "ud", 0, false, ""},
		{"tokens without any chunk came by the finish chunk", Tuning{}, []timed{{10, chat(text("a"), false, -1)}, {20, chat(text("b"), false, -1)}, {50, chat(`{}`, true, -1)}, {51, usage(6)}, {52, "[DONE]"}},
			6, 10, 50, []int32{10, 30}, []int32{1, 1, 4}, 3, "ud", 0, false, ""},
		{"a count that ends below the final one", each, []timed{{10, chat(text("a"), false, 1)}, {20, chat(text("b"), false, 2)}, {50, chat(`{}`, true, 2)}, {51, usage(4)}, {52, "[DONE]"}},
			4, 10, 50, []int32{10, 30}, []int32{1, 1, 2}, 2, "ud", 0, false, ""},
		{"a stop string holds text back", each, []timed{{10, chat(text(""), false, 1)}, {20, chat(text(""), false, 2)}, {30, chat(text("ab"), false, 2)}, {40, chat(text("c"), true, 3)}, {41, usage(3)}, {42, "[DONE]"}},
			3, 10, 40, []int32{10, 20}, nil, 0, "tud", 30, false, ""},
		{"reasoning cut off", each, []timed{{10, chat(`{"reasoning":"h"}`, false, 1)}, {20, chat(`{"reasoning_content":"m"}`, true, 2)}, {21, usage(2)}, {22, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "ud", 0, true, ""},
		{"reasoning, then an answer", each, []timed{{10, chat(`{"reasoning":"h"}`, false, 1)}, {20, chat(text("a"), true, 2)}, {21, usage(2)}, {22, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "ud", 20, false, ""},
		{"a tool call whose first rise counts several", each, []timed{{30, chat(`{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`, false, 16)}, {40, chat(`{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}`, true, 17)}, {41, usage(17)}, {42, "[DONE]"}},
			17, 30, 40, []int32{10}, []int32{16, 1}, 0, "ud", 0, false, ""},
		{"no usage at all", Tuning{}, []timed{{10, chat(text("a"), false, -1)}, {20, chat(text(""), false, -1)}, {30, chat(text("b"), true, -1)}, {31, "[DONE]"}},
			2, 10, 30, []int32{20}, nil, 0, "ed", 0, false, ""},
		{"a count of zero in every chunk", Tuning{}, []timed{{10, chat(text("a"), false, 0)}, {20, chat(text("b"), false, 0)}, {30, chat(text(""), true, 2)}, {31, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "fd", 0, false, ""},
		{"usage on the finish chunk, which has the last token", Tuning{}, []timed{{10, chat(text("a"), false, -1)}, {20, chat(text("b"), true, 2)}, {31, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "d", 0, false, ""},
		{"comments between", each, []timed{{10, chat(text("a"), false, 1) + "\n\n: ping"}, {15, ""}, {20, chat(text("b"), true, 2)}, {21, usage(2)}, {22, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "ud", 0, false, ""},
		{"counts that were known to come and did not", each, []timed{{10, chat(text("a"), false, -1)}, {20, chat(text("b"), true, -1)}, {22, "[DONE]"}},
			2, 10, 20, []int32{10}, nil, 0, "d", 0, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := play(t, OpenAIChat, tt.tuning, Job{}, tt.events)
			if r.Error != tt.failure {
				t.Fatalf("%q %s", r.Error, r.Detail)
			}
			since := func(at int64) int64 {
				if at == 0 {
					return 0
				}
				return (at - r.Sent) / 1e6
			}
			var gaps []int32
			for _, g := range r.Gaps {
				gaps = append(gaps, g/1000)
			}
			if r.OutputTokens != tt.tokens || since(r.First) != tt.first || since(r.Last) != tt.last || r.Unplaced != tt.rest {
				t.Errorf("%d tokens from %d to %d ms, %d unplaced", r.OutputTokens, since(r.First), since(r.Last), r.Unplaced)
			}
			if !reflect.DeepEqual(gaps, tt.gaps) || !reflect.DeepEqual(r.ChunkTokens, tt.chunks) || r.Other != tt.other {
				t.Errorf("gaps %v, chunk tokens %v, other %q", gaps, r.ChunkTokens, r.Other)
			}
			if since(r.Answer) != tt.answer || r.NoAnswer != tt.none {
				t.Errorf("answer at %d, none %v", since(r.Answer), r.NoAnswer)
			}
			if _, ok := r.TTFO(); ok == tt.none && r.OK() {
				t.Errorf("a time to first output: %v, no answer: %v", ok, tt.none)
			}
		})
	}
}

// Counts are kept for each choice.
func TestCountsByChoice(t *testing.T) {
	one := func(index, count int, said string) string {
		return fmt.Sprintf(`{"choices":[{"index":%d,"text":%q,"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, index, said, count)
	}
	finish := func(index, count int) string {
		return strings.Replace(one(index, count, ""), "null", `"length"`, 1)
	}
	r, habits := play(t, OpenAI, Tuning{Counting: true}, Job{Prompts: []string{"a", "b"}}, []timed{
		{10, one(0, 1, "x")}, {12, one(1, 1, "")}, {20, one(0, 3, "y")}, {22, one(1, 2, "z")}, {30, finish(0, 4)}, {32, finish(1, 3)}, {33, usage(7)}, {34, "[DONE]"},
	})
	if !r.OK() || r.OutputTokens != 7 || !reflect.DeepEqual(r.ChunkTokens, []int32{1, 1, 2, 1, 1, 1}) || (r.Last-r.Sent)/1e6 != 32 {
		t.Fatalf("%s %s: %d tokens in chunks of %v", r.Error, r.Detail, r.OutputTokens, r.ChunkTokens)
	}
	if !habits.CountsEach {
		t.Error("an engine that counts in each chunk was not recognised")
	}
}

// Zero, null or only-final usage is not counting.
func TestCountingEngine(t *testing.T) {
	for _, tt := range []struct {
		name   string
		want   bool
		events []timed
	}{
		{"vLLM", true, []timed{{1, chat(role, false, 0)}, {2, chat(text("a"), false, 1)}, {3, chat(text(""), false, 2)}, {4, chat(text("b"), true, 3)}, {5, usage(3)}}},
		{"Ollama's completions", false, []timed{{2, chat(text("a"), false, 0)}, {3, chat(text("b"), false, 0)}, {4, chat(text(""), true, 3)}}},
		{"only at the end", false, []timed{{2, chat(text("a"), false, -1)}, {3, chat(text("b"), true, -1)}, {5, usage(3)}}},
		{"on the finish chunk", false, []timed{{2, chat(text("a"), false, -1)}, {3, chat(text("b"), true, 2)}}},
		{"llama.cpp, asked in its own way", true, []timed{
			{2, `{"choices":[{"index":0,"delta":{"content":"a"}}],"timings":{"predicted_n":1,"predicted_ms":1.5}}`},
			{3, `{"choices":[{"index":0,"delta":{"content":"b"}}],"timings":{"predicted_n":3,"predicted_ms":2.5}}`}}},
	} {
		_, habits := play(t, OpenAIChat, Tuning{}, Job{}, append(tt.events, timed{9, "[DONE]"}))
		if habits.CountsEach != tt.want {
			t.Errorf("%s: counts in each chunk: %v", tt.name, habits.CountsEach)
		}
	}
}

func TestSegmentsTellBursts(t *testing.T) {
	g := segments{known: true}
	g.read(false)
	if !g.single(1, true) {
		t.Error("one read and one segment")
	}
	g.read(false)
	g.read(false)
	if !g.single(3, true) {
		t.Error("two reads and two segments")
	}
	g.read(false)
	if g.single(5, true) {
		t.Error("one read and two segments")
	}
	// A read that filled its buffer leaves segments behind that are counted.
	g.read(true)
	if g.single(300, true) {
		t.Error("a read that filled its buffer")
	}
	g.read(false)
	if g.single(300, true) {
		t.Error("the rest of what one that filled its buffer left")
	}
	g.read(false)
	if !g.single(301, true) || g.single(301, false) {
		t.Error("the kernel did not say")
	}
}

func TestSentinelBlames(t *testing.T) {
	const ms = int64(1e6)
	for _, tt := range []struct {
		name        string
		ticks       [][2]int64 // woke at, late by; ms
		prev, now   int64      // ms
		clientFault bool
	}{
		{"in time", [][2]int64{{9, 0}, {10, 0}}, 5, 10, false},
		{"late by less than half the gap", [][2]int64{{108, 40}, {110, 0}}, 10, 110, false},
		{"late by more", [][2]int64{{108, 60}, {110, 0}}, 10, 110, true},
		{"late by 2 ms between tokens of 3 ms", [][2]int64{{12, 2}}, 10, 13, true},
		{"late before the last arrival", [][2]int64{{8, 6}, {20, 0}}, 10, 20, false},
		{"not woken yet", [][2]int64{{11, 0}}, 10, 40, true},
		{"nobody watches", nil, 10, 40, true},
	} {
		var s sentinel
		for _, tick := range tt.ticks {
			s.woke(tick[0]*ms, tick[1]*ms)
		}
		got := s.worst(tt.prev*ms, tt.now*ms) > clearedBy((tt.now-tt.prev)*ms)
		if got != tt.clientFault {
			t.Errorf("%s: the client's fault: %v", tt.name, got)
		}
	}
}

// A count that is far beyond what was asked for is nobody's: visible chunks are
// the tokens then.
func TestAbsurdCountsAreNotBelieved(t *testing.T) {
	for _, tuning := range []Tuning{{}, {Counting: true}} {
		r, _ := play(t, OpenAIChat, tuning, Job{MaxTokens: 12}, []timed{
			{10, chat(text("a"), false, 1)}, {20, chat(text("b"), false, 1_000_000)}, {30, chat(text("c"), true, 2_000_000)}, {31, usage(2_000_000)}, {32, "[DONE]"},
		})
		if !r.OK() || r.OutputTokens != 3 || r.TokensFrom != "chunks" || r.ChunkTokens != nil {
			t.Errorf("%d tokens from %q, chunks of %v", r.OutputTokens, r.TokensFrom, r.ChunkTokens)
		}
	}
}
