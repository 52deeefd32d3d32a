package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// counters is perf stat as this machine has it. The zero value counts nothing.
//
// perf is a program and not a system call of ours, because it knows how to open a
// counter in every thread of a process and what each kernel calls its refusal.
// Counting costs the engines nothing that can be seen, and all of them the same.
type counters struct {
	events []string // those that the kernel gives here
}

// Times that perf has: to try its counters, and to print them.
const (
	perfTries = 20 * time.Second
	perfEnds  = 10 * time.Second
)

// perfSpec is perf stat of these events in processes, or in the command alone
// without any. It counts until the command ends.
func perfSpec(events []string, pids []int, command ...string) child.Spec {
	args := []string{"perf", "stat", "-x", ";", "--log-fd", "1", "-e", strings.Join(events, ",")}
	if len(pids) > 0 {
		var list []string
		for _, pid := range pids {
			list = append(list, strconv.Itoa(pid))
		}
		args = append(args, "-p", strings.Join(list, ","))
	}
	return child.Spec{Command: append(append(args, "--"), command...), AddEnv: []string{"LC_ALL=C"}}
}

// findCounters tries which counters there are, and notes what is missing and why.
func (x *trial) findCounters(ctx context.Context) {
	if !*x.cfg.Monitoring.HardwareCounters || !slices.ContainsFunc(x.engines, func(e EngineConfig) bool { return e.kind() != "url" }) {
		return
	}
	counts, why := tryCounters(ctx)
	var missing []string
	for _, n := range compare.CounterNames() {
		if _, ok := counts[n.Name]; ok {
			x.counters.events = append(x.counters.events, n.Event)
		} else if n.Hardware {
			missing = append(missing, n.Name)
		}
	}
	switch {
	case ctx.Err() != nil:
	case why != "":
		x.note("hardware counters were not read: %s", why)
	case len(missing) > 0:
		x.note("hardware counters that this machine does not give were not read: %s%s", strings.Join(missing, ", "), paranoid())
	}
}

// tryCounters counts in a program that does nothing. why says what kept perf from
// counting at all.
func tryCounters(ctx context.Context) (counts map[string]float64, why string) {
	ctx, cancel := context.WithTimeout(ctx, perfTries)
	defer cancel()
	var events []string
	for _, n := range compare.CounterNames() {
		events = append(events, n.Event)
	}
	out, err := child.Output(ctx, perfSpec(events, nil, "true"), nil)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, "perf is not installed"
	case err != nil:
		return nil, foreign.Line("perf stat: "+err.Error(), 400) + paranoid()
	}
	if counts = parseCounts(string(out.Stdout)); len(counts) == 0 {
		return nil, "perf stat counted nothing" + paranoid()
	}
	return counts, ""
}

// paranoid is the kernel's own limit, which is what an unprivileged user meets.
func paranoid() string {
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return " (the kernel has no /proc/sys/kernel/perf_event_paranoid)"
	}
	return " (kernel.perf_event_paranoid is " + foreign.Line(strings.TrimSpace(string(b)), 20) + ")"
}

// parseCounts reads the lines of perf stat -x ';': value, unit, event, and more. An
// event that was not counted has words in the place of its value.
func parseCounts(text string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ";")
		if len(fields) < 3 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(v >= 0) || v > 1e18 {
			continue
		}
		event, _, _ := strings.Cut(fields[2], ":") // cycles:u where only that is allowed
		for _, n := range compare.CounterNames() {
			if n.Event == event {
				out[n.Name] = v
			}
		}
	}
	return out
}

// counting is perf stat on the processes of one engine.
type counting struct{ p *child.Process }

// attach begins to count in an engine's processes and in what they start. A
// counting of nothing is nil, and may be ended all the same.
func (c counters) attach(p *proc.Process) (*counting, error) {
	if len(c.events) == 0 || p == nil {
		return nil, nil
	}
	pids := p.Tree()
	if len(pids) == 0 {
		return nil, nil // it ended, which others will tell
	}
	// The end of its input ends cat, and with it the counting.
	perf, err := child.Start(perfSpec(c.events, pids, "cat"))
	if err != nil {
		return nil, fmt.Errorf("starting perf stat: %w", err)
	}
	return &counting{perf}, nil
}

// end stops counting and gives the counts.
func (c *counting) end() (map[string]float64, error) {
	if c == nil {
		return nil, nil
	}
	defer c.p.Kill()
	until := time.Now().Add(perfEnds)
	if err := c.p.Wait(context.Background(), until); err != nil {
		return nil, fmt.Errorf("perf stat: %w", err)
	}
	var text strings.Builder
	err := c.p.Receive(context.Background(), until, func(line []byte) (bool, error) {
		text.Write(append(line, '\n'))
		return false, nil
	})
	counts := parseCounts(text.String())
	if len(counts) == 0 {
		return nil, fmt.Errorf("perf stat: %w", err)
	}
	return counts, nil
}

// count begins to count in an engine's processes; ended gives what was counted.
// What went wrong with it is no fault of the engine, and is noted.
func (x *trial) count(e EngineConfig, p *proc.Process) (ended func() map[string]float64) {
	c, err := x.counters.attach(p)
	return func() map[string]float64 {
		var counts map[string]float64
		if err == nil {
			counts, err = c.end()
		}
		if err != nil {
			why, _, _ := strings.Cut(foreign.Line(err.Error(), 1000), "  Usage: ") // of perf, after its reason
			x.note("the counters of some runs of %s were not read: %s", e.Name, why)
		}
		return counts
	}
}
