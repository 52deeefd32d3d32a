// Package profile says in which code processor time went while probes were
// measured: of our own process and what it starts, and of an engine's process
// tree, by perf where that is installed and permitted, else of our own process
// alone, by the runtime.
//
// It promises to say what is not in the profile and why, and to leave nothing
// running. What comes from stacks is foreign text: it is bounded, and nothing of
// it is obeyed by a terminal or a browser. It refuses to look into processes of
// other machines, and to change the kernel's settings to be permitted more.
package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// Files of a profile in the results directory.
const (
	FoldedFile = "profile.folded" // a stack a line, its frames joined by semicolons, and a count
	FlameFile  = "profile.html"   // the flame graph
	dataFile   = "perf.data"      // perf's own, removed in the end
)

// hertz is how often a processor is looked at: not in step with timers of 100 or
// 1000 Hz, and rarely enough that a probe does not notice.
const (
	hertz    = 99
	ownHertz = 100 // the runtime's own
)

// Recorder profiles while a suite runs: it is a [claims.Beside].
type Recorder struct {
	// Perf is the program; empty: perf, as PATH has it.
	Perf string
	// EngineURL is the engine's address; empty: no engine is looked at.
	EngineURL string
	// ProcRoot is where procfs is; empty: /proc.
	ProcRoot string

	dir     string
	of      []string // what is looked at, in words
	why     []string // what is not, and why
	perf    *perfRecord
	own     bytes.Buffer
	ownRuns bool
}

var _ claims.Beside = (*Recorder)(nil)

// Start begins to record. It fails only where neither perf nor the runtime can.
func (r *Recorder) Start(ctx context.Context, dir string) error {
	r.dir = dir
	if r.ProcRoot == "" {
		r.ProcRoot = "/proc"
	}
	self := proc.Seen{PID: os.Getpid(), Name: "assay"}
	looked := []proc.Seen{self}
	if r.EngineURL != "" {
		tree, err := engineTree(r.ProcRoot, r.EngineURL)
		if err != nil {
			r.lack("the engine's processes: %v", err)
		}
		looked = append(looked, tree...)
	}
	err := r.startPerf(ctx, looked)
	if err != nil && len(looked) > 1 {
		r.lack("the engine's processes: %v", err)
		looked = looked[:1]
		err = r.startPerf(ctx, looked)
	}
	if err == nil {
		r.of = inWords(looked)
		return nil
	}
	r.lack("what our process starts, and the kernel: %v", err)
	if err := pprof.StartCPUProfile(&r.own); err != nil {
		return fmt.Errorf("no profile of processor time: %w", errors.Join(errors.New(r.reasons()), err))
	}
	r.ownRuns, r.of = true, []string{fmt.Sprintf("assay (process %d)", self.PID)}
	return nil
}

func (r *Recorder) lack(format string, args ...any) {
	r.why = append(r.why, "not in the profile: "+foreign.Line(fmt.Sprintf(format, args...), 500))
}

func (r *Recorder) reasons() string {
	text := ""
	for i, w := range r.why {
		if i > 0 {
			text += "; "
		}
		text += w
	}
	return text
}

func (r *Recorder) startPerf(ctx context.Context, looked []proc.Seen) error {
	path := r.Perf
	if path == "" {
		found, err := exec.LookPath("perf")
		if err != nil {
			return errors.New("perf is not installed (linux-tools-common, or your distribution's package perf)")
		}
		path = found
	}
	p, err := startPerf(ctx, path, filepath.Join(r.dir, dataFile), looked)
	r.perf = p
	return err
}

// Stop ends the recording, writes the stacks and the flame graph, and puts the
// hottest functions into the result.
func (r *Recorder) Stop(into *claims.Result) {
	out := claims.Profile{By: "perf", Of: r.of, Hertz: hertz, Hot: []claims.Hot{}}
	var s Stacks
	var err error
	if r.ownRuns {
		out.By, out.Hertz = "runtime/pprof", ownHertz
		pprof.StopCPUProfile()
		err = readOwn(&s, r.own.Bytes())
	} else {
		err = r.perf.stop(&s)
	}
	if err != nil {
		r.lack("what was not read: %v", err)
	}
	if n := s.Dropped(); n > 0 {
		r.lack("%d samples whose stacks were too many or too deep", n)
	}
	if err := r.write(&s); err != nil {
		into.Notes = append(into.Notes, err.Error())
	}
	out.Samples, out.Hot, out.Why = s.Samples(), append(out.Hot, s.Hot(maxHot)...), r.reasons()
	into.Profile = &out
	into.Notes = append(into.Notes, "processor time was profiled meanwhile, which takes some of it: compare these figures with others that were")
}

// maxHot is how many functions are reported.
const maxHot = 20

func (r *Recorder) write(s *Stacks) error {
	for name, write := range map[string]func(io.Writer) error{
		FoldedFile: s.Folded,
		FlameFile:  func(w io.Writer) error { return s.Flame(w, "Processor time while probes were measured", r.reasons()) },
	} {
		if err := disk.Replace(filepath.Join(r.dir, name), 0o644, write); err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
	}
	return nil
}

// settleWithin is how long perf may take to write what it has.
const settleWithin = 30 * time.Second
