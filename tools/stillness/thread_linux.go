package stillness

import (
	"syscall"
	"time"
	"unsafe"
)

// realtime gives the calling thread the lowest realtime priority.
func realtime() bool {
	const roundRobin = 2
	priority := int32(1)
	_, _, errno := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, 0, roundRobin, uintptr(unsafe.Pointer(&priority)))
	return errno == 0
}

// nap sleeps in the kernel: a timer of the runtime would wake another thread,
// without our priority, first.
func nap(d time.Duration) {
	if d <= 0 {
		return
	}
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // woken early, it measures early
}
