package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// fake is a pair of clocks that only move when told.
type fake struct{ wall, mono int64 }

func (f *fake) pass(d time.Duration) { f.wall += int64(d); f.mono += int64(d) }

func (f *fake) clock() *Clock {
	return NewFrom(func() int64 { return f.wall }, func() int64 { return f.mono })
}

func TestTimeline(t *testing.T) {
	f := &fake{wall: 1_700_000_000_000_000_000, mono: 42}
	c := f.clock()
	if got := c.Now(); got != f.wall {
		t.Fatalf("at the start: %d, want the wall clock %d", got, f.wall)
	}
	f.pass(3 * time.Second)
	if got := c.Now(); got != f.wall {
		t.Fatalf("after 3 s: %d, want %d", got, f.wall)
	}
	if got := c.FromWall(f.wall); got != c.Now() {
		t.Fatalf("FromWall(now) = %d, want %d", got, c.Now())
	}
}

func TestStep(t *testing.T) {
	for _, tt := range []struct {
		name string
		by   time.Duration
		step bool
	}{
		{"none", 0, false},
		{"slight", 900 * time.Microsecond, false},
		{"forward", 5 * time.Second, true},
		{"back", -1500 * time.Microsecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{wall: 1e18, mono: 7}
			c := f.clock()
			f.pass(time.Second)
			before := c.Now()
			f.wall += int64(tt.by)
			if got := c.Now(); got != before {
				t.Fatalf("the time-line moved by %d with the wall clock", got-before)
			}
			step, stepped := c.Measure()
			if stepped != tt.step || step != tt.by {
				t.Fatalf("Measure: %v %v, want %v %v", step, stepped, tt.by, tt.step)
			}
			if got := c.FromWall(f.wall); got != c.Now() {
				t.Fatalf("after Measure a stamp of now is off by %d", got-c.Now())
			}
			if _, again := c.Measure(); again {
				t.Fatal("the same step was told twice")
			}
			if want := map[bool]int64{true: 1}[tt.step]; c.Steps() != want {
				t.Fatalf("Steps = %d, want %d", c.Steps(), want)
			}
		})
	}
}

// A reading that was interrupted between the two clocks must not count.
func TestPairTakesTheQuickest(t *testing.T) {
	f := &fake{wall: 1e18, mono: 0}
	n := 0
	c := NewFrom(func() int64 {
		n++
		if n%8 != 5 { // all but one try are held up after the wall clock was read
			w := f.wall
			f.pass(10 * time.Millisecond)
			return w
		}
		return f.wall
	}, func() int64 { return f.mono })
	if off := c.FromWall(f.wall) - c.Now(); off != 0 {
		t.Fatalf("off by %v", time.Duration(off))
	}
}

func TestSleepUntil(t *testing.T) {
	c := New()
	for _, d := range []time.Duration{-time.Second, 0, 300 * time.Microsecond, 5 * time.Millisecond} {
		due := c.Now() + int64(d)
		if err := c.SleepUntil(context.Background(), due); err != nil {
			t.Fatal(err)
		}
		if now := c.Now(); now < due {
			t.Errorf("woke %v early", time.Duration(due-now))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	start := time.Now()
	if err := c.SleepUntil(ctx, c.Now()+int64(time.Minute)); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	if time.Since(start) > 10*time.Second {
		t.Fatal("cancelling did not end the sleep")
	}
}

func TestNowDoesNotAllocate(t *testing.T) {
	c := New()
	if n := testing.AllocsPerRun(100, func() { c.FromWall(c.Now()) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	c := New()
	for b.Loop() {
		c.Now()
	}
}
