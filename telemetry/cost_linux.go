package telemetry

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread.
func threadTime() (time.Duration, bool) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// processTime is the processor time of a process, of all its threads.
func processTime(pid int) (time.Duration, bool) {
	ran, _, err := threadTimes(strconv.Itoa(pid))
	return ran, err == nil
}
