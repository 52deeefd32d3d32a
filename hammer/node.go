package hammer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/score"
	"github.com/assay-bench/assay/telemetry"
)

// idleBefore is how long GPUs are read before anything is asked of the engine:
// what they draw then is the idle power.
const idleBefore = 2 * time.Second

// node is what is read of the machine beside the load.
type node struct {
	sources []telemetry.Source
	gpus    []assay.GPU
	notes   []string
	meter   telemetry.Meter
	witness witness
}

// lookAround finds what there is to read.
func (r *run) lookAround(ctx context.Context) error {
	if r.cfg.Telemetry.Interval <= 0 {
		r.node.notes = []string{"readings of the node were turned off"}
		return nil
	}
	o := telemetry.ChooseOptions{
		Child: r.opt.NVML, DCGMURL: r.cfg.Telemetry.DCGM, EngineURL: r.cfg.URL,
		EngineHeader: r.cfg.engineHeader(), Interval: time.Duration(r.cfg.Telemetry.Interval),
	}
	var err error
	r.node.sources, r.node.gpus, r.node.notes, err = telemetry.Choose(ctx, o)
	return err
}

// read polls the node's sources until the function that it returns is called.
func (r *run) read(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	sources := r.node.meter.Metered(r.node.sources)
	go func() {
		defer close(done)
		if len(sources) == 0 {
			return
		}
		telemetry.Poll(ctx, time.Duration(r.cfg.Telemetry.Interval), r.clock.Now, sources, r.reading,
			func(err error) { r.event(assay.EventWarning, "", err.Error(), nil) })
	}()
	return func() {
		cancel()
		<-done
		for _, s := range r.node.sources {
			if err := s.Close(); err != nil {
				r.event(assay.EventWarning, "", fmt.Sprintf("closing %s: %v", s.Name(), err), nil)
			}
		}
	}
}

// reading records a reading and shows it to whoever looks.
func (r *run) reading(x assay.Reading) {
	r.check(r.w.Reading(x))
	r.node.witness.see(x)
	r.opt.Reading(x)
}

// settle reads GPUs for a moment before anything is asked of the engine. With
// ReloadModel it does so twice: without the model, and with it.
func (r *run) settle(ctx context.Context) error {
	if len(r.node.gpus) == 0 {
		return nil
	}
	wait := func(p phase) {
		r.node.witness.enter(p)
		select {
		case <-ctx.Done():
		case <-time.After(idleBefore):
		}
		r.node.witness.enter(phaseBusy)
	}
	if r.cfg.ReloadModel {
		if err := unload(ctx, r.cfg); err != nil {
			return err
		}
		r.event(assay.EventNote, "", "the model was unloaded, to see what loading it takes", nil)
		select { // the engine frees its memory after it has answered
		case <-ctx.Done():
		case <-time.After(idleBefore):
		}
		wait(phaseUnloaded)
		if _, err := r.calibrate(ctx); err != nil && !errors.Is(err, errNoUsage) {
			return err
		}
	}
	wait(phaseIdle)
	return nil
}

// verified records the checks that the caller made before, and what the run
// itself shows of where the model ran.
func (r *run) verified() {
	checks := r.opt.Checks
	if onThisMachine(r.cfg.URL) {
		r.mu.Lock()
		answered := r.done
		r.mu.Unlock()
		if answered > 0 {
			checks = append(slices.Clip(checks), r.node.witness.checks(time.Unix(0, r.clock.Now()), r.cfg.engineModel.Bytes)...)
		}
	}
	for _, c := range checks {
		r.check(r.w.Check(c))
	}
}

// Health judges the node that a run was made on, by what is on record.
func Health(rd *journal.Run, sum assay.Summary) (assay.Health, error) {
	m := rd.Manifest()
	in := score.Input{
		Manifest: m, Summary: sum, Baseline: m.Judge.Baseline,
		Terms: score.Terms{Price: m.Judge.PricePerHour, EnergyRate: m.Judge.EnergyRate},
	}
	var err error
	if in.Checks, err = Checks(rd); err != nil {
		return assay.Health{}, err
	}
	return score.Health(in), nil
}

// Checks gives what was verified in a run. A run that was resumed may have
// checked a thing twice: then the later one stands.
func Checks(rd *journal.Run) ([]assay.Check, error) {
	var out []assay.Check
	for c, err := range rd.Checks() {
		if err != nil {
			return nil, err
		}
		out = slices.DeleteFunc(out, func(o assay.Check) bool { return o.Name == c.Name && o.Device == c.Device })
		out = append(out, *c)
	}
	return out, nil
}

// onThisMachine reports whether the engine is where the readings are from.
func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
