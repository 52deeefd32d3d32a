package telemetry

import (
	"bytes"
	"os"
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
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, false
	}
	var sum time.Duration
	for _, t := range threads {
		b, err := os.ReadFile(dir + t.Name() + "/schedstat")
		if err != nil {
			continue // the thread ended meanwhile
		}
		first, _, _ := bytes.Cut(b, []byte(" "))
		if ns, err := strconv.ParseInt(string(first), 10, 64); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum, true
}
