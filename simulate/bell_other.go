//go:build !linux

package simulate

import "time"

// bell is a sleep that can be cut short; without Linux's calls it is only as
// fine as Go's timers.
type bell struct{ rung chan struct{} }

func newBell() (bell, error) { return bell{make(chan struct{}, 1)}, nil }

func (b bell) ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

func (b bell) wait(d time.Duration) {
	t := time.NewTimer(min(d, time.Hour))
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.rung:
	}
}

func (b bell) close() error { return nil }

func tightenTimer() (restore func()) { return func() {} }
