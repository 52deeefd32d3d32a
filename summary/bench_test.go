package summary_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// flood is a run of so many requests, made one at a time.
type flood struct {
	made
	n, tokens int
	peak      *uint64
}

func newFlood(n, tokens int, peak *uint64) *flood {
	f := &flood{made: *newMade(), n: n, tokens: tokens, peak: peak}
	f.span(assay.Stage{Name: "a", Kind: assay.LoadOpen, Rate: 1000}, start, start+second, start+int64(n)*ms, start+int64(n)*ms+second)
	return f
}

func (f *flood) Requests() iter.Seq2[*assay.Request, error] {
	return func(yield func(*assay.Request, error) bool) {
		rng := rand.New(rand.NewPCG(5, 6))
		gaps := make([]int32, f.tokens-1)
		for i := range f.n {
			at := start + int64(i)*ms
			r := assay.Request{ID: "x", Stage: "a", Scheduled: at, Eligible: at, Sent: at + int64(rng.IntN(100_000)),
				Gaps: gaps, OutputTokens: f.tokens, InputTokens: 10, TokensFrom: "usage", Status: 200, Reads: f.tokens, Prompt: i}
			r.First = r.Sent + 50*ms + int64(rng.ExpFloat64()*float64(200*ms)) // a wide spread: many distinct values
			r.Last = r.First
			for k := range gaps {
				gaps[k] = 8000 + int32(rng.IntN(4000))
				r.Last += int64(gaps[k]) * 1000
			}
			r.End = r.Last
			if !yield(&r, nil) {
				return
			}
			if f.peak != nil && i%(f.n/20+1) == 0 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				*f.peak = max(*f.peak, m.HeapInuse)
			}
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for _, c := range []struct{ n, tokens int }{{1_000_000, 2}, {10_000, 4000}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.tokens), func(b *testing.B) {
			var peak uint64
			for b.Loop() {
				s, err := summary.Of(newFlood(c.n, c.tokens, &peak))
				if err != nil || s.Stages[0].OK != c.n {
					b.Fatalf("%v, %d", err, s.Stages[0].OK)
				}
			}
			b.ReportMetric(float64(c.n)*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(c.n*c.tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(float64(peak)/1e6, "peak-heap-MB")
		})
	}
}

// BenchmarkOfDirectory reads the lines from a run directory as well.
func BenchmarkOfDirectory(b *testing.B) {
	const n = 1_000_000
	dir := filepath.Join(b.TempDir(), "run")
	f := newFlood(n, 2, nil)
	w, err := journal.Create(dir, f.manifest)
	if err != nil {
		b.Fatal(err)
	}
	for i := range f.events {
		err = errors.Join(err, w.Event(f.events[i]))
	}
	i := 0
	for r := range f.Requests() {
		r.ID = fmt.Sprintf("01K74T0AB0-%07d", i)
		err = errors.Join(err, w.Request(r))
		i++
	}
	if err := errors.Join(err, w.Close()); err != nil {
		b.Fatal(err)
	}
	run, err := journal.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := summary.Of(run)
		if err != nil || s.Stages[0].OK != n {
			b.Fatalf("%v, %d", err, s.Stages[0].OK)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(float64(m.Sys)/1e6, "from-system-MB") // of the whole process, the writing included
}

// Memory goes with the distinct values, not with the requests: ten times as many
// take far less than ten times as much.
func TestMemoryIsFlat(t *testing.T) {
	heap := func(n, tokens int) float64 {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		var peak uint64
		if _, err := summary.Of(newFlood(n, tokens, &peak)); err != nil {
			t.Fatal(err)
		}
		return float64(peak) - float64(before.HeapInuse)
	}
	small, large := heap(200, 4000), heap(2000, 4000)
	if large > 4*small+8e6 {
		t.Errorf("200 requests take %.1f MB, 2000 take %.1f MB", small/1e6, large/1e6)
	}
	if got := heap(100_000, 2); got > 60e6 {
		t.Errorf("100,000 requests take %.1f MB", got/1e6)
	}
}
