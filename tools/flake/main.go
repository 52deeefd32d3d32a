// Flake runs tests again and again beside a load on the same cores, and says
// which of them failed or were skipped, how often, and with what output the
// first time. A test that asserts facts and order passes here as on a quiet
// machine; one that asserts milliseconds does not, and must be thought over.
//
//	$ go run ./tools/flake -n 10 -load 2 ./hammer ./inference
//	$ go run ./tools/flake -n 3 -load 2 ./...
//
// Arguments after -- go to `go test`. It exits 1 when a test failed once.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	n := flag.Int("n", 3, "how often each package's tests run")
	load := flag.Int("load", 2, "busy threads beside them")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: flake [-n N] [-load N] PACKAGE... [-- FLAG of go test...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	packages, extra := flag.Args(), []string(nil)
	if i := slices.Index(packages, "--"); i >= 0 {
		packages, extra = packages[:i], packages[i+1:]
	}
	if len(packages) == 0 {
		flag.Usage()
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := tally{failed: map[string]*outcome{}, skipped: map[string]*outcome{}}
	for round := 1; round <= *n && ctx.Err() == nil; round++ {
		start := time.Now()
		if err := t.round(ctx, *load, packages, extra); err != nil {
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
func (t *tally) round(ctx context.Context, load int, packages, extra []string) error {
	args := append([]string{"test", "-race", "-count=1", "-json", "-skip", "Real"}, extra...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := busy(load)
	err = t.read(out)
	stop()
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

// read takes the events of `go test -json`; `go doc test2json` describes them.
func (t *tally) read(r io.Reader) error {
	output := map[string]*strings.Builder{}
	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(s.Bytes(), &e) != nil {
			fmt.Println(s.Text())
			continue
		}
		name := e.Package
		if e.Test != "" {
			name += "." + e.Test
		}
		switch e.Action {
		case "output":
			if output[name] == nil {
				output[name] = new(strings.Builder)
			}
			output[name].WriteString(e.Output)
			continue
		case "pass":
			if e.Test != "" {
				t.passed++
			}
		case "fail":
			t.add(t.failed, name, output[name])
		case "skip":
			if e.Test != "" {
				t.add(t.skipped, name, output[name])
			}
		default:
			continue
		}
		delete(output, name)
	}
	return s.Err()
}

func (t *tally) add(to map[string]*outcome, name string, output *strings.Builder) {
	o := to[name]
	if o == nil {
		o = &outcome{}
		if output != nil {
			o.first = output.String()
		}
		to[name] = o
	}
	o.times++
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
			fmt.Fprintf(w, "%s %d of %d: %s\n", kind.word, o.times, rounds, name)
			if kind.word == "FAILED" {
				fmt.Fprint(w, o.first)
			}
		}
	}
	fmt.Fprintf(w, "%d passed, %d tests failed, %d skipped in %d rounds\n", t.passed, len(t.failed), len(t.skipped), rounds)
}
