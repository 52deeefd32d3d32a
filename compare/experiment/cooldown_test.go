package experiment

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
)

func TestAbove(t *testing.T) {
	s := SystemConfig{CoolDownTolerance: 5, CoolDownLoad: 0.1}
	start := level{busy: 0.2, hasBusy: true, heat: map[string]float64{"g": 40}}
	for _, tt := range []struct {
		now  level
		want string
	}{
		{level{busy: 0.3, hasBusy: true, heat: map[string]float64{"g": 45}}, ""},
		{level{busy: 0.31, hasBusy: true}, "the processors are busy"},
		{level{busy: 0.1, hasBusy: true, heat: map[string]float64{"g": 46}}, "GPU g has 46 °C"},
		{level{}, ""}, // not read: it holds nothing up
		{level{heat: map[string]float64{"other": 90}}, ""},    // not known at the start
		{level{busy: 0.9, heat: map[string]float64{}}, ""},    // busy was not read
		{level{busy: 0, hasBusy: true, heat: start.heat}, ""}, // cooler than at the start
	} {
		if got := tt.now.above(start, s); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.now, got, tt.want)
		}
	}
}

// warm makes a trial whose only GPU has the temperature that the function gives.
func warm(t *testing.T, s SystemConfig) *trial {
	l := discard(t)
	x := &trial{cfg: Config{System: s}, log: l, exp: &compare.Experiment{}, engines: make([]EngineConfig, 2)}
	x.mon = &monitor{x: x, gpus: []assay.GPU{{UUID: "g"}}, last: map[reading]valued{}, visited: true}
	x.mon.level = level{heat: map[string]float64{"g": 40}}
	return x
}

// heats has the GPU start at a temperature and fall by a degree a second.
func (m *monitor) heats(ctx context.Context, from float64) {
	for began := time.Now(); ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		v := from - time.Since(began).Seconds()
		m.see(assay.Reading{Name: assay.GPUTemperature, Device: "g", Value: &v})
	}
}

func TestCoolDownWaits(t *testing.T) {
	five := 5.0
	for _, tt := range []struct {
		name     string
		from     float64
		limit    float64
		least    time.Duration
		most     time.Duration
		notes    string
		timeouts time.Duration
	}{
		{"cool already", 40, 0, 5 * time.Second, 6 * time.Second, "", time.Minute},
		{"falls to within the tolerance", 60, 0, 15 * time.Second, 16 * time.Second, "", time.Minute},
		{"timeout", 90, 0, 10 * time.Second, 11 * time.Second, "ended by their timeout", 10 * time.Second},
		{"thermal limit", 95, 80, 20 * time.Second, 21 * time.Second, "paused at the thermal limit", 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := warm(t, SystemConfig{CoolDownSeconds: &five, CoolDownTolerance: 5, CoolDownLoad: 0.1, CoolDownTimeout: assay.Duration(tt.timeouts), ThermalLimit: tt.limit})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go x.mon.heats(ctx, tt.from)
			synctest.Wait()
			began := time.Now()
			if err := x.coolDown(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < tt.least || took > tt.most {
				t.Errorf("%s: %s, want %s to %s", tt.name, took, tt.least, tt.most)
			}
			if got := strings.Join(x.exp.Notes, "; "); (tt.notes == "") != (got == "") || !strings.Contains(got, tt.notes) {
				t.Errorf("%s: notes %q", tt.name, got)
			}
		})
	}
}

// A reading that stopped coming holds nothing up.
func TestStaleReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{last: map[reading]valued{}}
		v := 0.5
		m.see(assay.Reading{Name: assay.HostCPU, Value: &v})
		if _, ok := m.value(assay.HostCPU, ""); !ok {
			t.Error("not there")
		}
		time.Sleep(staleAfter)
		if _, ok := m.value(assay.HostCPU, ""); ok {
			t.Error("still there")
		}
	})
}
