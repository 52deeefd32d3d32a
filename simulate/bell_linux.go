package simulate

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// bell is a sleep that can be cut short. Go's timers round to a millisecond
// when the process is idle; ppoll on an eventfd sleeps to the microsecond.
type bell struct{ fd int }

func newBell() (bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return bell{}, fmt.Errorf("open the pacer's eventfd: %w", err)
	}
	return bell{fd}, nil
}

func (b bell) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(b.fd, one[:]) // full means that it is ringing already
}

func (b bell) wait(d time.Duration) {
	d = min(d, time.Hour)
	ts := unix.NsecToTimespec(int64(d))
	fds := [1]unix.PollFd{{Fd: int32(b.fd), Events: unix.POLLIN}}
	if n, _ := unix.Ppoll(fds[:], &ts, nil); n > 0 {
		var buf [8]byte
		_, _ = unix.Read(b.fd, buf[:])
	}
}

func (b bell) close() error { return unix.Close(b.fd) }

// tightenTimer takes the default slack of 50 µs from this thread's sleeps.
func tightenTimer() (restore func()) {
	old, _, errno := unix.Syscall6(unix.SYS_PRCTL, unix.PR_GET_TIMERSLACK, 0, 0, 0, 0, 0)
	if errno != 0 || unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, old, 0, 0, 0) }
}
