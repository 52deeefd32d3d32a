//go:build unix

package simulate

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usageOfProcess is the CPU time and resident memory of this process; 0 where
// the system does not say.
func usageOfProcess() (cpu time.Duration, rss int64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return cpu, 0
	}
	if f := bytes.Fields(b); len(f) > 1 {
		pages, _ := strconv.ParseInt(string(f[1]), 10, 64)
		rss = pages * int64(os.Getpagesize())
	}
	return cpu, rss
}
