package inference

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/clock"
)

// offline is a client for a parser that reads no socket. Its clock stands still
// but for what the test says.
func offline(t testing.TB, b Backend) *Client {
	t.Helper()
	now := int64(1e18)
	c, err := newClient(Config{
		URL: "http://127.0.0.1:1", Backend: b, KeepText: true,
		Clock: clock.NewFrom(func() int64 { return now }, func() int64 { return now }),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.stop = func() {}
	t.Cleanup(func() { c.Close() })
	return c
}

// parse pushes a reply in pieces, all by one read, and gives what came of it.
func parse(c *Client, reply []byte, piece func() int) *assay.Request {
	r, _ := parseJob(c, &Job{}, reply, piece)
	return r
}

func parseJob(c *Client, job *Job, reply []byte, piece func() int) (*assay.Request, Habits) {
	s := newStream(c, 0)
	r := new(assay.Request)
	s.reset(r, job)
	s.watch.totalDue = 1<<63 - 1
	s.read(1, 1e18, 0)
	over := false
	for len(reply) > 0 && !over {
		n := min(len(reply), max(1, piece()))
		// A copy: the parser must not keep what it was lent.
		p := append([]byte(nil), reply[:n]...)
		over = s.feed(p)
		clear(p)
		reply = reply[n:]
	}
	if !over {
		s.eof()
		s.readErr = os.ErrDeadlineExceeded
	}
	s.judge(false)
	s.settle()
	return r, s.saw
}

// Replies of real engines, captured as bytes. Each must read the same whole, a
// byte at a time and in any pieces.
func TestWire(t *testing.T) {
	for _, tt := range []struct {
		file    string
		backend Backend
		want    assay.Request
	}{
		{"llamacpp/v1-chat-stream", OpenAIChat, assay.Request{Other: "rfud", InputTokens: 12, OutputTokens: 8, TokensFrom: "usage",
			Engine: &assay.EngineTimings{PromptTokens: 12, EvalTokens: 8, EvalIntervals: 7}}},
		{"llamacpp/v1-chat-stream-no-usage", OpenAIChat, assay.Request{Other: "rfd", OutputTokens: 8, TokensFrom: "chunks"}},
		{"llamacpp/v1-completions-stream", OpenAI, assay.Request{Other: "fd", InputTokens: 11, OutputTokens: 8, CachedTokens: 10, TokensFrom: "usage"}},
		{"llamacpp/error-bad-json", OpenAIChat, assay.Request{Error: assay.FailHTTP4xx, Status: 400}},
		{"llamacpp/error-too-long", OpenAI, assay.Request{Error: assay.FailHTTP4xx, Status: 400}},
		{"llamacpp/v1-chat", OpenAIChat, assay.Request{Error: assay.FailStreamError, Status: 200}},
		{"ollama-0.17.4/api-generate-stream", Ollama, assay.Request{Other: "f", InputTokens: 12, OutputTokens: 8, TokensFrom: "usage",
			Engine: &assay.EngineTimings{PromptTokens: 12, EvalTokens: 8, EvalIntervals: 7}}},
		{"ollama-0.17.4/api-chat-stream", OllamaChat, assay.Request{Other: "f", InputTokens: 12, OutputTokens: 8, TokensFrom: "usage"}},
		{"ollama-0.17.4/v1-chat-stream", OpenAIChat, assay.Request{Other: "fud", InputTokens: 12, OutputTokens: 8, TokensFrom: "usage"}},
		{"ollama-0.17.4/v1-completions-stream", OpenAI, assay.Request{OutputTokens: 8, TokensFrom: "usage"}},
		{"ollama-0.17.4/error-no-model-api", Ollama, assay.Request{Error: assay.FailHTTP4xx, Status: 404, Detail: `{"error":"model 'none' not found"}`}},
		{"vllm/chat-continuous", OpenAIChat, assay.Request{Other: "rfud", InputTokens: 9, OutputTokens: 8, CachedTokens: 4, TokensFrom: "usage", ChunkTokens: []int32{1, 3, 1, 3}}},
		{"vllm/chat-reasoning-tools", OpenAIChat, assay.Request{Other: "rfud", InputTokens: 20, OutputTokens: 6, TokensFrom: "usage"}},
		{"vllm/chat-error-midstream", OpenAIChat, assay.Request{Other: "r", Error: assay.FailStreamError, OutputTokens: 1, TokensFrom: "chunks"}},
		{"vllm/completions-two-prompts", OpenAI, assay.Request{Other: "ffud", InputTokens: 8, OutputTokens: 4, TokensFrom: "usage"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			path := filepath.Join("..", "testdata", "wire", tt.file+".http")
			if strings.HasPrefix(tt.file, "vllm/") {
				path = filepath.Join("testdata", tt.file+".http")
			}
			reply, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c := offline(t, tt.backend)
			c.Tune(Tuning{Counting: tt.want.ChunkTokens != nil})
			r := parse(c, reply, func() int { return len(reply) })
			if r.Error != tt.want.Error || tt.want.Status != 0 && r.Status != tt.want.Status {
				t.Fatalf("%d %q %s", r.Status, r.Error, r.Detail)
			}
			if tt.want.Detail != "" && r.Detail != tt.want.Detail {
				t.Errorf("detail %q", r.Detail)
			}
			if tt.want.Other != "" && r.Other != tt.want.Other {
				t.Errorf("other %q, want %q", r.Other, tt.want.Other)
			}
			if r.OutputTokens != tt.want.OutputTokens || r.TokensFrom != tt.want.TokensFrom ||
				tt.want.InputTokens != 0 && r.InputTokens != tt.want.InputTokens || r.CachedTokens != tt.want.CachedTokens {
				t.Errorf("tokens %d in %d out %d cached from %q", r.InputTokens, r.OutputTokens, r.CachedTokens, r.TokensFrom)
			}
			if e := tt.want.Engine; e != nil {
				// The counts are asked for; the times are what they were that day.
				if g := r.Engine; g == nil || g.PromptTokens != e.PromptTokens || g.EvalTokens != e.EvalTokens ||
					g.EvalIntervals != e.EvalIntervals || g.Prompt < 1e5 || g.Eval < 1e6 || tt.backend == Ollama && g.Total < g.Eval {
					t.Errorf("engine %+v", g)
				}
			}
			if !reflect.DeepEqual(r.ChunkTokens, tt.want.ChunkTokens) {
				t.Errorf("chunk tokens %v, want %v", r.ChunkTokens, tt.want.ChunkTokens)
			}
			if r.OK() && r.ChunkTokens == nil && len(r.Gaps) != r.OutputTokens-1 {
				t.Errorf("%d gaps for %d tokens", len(r.Gaps), r.OutputTokens)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for name, piece := range map[string]func() int{
				"bytes": func() int { return 1 }, "pieces": func() int { return 1 + rng.IntN(300) },
			} {
				if got := parse(c, reply, piece); !reflect.DeepEqual(got, r) {
					t.Errorf("by %s:\n%+v\nwhole:\n%+v", name, got, r)
				}
			}
		})
	}
}

// Wherever a reply is cut in three, nothing is lost and nothing is kept that
// was only lent.
func TestCutAnywhere(t *testing.T) {
	reply := []byte("HTTP/1.1 200 OK\r\n\r\n" +
		"data: {\"choices\":\n: note\ndata: [{\"text\":\"ab\"}]}\nid: 7\n\n" +
		"data:{\"choices\":[{\"text\":\"c\"}]}\r\n: a comment that is longer than the line before it, by far\r\n\r\n" +
		"event: x\ndata: [DONE]\n\n")
	c := offline(t, OpenAI)
	for i := 1; i < len(reply)-1; i++ {
		for j := i + 1; j < len(reply); j++ {
			cuts := []int{i, j - i, len(reply) - j}
			r := parse(c, reply, func() int { n := cuts[0]; cuts = cuts[1:]; return n })
			if !r.OK() || r.Text != "abc" || len(r.Gaps) != 1 || r.Other != "d" {
				t.Fatalf("cut at %d and %d: %q, %d gaps, %q: %s %s", i, j, r.Text, len(r.Gaps), r.Other, r.Error, r.Detail)
			}
		}
	}
}

func FuzzReply(f *testing.F) {
	for _, glob := range []string{"../testdata/wire/*/*stream*.http", "testdata/vllm/*.http"} {
		files, _ := filepath.Glob(glob)
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, uint64(7), strings.Contains(file, "/api-"))
		}
	}
	f.Add([]byte("HTTP/1.0 200 OK\r\n\r\ndata: {\r\ndata: }\r\n\r\ndata: [DONE]"), uint64(1), false)
	f.Add([]byte("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 8\n\ndata:{}\n"), uint64(1), false)
	sse, lines := offline(f, OpenAIChat), offline(f, Ollama)
	f.Fuzz(func(t *testing.T, reply []byte, seed uint64, ndjson bool) {
		c := sse
		if ndjson {
			c = lines
		}
		whole := parse(c, reply, func() int { return len(reply) })
		rng := rand.New(rand.NewPCG(seed, 1))
		pieces := parse(c, reply, func() int { return 1 + rng.IntN(1+int(seed%64)) })
		if !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("%q\nwhole  %+v\npieces %+v", reply, whole, pieces)
		}
		if whole.OK() && (whole.First == 0 || whole.Status < 200 || whole.Status > 299) {
			t.Fatalf("a success without a token: %+v", whole)
		}
		if len(whole.Other) != len(whole.OtherUS) {
			t.Fatalf("other %q has %d times", whole.Other, len(whole.OtherUS))
		}
	})
}

