package outbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// BenchmarkAdd: how many Adds of one record, each durable when it returns.
func BenchmarkAdd(b *testing.B) {
	for _, g := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("goroutines=%d", g), func(b *testing.B) {
			o := mustOpen(b, Options{Dir: b.TempDir(), MaxBytes: 16 << 30, MemoryBytes: -1})
			r := record(1, 300)
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range g {
				wg.Go(func() {
					for n.Add(1) <= int64(b.N) {
						if err := o.Add(context.Background(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

type counter struct {
	n     int
	calls int
	sleep time.Duration
}

func (c *counter) Deliver(_ context.Context, rs []ledger.Record) ([]Outcome, error) {
	c.n += len(rs)
	c.calls++
	if c.sleep > 0 {
		time.Sleep(c.sleep)
	}
	return AllTaken(len(rs)), nil
}

// BenchmarkThrough: from Add to the acknowledgement of the last, for callers who
// add one record each and for one who adds many at once.
func BenchmarkThrough(b *testing.B) {
	for _, size := range []int{300, 2500} {
		for _, add := range []struct{ goroutines, records int }{{256, 1}, {4, 500}} {
			for _, sleep := range []time.Duration{0, 2 * time.Millisecond} {
				b.Run(fmt.Sprintf("size=%d/goroutines=%d/records=%d/sleep=%v", size, add.goroutines, add.records, sleep), func(b *testing.B) {
					o := mustOpen(b, Options{Dir: b.TempDir(), MaxBytes: 4 << 30})
					c := &counter{sleep: sleep}
					stop := start(b, o, c, nil)
					rs := records(0, add.records, size)
					var n atomic.Int64
					var wg sync.WaitGroup
					b.SetBytes(int64(size))
					b.ResetTimer()
					for range add.goroutines {
						wg.Go(func() {
							for n.Add(int64(len(rs)))-int64(len(rs)) < int64(b.N) {
								if err := o.Add(context.Background(), rs...); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					if err := o.Flush(context.Background()); err != nil {
						b.Fatal(err)
					}
					stop()
					b.ReportMetric(float64(c.n)/b.Elapsed().Seconds(), "records/s")
					b.ReportMetric(float64(c.n)/float64(c.calls), "records/call")
				})
			}
		}
	}
}
