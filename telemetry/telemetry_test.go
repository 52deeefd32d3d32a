package telemetry

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
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
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
	}
	read()
	if got["client_cpu_seconds_total"] <= before {
		t.Errorf("spinning cost no CPU time: %v then %v", before, got["client_cpu_seconds_total"])
	}
}

// A child that is stopped by a signal must notice it.
func TestClientNoticesThatItWasStopped(t *testing.T) {
	if os.Getenv("ASSAY_STOPPED_CHILD") == "" {
		if runtime.GOOS != "linux" {
			t.Skip("stops itself by a signal")
		}
		attr := &os.ProcAttr{Env: append(os.Environ(), "ASSAY_STOPPED_CHILD=1"), Files: []*os.File{nil, os.Stdout, os.Stderr}}
		p, err := os.StartProcess(os.Args[0], []string{os.Args[0], "-test.run=^TestClientNoticesThatItWasStopped$"}, attr)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		_ = p.Signal(syscall.SIGSTOP)
		time.Sleep(400 * time.Millisecond)
		_ = p.Signal(syscall.SIGCONT)
		st, err := p.Wait()
		if err != nil || !st.Success() {
			t.Fatalf("child: %v %v", st, err)
		}
		return
	}
	c := NewClient()
	defer c.Close()
	time.Sleep(1200 * time.Millisecond)
	if s := time.Duration(c.stalled.Load()); s < 250*time.Millisecond || s > 800*time.Millisecond {
		t.Errorf("stopped for 400 ms, noticed %v", s)
	}
}

func TestDescribeNode(t *testing.T) {
	n := DescribeNode()
	if n.Cores < 1 || n.OS == "" || n.GPUs == nil {
		t.Errorf("%+v", n)
	}
}
