package telemetry

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func cpuSeconds() (float64, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	sec := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return sec(ru.Utime) + sec(ru.Stime), nil
}

// runDelaySeconds sums over the threads how long each was ready to run and was
// not let. A thread that ended takes its share with it, so the sum may fall a
// little; Go keeps its threads.
func runDelaySeconds() (float64, error) {
	_, delay, err := threadTimes("self")
	return delay.Seconds(), err
}

// threadTimes sums over the threads of a process, by its number or "self", how
// long they ran, and how long they were ready to run and were not let.
func threadTimes(pid string) (ran, delayed time.Duration, err error) {
	dir := "/proc/" + pid + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, t := range threads {
		b, err := os.ReadFile(dir + t.Name() + "/schedstat")
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread ended meanwhile
		}
		if err != nil {
			return 0, 0, err
		}
		f := strings.Fields(string(b))
		if len(f) < 2 {
			return 0, 0, fmt.Errorf("schedstat: %q has no run delay", b)
		}
		for i, sum := range []*time.Duration{&ran, &delayed} {
			ns, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("schedstat: %w", err)
			}
			*sum += time.Duration(ns)
		}
	}
	return ran, delayed, nil
}

func residentBytes() (float64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("statm: %q has no resident pages", b)
	}
	pages, err := strconv.ParseFloat(f[1], 64)
	return pages * float64(os.Getpagesize()), err
}

func openDescriptors() (float64, error) {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	defer d.Close()
	n := 0
	for {
		names, err := d.Readdirnames(1024)
		n += len(names)
		if errors.Is(err, io.EOF) {
			return float64(n - 1), nil // not the one that lists
		}
		if err != nil {
			return 0, err
		}
	}
}
