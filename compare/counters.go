package compare

import (
	"fmt"
	"strconv"

	"github.com/assay-bench/assay/report"
)

// CounterName is one counter of a sample, as perf stat calls it and as we do.
type CounterName struct {
	Event string
	Name  string
	// Hardware counters are the processor's own; the others are the kernel's.
	Hardware bool
}

// CounterNames is the one table of them.
func CounterNames() []CounterName {
	return []CounterName{
		{"cycles", "cycles", true},
		{"instructions", "instructions", true},
		{"cache-references", "cache_references", true},
		{"cache-misses", "cache_misses", true},
		{"branches", "branches", true},
		{"branch-misses", "branch_misses", true},
		{"task-clock", "task_clock_ms", false},
		{"context-switches", "context_switches", false},
		{"cpu-migrations", "cpu_migrations", false},
		{"page-faults", "page_faults", false},
	}
}

// counterRatios are what the counters are shown as: counts themselves depend on how
// long a run was.
func counterRatios() []struct {
	name, of, to string
	scale        float64
} {
	return []struct {
		name, of, to string
		scale        float64
	}{
		{"instructions a cycle", "instructions", "cycles", 1},
		{"cache misses a 1000 instructions", "cache_misses", "instructions", 1000},
		{"branch misses, %", "branch_misses", "branches", 100},
		{"context switches a processor second", "context_switches", "task_clock_ms", 1000},
		{"page faults a processor second", "page_faults", "task_clock_ms", 1000},
	}
}

// countersTitle begins the title of its tables.
const countersTitle = "Counters on "

// countersTable shows what was counted on a workload, as means over its judged runs.
func countersTable(e Experiment, workload string) report.Table {
	t := report.Table{Title: countersTitle + workload, Columns: []report.Column{{Name: "engine"}, {Name: "runs"}}}
	shown := false
	rows := map[string][]string{}
	for _, r := range counterRatios() {
		cells, any := map[string]string{}, false
		for _, engine := range engineNames(e) {
			sum, n := 0.0, 0
			for _, s := range e.Samples {
				of, ok := s.Counters[r.of]
				to := s.Counters[r.to]
				if s.Engine == engine && s.Workload == workload && s.Round > 0 && s.Failed == "" && ok && to > 0 {
					sum, n = sum+r.scale*of/to, n+1
				}
			}
			if cells[engine] = "–"; n > 0 {
				cells[engine], any = number(sum/float64(n)), true
			}
		}
		if !any {
			continue
		}
		shown = true
		t.Columns = append(t.Columns, report.Column{Name: r.name})
		for engine, c := range cells {
			rows[engine] = append(rows[engine], c)
		}
	}
	if !shown {
		return t
	}
	for _, engine := range engineNames(e) {
		n := 0
		for _, s := range e.Samples {
			if s.Engine == engine && s.Workload == workload && s.Round > 0 && len(s.Counters) > 0 {
				n++
			}
		}
		t.Rows = append(t.Rows, append([]string{engine, strconv.Itoa(n)}, rows[engine]...))
	}
	t.Note = "Counted by perf stat in the engine's processes from the beginning of each run to its end, warm-ups too; means over runs. They explain, and decide nothing."
	return t
}

// maxCounters is how many a sample may have, with room for later ones.
const maxCounters = 64

// checkCounters refuses counts that no counter has.
func checkCounters(counters map[string]float64) error {
	if len(counters) > maxCounters {
		return fmt.Errorf("%d counters; at most %d can be read", len(counters), maxCounters)
	}
	for name, v := range counters {
		if !finite(v) || v < 0 {
			return fmt.Errorf("the counter %s is %v", clipName(name), v)
		}
	}
	return nil
}
