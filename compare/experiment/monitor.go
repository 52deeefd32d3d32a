package experiment

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/telemetry"
)

// monitor reads the machine once a second for as long as the experiment lasts:
// for logs/system_metrics.log, for cool-downs and for the thermal limit. The runs
// have readings of their own, at the interval that was asked for.
type monitor struct {
	x       *trial
	sources []telemetry.Source
	gpus    []assay.GPU
	level   level // the machine before the first engine
	visited bool  // an engine was measured since
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	last   map[reading]valued
	engine string
	p      *proc.Process
}

type reading struct{ name, device string }

type valued struct {
	v  float64
	at time.Time
}

// staleAfter is how long a reading speaks: sources may leave out what has not
// changed for a second.
const staleAfter = 5 * time.Second

// speaks reports whether a reading is not too old. Clocks and temperatures are read
// every five seconds, as asking for them disturbs the core.
func (v valued) speaks(name string) bool {
	stale := staleAfter
	if name == assay.HostCPUFrequency || name == assay.HostTemperature {
		stale *= 3
	}
	return time.Since(v.at) < stale
}

func newMonitor(ctx context.Context, x *trial) (*monitor, error) {
	m := &monitor{x: x, last: map[reading]valued{}}
	o := telemetry.ChooseOptions{Interval: time.Second}
	if *x.cfg.Monitoring.GPUMetrics {
		o.Child = x.opt.NVML
	}
	var notes []string
	var err error
	if m.sources, m.gpus, notes, err = telemetry.Choose(ctx, o); err != nil {
		return nil, err
	}
	for _, n := range notes {
		x.log.linef("readings: %s", n)
	}
	if len(x.exp.Node.GPUs) == 0 {
		x.exp.Node.GPUs = append([]assay.GPU{}, m.gpus...)
	}
	f, err := os.OpenFile(filepath.Join(x.dir, "logs", "system_metrics.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of readings: %w", err)
	}
	// It goes on until close, also when the experiment is told to stop.
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	m.done.Go(func() {
		telemetry.Poll(ctx, time.Second, func() int64 { return time.Now().UnixNano() }, m.sources, m.see,
			func(err error) { x.log.linef("readings: %v", err) })
	})
	m.done.Go(func() { m.write(ctx, f) })
	return m, nil
}

func (m *monitor) close() {
	m.cancel()
	m.done.Wait()
	for _, s := range m.sources {
		_ = s.Close() // what it read is written
	}
}

// maxReadings bounds what a source could make us keep.
const maxReadings = 10_000

func (m *monitor) see(r assay.Reading) {
	if r.Value == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := reading{r.Name, r.Device}
	if _, known := m.last[k]; known || len(m.last) < maxReadings {
		m.last[k] = valued{*r.Value, time.Now()}
	}
}

// value is the last reading of a name, if it still speaks.
func (m *monitor) value(name, device string) (float64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.last[reading{name, device}]
	return v.v, ok && v.speaks(name)
}

// follow says which engine's memory is shown; none with an empty name.
func (m *monitor) follow(engine string, p *proc.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engine, m.p = engine, p
}

// write writes a line a second until ctx ends.
func (m *monitor) write(ctx context.Context, f *os.File) {
	defer f.Close()
	w := bufio.NewWriter(f)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, _ = w.WriteString(m.line())
		if err := w.Flush(); err != nil {
			m.x.log.linef("writing the log of readings: %v", err)
			return
		}
	}
}

// saw reports whether a name was ever read.
func (m *monitor) saw(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.last {
		if k.name == name {
			return true
		}
	}
	return false
}
