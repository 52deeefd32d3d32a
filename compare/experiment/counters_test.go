package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/internal/parttest"
)

// Lines of perf stat -x ';' as perf 6 writes them: in user space only, on a machine
// without a cache's counters, and with several counters in turns.
func TestCountsOfPerf(t *testing.T) {
	const text = "# started on Sun Nov 15 12:00:00 2026\n\n" +
		"123456;;cycles:u;1000;100.00;;\n" +
		"246912;;instructions:u;1000;62.50;2.00;insn per cycle\n" +
		"<not supported>;;cache-references;0;100.00;;\n" +
		"<not counted>;;cache-misses;0;0.00;;\n" +
		"12.50;msec;task-clock;12500000;100.00;0.9;CPUs utilized\n" +
		"7;;context-switches:u;1;100.00;;\n" +
		"-1;;page-faults;1;100.00;;\n" +
		"9;;an-event-of-later;1;100.00;;\n;;\n"
	want := map[string]float64{"cycles": 123456, "instructions": 246912, "task_clock_ms": 12.5, "context_switches": 7}
	if diff := cmp.Diff(want, parseCounts(text)); diff != "" {
		t.Error(diff)
	}
}

// fakePerf puts a perf first in PATH that says what the script says, after its
// command has ended.
func fakePerf(t *testing.T, script string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	parttest.Program(t, filepath.Join(dir, "perf"), []byte("#!/bin/sh\nwhile [ \"$1\" != -- ]; do\n"+
		"[ \"$1\" != -p ] || echo \"$2\" >>"+asked+"\nshift\ndone\nshift\n\"$@\" || exit 9\n"+script))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return asked
}

// Each run of an engine that we start has the counts of its processes; a machine
// that gives none has the reason in its notes.
func TestHardwareCounters(t *testing.T) {
	key, value := "", ""
	run := func(t *testing.T) (c Config, l *lab) {
		l = newLab(t)
		key, value, _ = strings.Cut(l.mark, "=")
		c = quick(1, l.engine("served", ""), EngineConfig{Name: "binary", BinaryPath: "../../examples/benchmark-binary/bench.py", Env: map[string]string{key: value}})
		return c, l
	}
	t.Run("counted", func(t *testing.T) {
		need(t, "python3")
		asked := fakePerf(t, "echo '100;;cycles;1;100.00;;'\necho '250;;instructions;1;100.00;;'\necho '<not supported>;;branches;0;100.00;;'\necho '5;msec;task-clock;1;100.00;;'\n")
		c, l := run(t)
		e, err := Run(t.Context(), c, l.dir, l.opt)
		if err != nil {
			t.Fatal(err)
		}
		l.nothingLeft(0)
		for _, s := range e.Samples {
			if diff := cmp.Diff(map[string]float64{"cycles": 100, "instructions": 250, "task_clock_ms": 5}, s.Counters); diff != "" {
				t.Errorf("%s (%s):\n%s", s.Engine, s.Failed, diff)
			}
		}
		if notes := strings.Join(e.Notes, "; "); !strings.Contains(notes, "does not give were not read: cache_references, cache_misses, branches, branch_misses") {
			t.Error(notes)
		}
		if b, err := os.ReadFile(asked); err != nil || strings.Count(string(b), "\n") != 2 {
			t.Errorf("asked for the processes %q (%v)", b, err)
		}
	})
	for name, tt := range map[string]struct{ script, want string }{
		"not permitted": {"echo 'Access to performance monitoring is limited' >&2; exit 255\n", "hardware counters were not read: perf stat: its process ended: exit status 255: Access to performance monitoring is limited"},
		"no counter":    {"echo '<not supported>;;cycles;0;100.00;;'\n", "hardware counters were not read: perf stat counted nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			fakePerf(t, tt.script)
			c, l := run(t)
			c.Engines = c.Engines[:1]
			e, err := Run(t.Context(), c, l.dir, l.opt)
			if err != nil {
				t.Fatal(err)
			}
			if e.Samples[0].Failed != "" || e.Samples[0].Counters != nil {
				t.Errorf("%+v", e.Samples[0])
			}
			if notes := strings.Join(e.Notes, "; "); !strings.Contains(notes, tt.want) {
				t.Error(notes)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, why := tryCounters(t.Context()); why != "perf is not installed" {
			t.Error(why)
		}
	})
	t.Run("not wanted", func(t *testing.T) {
		fakePerf(t, "echo '100;;cycles;1;100.00;;'\n")
		c, l := run(t)
		c.Engines = c.Engines[:1]
		c.Monitoring.HardwareCounters = new(bool)
		e, err := Run(t.Context(), c, l.dir, l.opt)
		if err != nil || e.Samples[0].Counters != nil || strings.Contains(strings.Join(e.Notes, "; "), "counters") {
			t.Errorf("%v: %v, notes %q", err, e.Samples, e.Notes)
		}
	})
}
