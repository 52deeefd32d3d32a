package inference

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/tools/stillness"
)

// Every backend passes every case over every transport.
func TestConformance(t *testing.T) {
	for _, d := range dialects() {
		for _, tr := range transports() {
			t.Run(string(d.backend)+"/"+tr.name, func(t *testing.T) {
				t.Parallel()
				conform(t, d, tr)
			})
		}
	}
}

func conform(t *testing.T, d dialect, tr transport) {
	t.Run("marks", func(t *testing.T) { marks(t, d, tr) })
	t.Run("kinds", func(t *testing.T) { kinds(t, d, tr) })
	t.Run("bursts", func(t *testing.T) { bursts(t, d, tr) })
	t.Run("reuse", func(t *testing.T) { reuse(t, d, tr) })
	t.Run("timeouts", func(t *testing.T) { timeouts(t, d, tr) })
	t.Run("cancel", func(t *testing.T) { cancel(t, d, tr) })
	t.Run("faults", func(t *testing.T) {
		var wg sync.WaitGroup // side by side: most of their time is waiting
		for _, f := range faults() {
			wg.Go(func() { f.check(t, d, tr) })
		}
		wg.Wait()
	})
}

func (f fault) check(t *testing.T, d dialect, tr transport) {
	url := serve(t, d, tr, f.script)
	c := client(t, url, d, tr, func(cfg *Config) {
		// An engine that hangs is left after the script's own patience; every
		// other fault must be seen by itself, so that nothing ends it for us.
		cfg.Timeouts = Timeouts{FirstToken: f.patience(), Gap: f.patience(), Total: time.Minute}
	})
	r := ask(t, c, &Job{Prompt: "p", MaxTokens: 2})
	if r.Error != f.want {
		t.Errorf("%s: got %q (%s), want %q", f.name, r.Error, r.Detail, f.want)
	}
	if f.detail != "" && !strings.Contains(r.Detail, f.detail) {
		t.Errorf("%s: detail %q does not say %q", f.name, r.Detail, f.detail)
	}
	if f.tokens > 0 && len(r.Gaps)+1 != f.tokens || f.tokens == 0 && r.First != 0 {
		t.Errorf("%s: %d gaps, first %d; want %d tokens", f.name, len(r.Gaps), r.First, f.tokens)
	}
}

// calm asks until the client was not so late that reads fell together which
// the server sent apart: on a busy machine that happens, and is not what is
// tested.
func calm(t *testing.T, c *Client, job *Job, reads int) (r *assay.Request) {
	for range 20 {
		if r = ask(t, c, job); r.Reads == reads || !r.OK() {
			break
		}
	}
	return r
}

func marks(t *testing.T, d dialect, tr transport) {
	var read atomic.Int64
	var wrote [2]atomic.Int64
	c := client(t, serve(t, d, tr, func(w *wire) {
		read.Store(time.Now().UnixNano())
		if w.req.Header.Get("X-Request-Id") != "req-1" {
			w.head("400 no id")
			return
		}
		w.stream()
		for i := range 2 {
			time.Sleep(30 * time.Millisecond)
			wrote[i].Store(time.Now().UnixNano())
			w.token(" hé\n")
		}
		time.Sleep(10 * time.Millisecond)
		w.finish()
	}), d, tr, nil)
	stillness.Timed(t, "marks", func() error {
		r := calm(t, c, &Job{Prompt: "p", MaxTokens: 2}, 2)
		// By our own clock a first token that was read late has a short gap behind
		// it: likewise not what is tested.
		for i := 0; i < 20 && r.OK() && r.First-wrote[0].Load() > int64(2*time.Millisecond); i++ {
			r = calm(t, c, &Job{Prompt: "p", MaxTokens: 2}, 2)
		}
		checkMarks(t, d, r)
		return timely(r, wrote[0].Load(), wrote[1].Load(), read.Load())
	})
	lags := c.TakeLag(nil)
	if stamped := tr.name == "kernel" || tr.name == "user" || tr.name == "tls"; c.stamps && stamped != (len(lags) > 0) {
		t.Errorf("lag %v", lags)
	}
	if want := assay.ClockKernel; tr.name == "kernel" && c.stamps && c.Source() != want {
		t.Errorf("source %q", c.Source())
	}
}

