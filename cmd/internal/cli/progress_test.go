package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestProgress(t *testing.T) {
	c := assay.Checkpoint{At: int64(100 * time.Second), Stage: "c4", StageN: 1, StageOf: 2, ElapsedNS: 3e9, LeftNS: 5e9,
		Done: 7, InFlight: 4, RequestRate: 2.5, TokenRate: 160, Errors: map[assay.Failure]int{assay.FailReset: 2}}

	t.Run("log", func(t *testing.T) {
		var b bytes.Buffer
		p := NewProgress(&b, false)
		for range 25 { // seconds
			p.Show(c)
			c.At += int64(time.Second)
		}
		if n := strings.Count(b.String(), "\n"); n != 3 || strings.ContainsAny(b.String(), "\r\x1b") {
			t.Errorf("25 s gave %d lines:\n%q", n, b.String())
		}
		if want := "c4 1/2 · 3s, 5s left · 7 done, 4 in flight · 2.5 req/s, 160 tok/s · 2 failed\n"; !strings.HasPrefix(b.String(), want) {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		var b bytes.Buffer
		p := &Progress{w: &b, tty: true, width: func() int { return 20 }}
		p.Show(c)
		if got := []rune(strings.TrimPrefix(b.String(), "\r\x1b[K")); len(got) != 19 {
			t.Errorf("%d columns on a terminal of 20: %q", len(got), string(got))
		}
	})
	t.Run("quiet", func(t *testing.T) {
		var b bytes.Buffer
		p := NewProgress(&b, true)
		p.Show(c)
		p.Say("a word")
		if b.Len() > 0 {
			t.Errorf("%q", b.String())
		}
	})
}