// An event that two reads share arrived with the read that completed it, and
// is not a merged read.
func TestEventAcrossReads(t *testing.T) {
	c := offline(t, OpenAIChat)
	s := newStream(c, 0)
	r := new(assay.Request)
	s.reset(r, &Job{})
	s.watch.totalDue = 1<<63 - 1
	ev := "data: " + vllmEvent + "\n\n"
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	at := int64(1e18)
	feed := func(seq uint64, ms int64, text string) {
		s.read(seq, at+ms*1e6+5000, at+ms*1e6) // read 5 µs after it arrived
		s.feed([]byte(text))
		if s.inRead > 1 {
			s.blame(false)
		}
	}
	feed(1, 1, head+ev[:50])
	feed(2, 4, ev[50:])
	feed(3, 9, ev+ev[:10])
	c.sentinel.woke(at+10.9e6, 1.8e6) // the client was late for these two
	feed(4, 11, ev[10:]+ev)
	c.sentinel.woke(at+30e6, 0) // and in time for these
	feed(5, 30, ev+ev)
	s.place(0)
	s.arrivals()
	want := []int32{5000, assay.MarkGap(2000), assay.MarkGap(0), 19000, 0}
	if !c.stamps {
		t.Skip("no stamps here")
	}
	if r.First != at+4e6 || !reflect.DeepEqual(r.Gaps, want) || r.Last != at+30e6 {
		t.Fatalf("first +%d, gaps %v want %v", r.First-at, r.Gaps, want)
	}
	if r.Reads != 4 || r.MergedReads != 1 || r.BurstReads != 1 || r.BurstChunks != 2 || r.FirstMerged || r.FirstLag != 5 || r.MaxLag != 5 {
		t.Fatalf("%+v", r)
	}
	if got := fmt.Sprint(c.TakeLag(nil)); got != "[5 5]" {
		t.Fatalf("lag %s", got)
	}
	// A stamp from the future: the wall clock was stepped.
	feed(6, 40, "")
	s.read(7, at+41e6, at+45e6)
	s.feed([]byte(ev))
	if last := s.marks[len(s.marks)-1].at; !r.ClockStep || last != at+41e6 {
		t.Fatalf("step %v, last +%d", r.ClockStep, last-at)
	}
}

