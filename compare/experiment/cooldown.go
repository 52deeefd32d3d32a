package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
)

// level is how warm and how busy the machine was. Busy is the share of the
// processors' time in the last second, and not the load average: that one takes
// minutes to forget an engine that has long ended.
type level struct {
	busy    float64
	hasBusy bool
	heat    map[string]float64 // of each GPU that says
}

func (m *monitor) now() level {
	l := level{heat: map[string]float64{}}
	l.busy, l.hasBusy = m.value(assay.HostCPU, "")
	for _, g := range m.gpus {
		if t, ok := m.value(assay.GPUTemperature, g.UUID); ok {
			l.heat[g.UUID] = t
		}
	}
	return l
}

// above says what of l is above the level that it should be back at, within the
// tolerances; empty: nothing. What is not read holds nothing up.
func (l level) above(start level, s SystemConfig) string {
	for gpu, t := range l.heat {
		if was, ok := start.heat[gpu]; ok && t > was+s.CoolDownTolerance {
			return fmt.Sprintf("GPU %s has %.0f °C, and had %.0f °C at the start", gpu, t, was)
		}
	}
	if l.hasBusy && start.hasBusy && l.busy > start.busy+s.CoolDownLoad {
		return fmt.Sprintf("the processors are busy for %.0f %%, and were for %.0f %% at the start", 100*l.busy, 100*start.busy)
	}
	return ""
}

// maxSettle is how long the start's level is waited for: processors take two
// looks, a second apart.
const maxSettle = 4 * time.Second

// settle reads the machine before the first engine.
func (m *monitor) settle(ctx context.Context) {
	if *m.x.cfg.System.CoolDownSeconds == 0 || len(m.x.engines) < 2 {
		return
	}
	for end := time.Now().Add(maxSettle); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		if m.level = m.now(); m.level.hasBusy {
			break
		}
	}
	m.x.log.linef("the machine before the first engine: %s", m.level)
}

func (l level) String() string {
	s := "load not known"
	if l.hasBusy {
		s = fmt.Sprintf("processors busy for %.0f %%", 100*l.busy)
	}
	for gpu, t := range l.heat {
		s += fmt.Sprintf(", GPU %s %.0f °C", gpu, t)
	}
	return s
}

// coolDown waits until the machine is as it was at the start, between engines.
func (x *trial) coolDown(ctx context.Context) error {
	s := x.cfg.System
	least := time.Duration(*s.CoolDownSeconds * float64(time.Second))
	if least > 0 && x.mon.visited {
		began := time.Now()
		pause(ctx, least)
		why := ""
		for ctx.Err() == nil {
			if why = x.mon.now().above(x.mon.level, s); why == "" {
				break
			}
			if time.Since(began) >= max(least, time.Duration(s.CoolDownTimeout)) {
				x.note("some cool-downs were ended by their timeout of %s", s.CoolDownTimeout)
				x.log.linef("cool-down ended by its timeout: %s", why)
				break
			}
			pause(ctx, 250*time.Millisecond)
		}
		x.log.linef("cooled down for %s: %s", time.Since(began).Round(100*time.Millisecond), x.mon.now())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return x.thermal(ctx)
}

// maxThermalPause is how long a GPU may take to fall below its limit.
const maxThermalPause = 30 * time.Minute

// thermal waits while a GPU is above the limit.
func (x *trial) thermal(ctx context.Context) error {
	limit := x.cfg.System.ThermalLimit
	if limit <= 0 {
		return nil
	}
	hot := func(above float64) (string, float64) {
		for gpu, t := range x.mon.now().heat {
			if t > above {
				return gpu, t
			}
		}
		return "", 0
	}
	gpu, t := hot(limit)
	if gpu == "" {
		return ctx.Err()
	}
	x.note("paused at the thermal limit of %g °C", limit)
	x.log.linef("GPU %s has %.0f °C, above the limit of %g °C: paused", gpu, t, limit)
	began := time.Now()
	// A little below, so that the next run does not begin at the limit.
	for ctx.Err() == nil {
		if gpu, t = hot(limit - x.cfg.System.CoolDownTolerance); gpu == "" {
			break
		}
		if time.Since(began) > maxThermalPause {
			return fmt.Errorf("GPU %s still has %.0f °C after a pause of %s, and the limit is %g °C", gpu, t, maxThermalPause, limit)
		}
		pause(ctx, 250*time.Millisecond)
	}
	x.log.linef("went on after %s", time.Since(began).Round(time.Second))
	return ctx.Err()
}

// pause sleeps, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
