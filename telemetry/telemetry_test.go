package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child"
)

type fake struct {
	reads int
	err   error
}

func (f *fake) Name() string { return "fake" }
func (f *fake) Close() error { return nil }
func (f *fake) Read(_ context.Context, emit func(assay.Reading)) error {
	f.reads++
	emit(value("one", float64(f.reads)))
	return f.err
}

func TestPollKeepsItsIntervalAndReportsAFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
		defer cancel()
		src := &fake{err: errors.New("driver says no")}
		start := time.Now()
		var at []int64
		var failures []error
		Poll(ctx, 100*time.Millisecond, func() int64 { return time.Since(start).Milliseconds() }, []Source{src},
			func(r assay.Reading) {
				if r.Source != "fake" || r.Value == nil {
					t.Errorf("reading %+v", r)
				}
				at = append(at, r.At)
			}, func(err error) { failures = append(failures, err) })
		if len(at) != 11 || at[0] != 100 || at[9] != 1000 || at[10] != 1050 {
			t.Errorf("read at %v ms", at)
		}
		if len(failures) != 1 {
			t.Errorf("the failure was reported %d times: %v", len(failures), failures)
		}
	})
}

func TestClientReadsItself(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process's own readings are taken from /proc, which only Linux has")
	}
	c := NewClient()
	defer c.Close()
	got := map[string]float64{}
	read := func() {
		if err := c.Read(t.Context(), func(r assay.Reading) { got[r.Name] = *r.Value }); err != nil {
			t.Fatal(err)
		}
	}
	read()
	fds := got["client_open_fds"]
	if fds < 3 || got["client_resident_memory_bytes"] < 1<<20 {
		t.Errorf("implausible: %v", got)
	}
	before := got["client_cpu_seconds_total"]
	for end := time.Now().Add(patience); got["client_cpu_seconds_total"] <= before && time.Now().Before(end); {
		read()
	}
	if got["client_cpu_seconds_total"] <= before {
		t.Errorf("spinning cost no CPU time: %v then %v", before, got["client_cpu_seconds_total"])
	}
}

// A process that is stopped by a signal notices it, and for how long.
func TestClientNoticesThatItWasStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks in /proc for whether it is stopped")
	}
	p, err := child.Start(child.Spec{Command: []string{os.Args[0], "child-stopped"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(0)
	until := time.Now().Add(patience)
	line := func() (s string) {
		t.Helper()
		err := p.Receive(t.Context(), until, func(b []byte) (bool, error) { s = string(b); return true, nil })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	pid, err := strconv.Atoi(line())
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for stopped := false; !stopped; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || time.Now().After(until) {
			t.Fatal("it does not stop", err)
		}
		stopped = bytes.Contains(b, []byte(") T "))
	}
	// From here to there it stands still, whatever else the machine does.
	from := time.Now()
	time.Sleep(10 * tickSlack)
	stood := time.Since(from)
	_ = syscall.Kill(pid, syscall.SIGCONT)
	// What it notices is the time since its last look, less a tick.
	if err := p.Send(t.Context(), until, fmt.Appendln(nil, int64(stood-tick))); err != nil {
		t.Fatal(err)
	}
	if got := line(); got != "noticed" {
		t.Errorf("stopped for %v: %s", stood, got)
	}
}

// serveStopped is the process that is stopped.
func serveStopped([]string) error {
	began := time.Now()
	c := NewClient()
	defer c.Close()
	fmt.Println(os.Getpid())
	var want int64
	if _, err := fmt.Scanln(&want); err != nil {
		return err
	}
	for time.Since(began) < patience && c.stalled.Load() < want {
		time.Sleep(tick)
	}
	switch got := c.stalled.Load(); {
	case got < want:
		fmt.Println("only", time.Duration(got))
	case got > int64(time.Since(began)):
		fmt.Println("more than its life:", time.Duration(got))
	default:
		fmt.Println("noticed")
	}
	return nil
}

// A process that always runs when it wants to has noticed nothing.
func TestClientThatWasNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient()
		time.Sleep(time.Minute)
		if got := c.stalled.Load(); got != 0 {
			t.Errorf("noticed %v", time.Duration(got))
		}
		_ = c.Close()
	})
}

func TestDescribeNode(t *testing.T) {
	n := DescribeNode()
	if n.Cores < 1 || n.OS == "" || n.GPUs == nil {
		t.Errorf("%+v", n)
	}
}
