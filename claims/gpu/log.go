package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/telemetry"
)

// LogFile is the name of the log in the results directory.
const LogFile = "gpu_metrics.log"

// Log writes a line a second for each GPU while a suite runs, in the columns of
// nvidia-smi dmon -s pucvmet -o DT, from the readings that every other part of the
// program takes. It is a [claims.Beside].
type Log struct {
	// Child is the command line of a child that reads NVIDIA's driver; nil: it is
	// not read by NVML.
	Child []string
	// ProcRoot and SysRoot are where procfs and sysfs are; empty: /proc, /sys.
	ProcRoot, SysRoot string
	// Interval between lines; 0: a second.
	Interval time.Duration

	choose func(context.Context, telemetry.ChooseOptions) ([]telemetry.Source, []assay.GPU, []string, error) // of a test; nil: telemetry.Choose

	file    *os.File
	sources []telemetry.Source
	gpus    []assay.GPU
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	latest map[string]map[string]assay.Reading // by device and name, since the last line
	before map[string]map[string]assay.Reading // of counters, at the last line
	failed error                               // of the first line that was not written
}

var _ claims.Beside = (*Log)(nil)

// Start begins the log. Without a GPU that is read it is a file that says why.
func (l *Log) Start(ctx context.Context, dir string) (err error) {
	if l.Interval <= 0 {
		l.Interval = time.Second
	}
	choose := l.choose
	if choose == nil {
		choose = telemetry.Choose
	}
	if l.file, err = os.OpenFile(filepath.Join(dir, LogFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return fmt.Errorf("begin the log of GPU readings: %w", err)
	}
	sources, gpus, notes, err := choose(ctx, telemetry.ChooseOptions{Child: l.Child, ProcRoot: l.ProcRoot, SysRoot: l.SysRoot, Interval: l.Interval})
	if err != nil {
		return errors.Join(fmt.Errorf("begin the log of GPU readings: %w", err), l.file.Close())
	}
	for _, s := range sources {
		if s.Name() == "host" { // no column is about it
			_ = s.Close()
			continue
		}
		l.sources = append(l.sources, s)
	}
	l.gpus = gpus
	l.latest, l.before = map[string]map[string]assay.Reading{}, map[string]map[string]assay.Reading{}
	l.write(logHead(gpus, notes))
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if len(gpus) == 0 {
		return nil
	}
	start := time.Now()
	now := func() int64 { return time.Since(start).Nanoseconds() }
	l.done.Go(func() { telemetry.Poll(ctx, l.Interval, now, l.sources, l.take, func(error) {}) })
	l.done.Go(func() { l.lines(ctx) })
	return nil
}

func (l *Log) take(r assay.Reading) {
	if r.Device == "" || r.Value == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest[r.Device] == nil {
		l.latest[r.Device] = map[string]assay.Reading{}
	}
	l.latest[r.Device][r.Name] = r
}

func (l *Log) lines(ctx context.Context) {
	tick := time.NewTicker(l.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			l.line(at)
		}
	}
}

// line writes what was read since the last line; a reading that did not come is a
// dash, never the one before.
func (l *Log) line(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	for _, g := range l.gpus {
		readings := l.latest[g.UUID]
		fmt.Fprintf(&b, "%s %6d", at.Format(" 20060102 15:04:05"), g.Index)
		for _, c := range logColumns {
			text := "-"
			if c.value != nil {
				if v, ok := c.value(readings, l.before[g.UUID]); ok {
					text = fmt.Sprintf("%.0f", v)
				}
			}
			fmt.Fprintf(&b, " %6s", text)
		}
		b.WriteByte('\n')
		if len(readings) > 0 {
			l.before[g.UUID] = readings
		}
	}
	l.latest = map[string]map[string]assay.Reading{}
	l.writeLocked(b.Bytes())
}

func (l *Log) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeLocked(b)
}

func (l *Log) writeLocked(b []byte) {
	if l.failed == nil {
		_, l.failed = l.file.Write(b)
	}
}

// Stop ends the log.
func (l *Log) Stop(r *claims.Result) {
	l.cancel()
	l.done.Wait()
	err := l.failed
	for _, s := range l.sources {
		_ = s.Close() // what it gave is written
	}
	if cerr := l.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is not whole: %v", LogFile, err))
	}
}

// logHead names the columns, as dmon does, and says what is not there.
func logHead(gpus []assay.GPU, notes []string) []byte {
	var b bytes.Buffer
	for _, g := range gpus {
		fmt.Fprintf(&b, "# GPU %d: %s, read by %s\n", g.Index, foreign.Line(g.Name, 100), foreign.Line(g.Source, 40))
	}
	if len(gpus) == 0 {
		fmt.Fprintf(&b, "# no GPU is read: %s\n", foreign.Line(strings.Join(notes, "; "), 2000))
	}
	fmt.Fprintf(&b, "#%8s %8s %6s", "YYYYMMDD", "HH:MM:SS", "gpu")
	for _, c := range logColumns {
		fmt.Fprintf(&b, " %6s", c.name)
	}
	fmt.Fprintf(&b, "\n#%8s %8s %6s", "date", "time", "Idx")
	for _, c := range logColumns {
		fmt.Fprintf(&b, " %6s", c.unit)
	}
	b.WriteByte('\n')
	return b.Bytes()
}