// timely says what a machine that stood still could be the cause of.
func timely(r *assay.Request, first, last, read int64) error {
	var errs []error
	within := func(name string, got, want int64) {
		// The kernel's stamp does not wait for us, so it may be held to more.
		if d := time.Duration(got - want); d < -time.Millisecond || d > 200*time.Millisecond {
			errs = append(errs, fmt.Errorf("%s is %v after it was written", name, d))
		}
	}
	within("first", r.First, first)
	within("last", r.Last, last)
	if r.Sent > read+1e6 {
		errs = append(errs, fmt.Errorf("sent %v after it was read", time.Duration(r.Sent-read)))
	}
	if len(r.Gaps) != 1 || r.Gaps[0] < 25_000 || r.Reads != 2 || r.MergedReads != 0 {
		errs = append(errs, fmt.Errorf("gaps %v reads %d merged %d", r.Gaps, r.Reads, r.MergedReads))
	}
	return errors.Join(errs...)
}

// checkMarks checks what is true on any machine.
func checkMarks(t *testing.T, d dialect, r *assay.Request) {
	t.Helper()
	if !r.OK() || r.Status != 200 || len(r.Gaps) != 1 {
		t.Fatalf("%d %s: %s, gaps %v", r.Status, r.Error, r.Detail, r.Gaps)
	}
	if r.Sent < r.Connect || r.End < r.Last {
		t.Errorf("marks out of order: %+v", r)
	}
	gap := int64(r.Gaps[0])
	if gap < 0 { // marked: the client merged the read
		gap = -1 - gap
	}
	if sum := r.First + gap*1000; r.Last-sum < 0 || r.Last-sum >= 1000 {
		t.Errorf("first + gaps is %d ns off last", r.Last-sum)
	}
	if r.Other != d.letters || len(r.OtherUS) != len(r.Other) {
		t.Errorf("other %q %v, want %q", r.Other, r.OtherUS, d.letters)
	}
	if r.InputTokens != 5 || r.OutputTokens != 2 || r.TokensFrom != "usage" {
		t.Errorf("tokens %d in %d out from %q", r.InputTokens, r.OutputTokens, r.TokensFrom)
	}
	if r.Text != " hé\n hé\n" {
		t.Errorf("text %q", r.Text)
	}
	if !d.backend.sse() {
		want := assay.EngineTimings{Total: 9, Load: 1, Prompt: 3, Eval: 4, PromptTokens: 5, EvalTokens: 2, EvalIntervals: 1}
		if r.Engine == nil || *r.Engine != want {
			t.Errorf("engine %+v", r.Engine)
		}
	}
}

func kinds(t *testing.T, d dialect, tr transport) {
	if d.reasoning == nil {
		t.Skip("no reasoning in this dialect")
	}
	c := client(t, serve(t, d, tr, func(w *wire) {
		w.stream()
		w.event(d.reasoning("hm"))
		time.Sleep(20 * time.Millisecond)
		if d.tool != "" {
			w.event(d.tool)
			time.Sleep(20 * time.Millisecond)
		}
		w.token("a")
		time.Sleep(20 * time.Millisecond)
		w.finish()
	}), d, tr, nil)
	reads := 2
	if d.tool != "" {
		reads = 3
	}
	r := calm(t, c, &Job{Prompt: "p"}, reads)
	if !r.OK() || r.First == 0 || r.Answer <= r.First {
		t.Fatalf("first %d answer %d: %s %s", r.First, r.Answer, r.Error, r.Detail)
	}
	if d.tool != "" && (len(r.Gaps) != 2 || r.Answer >= r.Last) {
		t.Errorf("a tool call is an answer: %+v", r)
	}
	if r.Text != "a" {
		t.Errorf("text %q", r.Text)
	}
}

