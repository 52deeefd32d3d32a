package hammer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/telemetry"
)

// watch does what happens every second beside the load: checkpoints, the
// client's own readings, the clock. The function that it returns ends it.
func (r *run) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	self := telemetry.NewClient()
	own := &ownReadings{r: r}
	var done sync.WaitGroup
	done.Go(func() {
		telemetry.Poll(ctx, time.Second, r.clock.Now, []telemetry.Source{self, own},
			r.reading,
			func(err error) { r.event(assay.EventWarning, "", err.Error(), nil) })
	})
	done.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if step, stepped := r.clock.Measure(); stepped {
				r.event(assay.EventClockStep, "", fmt.Sprintf("the wall clock was stepped by %s", step), map[string]float64{"seconds": step.Seconds()})
			}
			r.sayDemoted()
			r.watchSpeed(r.clock.Now(), r.client.Came(), r.gen.Busy())
			cp := r.checkpoint(assay.StatusRunning)
			r.check(r.w.Checkpoint(cp))
			r.opt.Progress(cp)
		}
	})
	return func() {
		cancel()
		done.Wait()
		_ = self.Close() // never fails
		r.feed.close()
	}
}

// ownReadings are what only the run knows of itself.
type ownReadings struct {
	r    *run
	seen map[string]int
}

func (o *ownReadings) Name() string { return "client" }
func (o *ownReadings) Close() error { return nil }

func (o *ownReadings) Read(_ context.Context, emit func(assay.Reading)) error {
	in := o.r.gen.TakeInFlight()
	emit(assay.Reading{Name: "client_in_flight", Value: &in})
	if counts := o.r.client.TakeLag(nil); len(counts) > 0 {
		emit(assay.Reading{Name: "client_lag_us", Counts: counts})
	}
	if s, ok := o.r.node.meter.Seconds(); ok && len(o.r.node.sources) > 0 {
		emit(assay.Reading{Name: "sampling_cpu_seconds_total", Value: &s})
	}
	if o.seen == nil {
		o.seen = map[string]int{}
	}
	l := o.r.client.Limits()
	for name, n := range map[string]int{"file_descriptors": int(l.FileDescriptors), "ports": int(l.Ports), "memory": int(l.Memory)} {
		if n > o.seen[name] {
			o.r.event(assay.EventLimit, "", fmt.Sprintf("%d requests could not be sent for want of %s", n-o.seen[name], name),
				map[string]float64{name: float64(n - o.seen[name])})
			o.seen[name] = n
		}
	}
	return nil
}

// checkpoint is where the run is.
func (r *run) checkpoint(status assay.Status) assay.Checkpoint {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := assay.Checkpoint{
		At: now, Status: status, Stage: r.stage.Name, StageN: r.stageN, StageOf: r.cfg.stageCount(),
		ElapsedNS: now - r.started, Sent: r.sent, Done: r.done, Errors: map[assay.Failure]int{},
	}
	for k, v := range r.errs {
		c.Errors[k] = v
	}
	if r.gen != nil {
		p := r.gen.Progress()
		c.InFlight, c.Waiting = p.InFlight, p.Waiting
		c.Sent += p.InFlight
	}
	if status == assay.StatusRunning {
		c.LeftNS = r.left(now)
	}
	l := r.live.Figures(now)
	c.RequestRate, c.TokenRate, c.TTFTp50, c.TTFTp99 = l.RequestRate, l.TokenRate, l.TTFTp50, l.TTFTp99
	return c
}

// left estimates the time left; 0 when nobody can know. It is called with the
// lock held.
func (r *run) left(now int64) int64 {
	of := r.cfg.stageCount()
	if of == 0 || r.began == 0 {
		return 0
	}
	elapsed := now - r.began
	var stage int64
	switch {
	case r.stage.DurationNS > 0:
		if stage = r.stage.DurationNS - elapsed; stage < 0 {
			return 0 // it drains
		}
	case r.stage.Requests > 0 && r.gen != nil:
		p := r.gen.Progress()
		if p.Done == 0 {
			return 0
		}
		stage = elapsed * int64(r.stage.Requests-p.Done) / int64(p.Done)
	default:
		return 0
	}
	per := max(r.stage.DurationNS, elapsed)
	return max(int64(time.Second), stage+per*int64(max(0, of-r.stageN)))
}
