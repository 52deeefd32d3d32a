package experiment

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

// logbook is logs/benchmark.log: what was done, a line for each thing with its
// time. It is locked while it is open: no two processes run one experiment.
type logbook struct {
	mu   sync.Mutex
	f    *os.File
	shut func() error // closes f, and ends its lock if there is one
	log  *slog.Logger
	err  error
}

func openLog(path string, log *slog.Logger) (*logbook, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	shut := func() error { return disk.Unlock(f) }
	free, err := disk.TryLock(f)
	if errors.Is(err, errors.ErrUnsupported) {
		free, err, shut = true, nil, f.Close // nothing can keep others out here
	}
	if err == nil && !free {
		err = ErrBusy
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &logbook{f: f, shut: shut, log: log}, nil
}

// linef writes a line. An error of writing is kept for close.
func (l *logbook) linef(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := stamp(time.Now()) + " " + strings.TrimRight(fmt.Sprintf(format, args...), "\n") + "\n"
	if _, err := l.f.WriteString(line); err != nil && l.err == nil {
		l.err = fmt.Errorf("writing the log: %w", err)
	}
}

// sayf writes a line, here and into the log of whoever runs the experiment.
func (l *logbook) sayf(format string, args ...any) {
	l.linef(format, args...)
	l.log.Info(fmt.Sprintf(format, args...))
}

func (l *logbook) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.shut(); l.err == nil && err != nil {
		l.err = fmt.Errorf("closing the log: %w", err)
	}
	return l.err
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