// Several events in one write are the engine's burst, not the client's lateness.
func bursts(t *testing.T, d dialect, tr transport) {
	c := client(t, serve(t, d, tr, func(w *wire) {
		w.stream()
		one := func(s string) string {
			e := d.wrap(d.token(s))
			return fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
		}
		time.Sleep(20 * time.Millisecond)
		w.raw(one("a") + one("b") + one("c"))
		time.Sleep(20 * time.Millisecond)
		w.raw(one("d"))
		time.Sleep(20 * time.Millisecond)
		w.raw(one("e") + one("f"))
		time.Sleep(20 * time.Millisecond)
		w.finish()
	}), d, tr, nil)
	stillness.Timed(t, "bursts", func() error {
		var r *assay.Request
		for range 20 { // a busy machine makes the client late for real
			// By our own clock a read that was late has a short gap behind it.
			if r = calm(t, c, &Job{Prompt: "p"}, 3); r.BurstReads == 2 && len(r.Gaps) == 5 && min(r.Gaps[2], r.Gaps[3]) >= 15_000 {
				break
			}
		}
		if !r.OK() || r.Reads != 3 || r.BurstReads != 2 || r.BurstChunks != 5 || r.MergedReads != 0 || r.FirstMerged {
			return fmt.Errorf("%s: reads %d bursts %d of %d merged %d first %v", r.Detail, r.Reads, r.BurstReads, r.BurstChunks, r.MergedReads, r.FirstMerged)
		}
		if len(r.Gaps) != 5 || r.Gaps[0] != 0 || r.Gaps[1] != 0 || r.Gaps[2] < 15_000 || r.Gaps[3] < 15_000 || r.Gaps[4] != 0 {
			return fmt.Errorf("gaps %v", r.Gaps)
		}
		if n := r.FirstTokens(); n != 3 {
			return fmt.Errorf("%d tokens in the first arrival, want 3", n)
		}
		return nil
	})
}

func reuse(t *testing.T, d dialect, tr transport) {
	good := func(w *wire) { w.stream(); w.token("a"); w.token("b"); w.finish() }
	ending := map[string]func(w *wire){
		"kept": good,
		"close": func(w *wire) {
			w.head("200 OK", "Content-Type: "+d.kind, "Transfer-Encoding: chunked", "Connection: close")
			w.token("a")
			w.token("b")
			w.finish()
		},
		"garbage": func(w *wire) { w.stream(); w.token("a"); w.token("b"); w.finish(); w.raw("boo") },
		"gone":    func(w *wire) { good(w); w.keep = false },
		"refused": func(w *wire) { w.head("404 Not Found", "Content-Length: 2"); w.raw("no"); w.keep = true },
		"long refusal": func(w *wire) {
			w.head("404 Not Found", "Content-Length: 200000")
			w.raw(strings.Repeat("x", 200000))
			w.keep = true
		},
	}
	for name, script := range ending {
		var conns atomic.Int64
		c := client(t, serve(t, d, tr, func(w *wire) {
			conns.Store(int64(w.conn) + 1)
			if w.conn == 0 && w.nth == 0 {
				script(w)
			} else {
				good(w)
			}
		}), d, tr, nil)
		a := ask(t, c, &Job{Prompt: "p"})
		time.Sleep(30 * time.Millisecond) // for the peer's end to arrive
		b := ask(t, c, &Job{Prompt: "p"})
		if (!a.OK() && a.Status != 404) || !b.OK() {
			t.Errorf("%s: %s %s, then %s %s", name, a.Error, a.Detail, b.Error, b.Detail)
		}
		want := int64(2)
		if name == "kept" || name == "refused" {
			want = 1
		}
		if conns.Load() != want || (b.Connect == 0) != (want == 1) {
			t.Errorf("%s: %d connections, want %d", name, conns.Load(), want)
		}
	}
	var conns atomic.Int64
	c := client(t, serve(t, d, tr, func(w *wire) { conns.Store(int64(w.conn) + 1); good(w) }), d, tr, func(cfg *Config) { cfg.Fresh = true })
	for range 3 {
		if r := ask(t, c, &Job{Prompt: "p"}); !r.OK() || r.Connect == 0 {
			t.Errorf("fresh: %s %s", r.Error, r.Detail)
		}
	}
	if conns.Load() != 3 {
		t.Errorf("fresh: %d connections for three requests", conns.Load())
	}
}

