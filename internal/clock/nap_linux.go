package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap may return early (a signal); the caller looks at the clock again.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}
