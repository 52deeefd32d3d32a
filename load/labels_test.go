package load

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
)

// Each stream of a closed loop has its number: from 1 to as many as there are,
// and no two requests of one at the same time.
func TestStreamsAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: func(n int) time.Duration { return time.Duration(20+n*37%90) * time.Millisecond }}
		run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadClosed, Concurrency: 5, DurationNS: int64(4 * time.Second), RampUpNS: int64(time.Second), GraceNS: int64(time.Second),
		}, Options{})
		end := map[int]int64{}
		for _, r := range e.byNumber() {
			if r.Stream < 1 || r.Stream > 5 {
				t.Fatalf("request %s of stream %d", r.ID, r.Stream)
			}
			if r.Sent < end[r.Stream] {
				t.Errorf("stream %d sent while it waited for an answer", r.Stream)
			}
			end[r.Stream] = max(end[r.Stream], r.End)
		}
		if len(end) != 5 {
			t.Errorf("%d streams", len(end))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(20 * time.Millisecond)}
		run(t, t.Context(), e, assay.Stage{Kind: assay.LoadOpen, Rate: 50, DurationNS: int64(time.Second)}, Options{})
		for _, r := range e.requests {
			if r.Stream != 0 {
				t.Fatalf("a request of an open loop is of stream %d", r.Stream)
			}
		}
	})
}

func TestLabelsGiveTheLeast(t *testing.T) {
	var l labels
	for want := 1; want <= 6; want++ {
		if got := l.take(); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	}
	for _, n := range []int{5, 2, 6, 3} {
		l.put(n)
	}
	for _, want := range []int{2, 3, 5, 6, 7} {
		if got := l.take(); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	}
}
