package stillness

import (
	"testing"
	"time"
)

func TestStillIntervals(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		took, late []time.Duration
		all, still int
	}{
		"even":                     {[]time.Duration{2 * ms, 2 * ms, 2 * ms}, []time.Duration{0, 0, 0}, 3, 0},
		"a little slower":          {[]time.Duration{2 * ms, 2 * ms, 3 * ms}, []time.Duration{0, 0, 0}, 3, 0},
		"below 60 % of its median": {[]time.Duration{2 * ms, 2 * ms, 4 * ms}, []time.Duration{0, 0, 0}, 3, 1},
		"late within the interval": {[]time.Duration{2 * ms, 2 * ms, 2 * ms}, []time.Duration{0, 3 * ms, 5 * ms}, 3, 1},
		"whole intervals lost":     {[]time.Duration{2 * ms, 2 * ms, 2 * ms}, []time.Duration{0, 0, 42 * ms}, 7, 4},
	} {
		t.Run(name, func(t *testing.T) {
			m := meter{took: tt.took, late: tt.late}
			if s := m.result(); s.Intervals != tt.all || s.Still != tt.still {
				t.Errorf("%d of %d, want %d of %d", s.Still, s.Intervals, tt.still, tt.all)
			}
		})
	}
}

// A short look, or none, is not known to have been quiet.
func TestTooShortIsNotQuiet(t *testing.T) {
	if (Seen{}).Quiet() || (Seen{Intervals: least - 1}).Quiet() || !(Seen{Intervals: least}).Quiet() || (Seen{Intervals: 100, Still: 5}).Quiet() || (Seen{Intervals: 100, Crowded: 0.05}).Quiet() {
		t.Error("quiet means under 5 % of at least 50 intervals")
	}
}

// The meter counts about as many intervals as there were, and ends.
func TestWatch(t *testing.T) {
	start := time.Now()
	stop := Watch()
	time.Sleep(600 * time.Millisecond)
	s := stop()
	took := time.Since(start)
	t.Logf("%s, realtime %v", s, s.Realtime)
	if s.Intervals < 1 || s.Intervals > int(took/every)+1 || s.Longest > took {
		t.Errorf("%+v in %s", s, took)
	}
}