// The path from bytes to marks allocates nothing.
func TestFeedDoesNotAllocate(t *testing.T) {
	s, read := warm(t)
	if n := testing.AllocsPerRun(1000, read); n != 0 {
		t.Fatalf("%v allocations an event", n)
	}
	if s.tokens() < 1000 || s.err != nil {
		t.Fatalf("%d tokens, %v", s.tokens(), s.err)
	}
}

// warm gives a stream in the middle of a reply, and a function that feeds it
// one more event by a read of its own.
func warm(t testing.TB) (*stream, func()) {
	c := offline(t, OpenAIChat)
	s := newStream(c, 0)
	r := new(assay.Request)
	s.reset(r, &Job{MaxTokens: 1 << 16})
	s.watch.totalDue = 1<<63 - 1
	s.read(1, 1e18, 0)
	s.feed([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"))
	ev := fmt.Appendf(nil, "%x\r\ndata: %s\n\n\r\n", len(vllmEvent)+8, vllmEvent)
	seq, now := uint64(1), int64(1e18)
	return s, func() {
		seq++
		now += 1e7
		s.read(seq, now, now-3000)
		if s.feed(ev) {
			t.Fatal("over")
		}
		if len(s.marks) == cap(s.marks) {
			s.marks = s.marks[:1]
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	_, read := warm(b)
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
}
