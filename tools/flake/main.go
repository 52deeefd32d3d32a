// Flake runs tests again and again beside a load on the same cores, and says
// which of them failed or were skipped, how often, and with what output the
// first time. A test that asserts facts and order passes here as on a quiet
// machine; one that asserts milliseconds does not, and must be thought over.
//
//	$ go run ./tools/flake -n 10 -load 2 ./hammer ./inference
//	$ go run ./tools/flake -n 3 -load 2 -stall 3s ./...
//
// With -stall all that `go test` started stands still now and then, as on a
// rented machine whose host takes the processors away. Arguments after -- go to
// `go test`. It exits 1 when a test failed once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/assay-bench/assay/tools/gotest"
)

type options struct {
	load            int
	stall           time.Duration
	packages, extra []string
}

func main() {
	n := flag.Int("n", 3, "how often each package's tests run")
	var o options
	flag.IntVar(&o.load, "load", 2, "busy threads beside them")
	flag.DurationVar(&o.stall, "stall", 0, "let them stand still about every ten seconds, for up to so long")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: flake [-n N] [-load N] [-stall DURATION] PACKAGE... [-- FLAG of go test...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.packages = flag.Args()
	if i := slices.Index(o.packages, "--"); i >= 0 {
		o.packages, o.extra = o.packages[:i], o.packages[i+1:]
	}
	if len(o.packages) == 0 {
		flag.Usage()
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := tally{failed: map[string]*outcome{}, skipped: map[string]*outcome{}}
	for round := 1; round <= *n && ctx.Err() == nil; round++ {
		start := time.Now()
		if err := t.round(ctx, o); err != nil {
			fmt.Fprintln(os.Stderr, "flake:", err)
			os.Exit(1)
		}
		fmt.Printf("round %d of %d: %d passed, %d tests failed so far, %.0f s\n",
			round, *n, t.passed, len(t.failed), time.Since(start).Seconds())
	}
	t.print(os.Stdout, *n)
	if len(t.failed) > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

// outcome is how often a test ended so, and what it printed the first time.
type outcome struct {
	times int
	first string
}

type tally struct {
	passed          int
	failed, skipped map[string]*outcome
}

// round runs the packages once. Tests that fail are what it looks for, so the
// exit of `go test` is not an error.
func (t *tally) round(ctx context.Context, o options) error {
	args := append([]string{"test", "-race", "-count=1", "-json", "-skip", "Real"}, o.extra...)
	cmd := exec.CommandContext(ctx, "go", append(args, o.packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stopBusy, stopStalls := busy(o.load), stalls(cmd.Process.Pid, o.stall)
	got, err := gotest.Read(out, io.Discard)
	stopStalls()
	stopBusy()
	t.add(got)
	if wait := cmd.Wait(); wait != nil && cmd.ProcessState == nil {
		return wait
	}
	return err
}

// busy takes a share of the cores, as another program would: threads that never
// sleep.
func busy(n int) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for x := uint64(1); ; x = x*6364136223846793005 + 1 {
				if x&0xfffff != 0 {
					continue
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	return func() { close(done); all.Wait() }
}

func (t *tally) add(got gotest.Tally) {
	t.passed += got.Passed
	for _, f := range got.Failures {
		count(t.failed, f.Name(), f.Output)
	}
	for _, s := range got.Skipped {
		count(t.skipped, s.Name, s.Reason)
	}
}

func count(to map[string]*outcome, name, output string) {
	if to[name] == nil {
		to[name] = &outcome{first: output}
	}
	to[name].times++
}

func (t *tally) print(w io.Writer, rounds int) {
	for _, kind := range []struct {
		word string
		of   map[string]*outcome
	}{{"skipped", t.skipped}, {"FAILED", t.failed}} {
		names := make([]string, 0, len(kind.of))
		for name := range kind.of {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			o := kind.of[name]
			fmt.Fprintf(w, "%s %d of %d: %s\n%s\n", kind.word, o.times, rounds, name, o.first)
		}
	}
	fmt.Fprintf(w, "%d passed, %d tests failed, %d skipped in %d rounds\n", t.passed, len(t.failed), len(t.skipped), rounds)
}