func timeouts(t *testing.T, d dialect, tr transport) {
	const short = 60 * time.Millisecond
	for _, tt := range []struct {
		name   string
		limits Timeouts
		script func(*wire)
		detail string
		tokens int
	}{
		{"first, no reply", Timeouts{FirstToken: short}, (*wire).hang, "first token: none within 60ms", 0},
		{"first, role only", Timeouts{FirstToken: short}, func(w *wire) {
			w.stream()
			for range 20 {
				w.event(`{"choices":[{"delta":{"role":"assistant"}}]}`)
				time.Sleep(10 * time.Millisecond)
			}
			w.hang()
		}, "first token: none", 0},
		{"gap", Timeouts{Gap: short}, func(w *wire) { w.stream(); w.token("a"); w.hang() }, "gap: nothing for 60ms after 1 token", 1},
		{"gap, a byte at a time", Timeouts{Gap: short}, func(w *wire) {
			w.stream()
			w.token("a")
			for range 20 {
				w.chunk(" ")
				time.Sleep(10 * time.Millisecond)
			}
			w.hang()
		}, "gap: nothing for 60ms", 1},
		{"total", Timeouts{Total: 500 * time.Millisecond}, func(w *wire) {
			w.stream()
			for range 80 {
				w.token("a")
				time.Sleep(10 * time.Millisecond)
			}
			w.hang()
		}, "total: not done within 500ms", -1},
		{"total, never pausing", Timeouts{Total: 500 * time.Millisecond}, func(w *wire) {
			w.stream()
			w.token("a")
			block := []byte(strings.Repeat("3e8\r\n"+strings.Repeat(":\n", 500)+"\r\n", 64))
			if !d.backend.sse() {
				block = []byte(strings.Repeat("3e8\r\n"+strings.Repeat(" \n", 500)+"\r\n", 64))
			}
			for {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "total: not done within 500ms", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, serve(t, d, tr, tt.script), d, tr, func(cfg *Config) { cfg.Timeouts = tt.limits })
			r := ask(t, c, &Job{Prompt: "p"})
			if r.Error != assay.FailTimeout || !strings.Contains(r.Detail, tt.detail) {
				t.Fatalf("%s: %s", r.Error, r.Detail)
			}
			if tt.tokens >= 0 && (r.First != 0) != (tt.tokens > 0) {
				t.Errorf("first %d", r.First)
			}
		})
	}
}

func cancel(t *testing.T, d dialect, tr transport) {
	first := make(chan struct{})
	c := client(t, serve(t, d, tr, func(w *wire) {
		w.stream()
		w.token("a")
		close(first)
		w.hang()
	}), d, tr, nil)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-first
		time.Sleep(20 * time.Millisecond)
		stop()
	}()
	r := new(assay.Request)
	c.Do(ctx, &Job{Prompt: "p"}, r)
	if r.Error != assay.FailCancelled || r.First == 0 {
		t.Fatalf("%s %s, first token at %d", r.Error, r.Detail, r.First)
	}
	c.Do(ctx, &Job{Prompt: "p"}, r)
	if r.Error != assay.FailCancelled || r.Sent != 0 || r.First != 0 {
		t.Fatalf("a request under an ended context: %+v", r)
	}
}
