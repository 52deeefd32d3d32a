package claims

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/yamltext"
)

func testCatalog() Catalog {
	probes := []Probe{
		{Name: "consensus/single_vote", Unit: "s", Better: assay.Lower},
		{Name: "consensus/batch_100", Unit: "s", Better: assay.Lower},
		{Name: "synthesis/pattern_matching", Unit: "1/s", Better: assay.Higher},
		{Name: "memory_tiers/flow", Unit: "bytes/s", Better: assay.Higher},
		{Name: "gpu/utilization", Unit: "ratio", Better: assay.Higher},
		{Name: "gpu/temperature", Unit: "celsius", Better: assay.Neither},
	}
	return Catalog{Probes: probes, Command: func(c Command) Probe { return Probe{Name: c.Name, Unit: c.Unit, Better: c.Better} }}
}

func TestReadGivesPlaces(t *testing.T) {
	const head = "claims:\n  - name: a\n    probe: consensus/single_vote\n    metric: p95\n"
	for _, c := range []struct{ name, file, want string }{
		{"unknown key", head + "    target: \"<= 1us\"\n    taget: x\n", "f.yaml:6:5: unknown field"},
		{"direction", head + "    target: \">= 100us\"\n", `f.yaml:5:14: target: >= promises that higher is better, but of this metric lower is`},
		{"direction of throughput", "claims:\n- {name: a, probe: synthesis/pattern_matching, metric: throughput, target: '<= 2.6e9/s'}\n", "f.yaml:2:77: target: <= promises that lower is better"},
		{"throughput of a time is higher", strings.Replace(head, "p95", "throughput", 1) + "    target: <= 5/s\n", "f.yaml:5:13: target: <= promises that lower"},
		{"unit of another kind", head + "    target: \"<= 100 MB\"\n", "f.yaml:5:21: target: MB is a unit of an amount of memory, and this metric is measured in s (ns us µs ms s)"},
		{"no unit", head + "    target: \"<= 100\"\n", "f.yaml:5:20: target: the value needs a unit"},
		{"unit that is none", head + "    target: \"<= 100 parsec\"\n", `f.yaml:5:21: target: "parsec" is no unit`},
		{"no operator", head + "    target: 100us\n", "f.yaml:5:13: target: a promise begins with <="},
		{"no number", head + "    target: \"<= fast\"\n", `f.yaml:5:17: target: "fast" does not begin with a number`},
		{"infinite", head + "    target: \"<= 1e999s\"\n", "f.yaml:5:17: target:"},
		{"no target", head, "f.yaml:2:5: target: a promise begins with"},
		{"goal", head + "    target: \"<= 100us\"\n    goal: \">= 1us\"\n", "f.yaml:6:12: goal: >= promises"},
		{"metric", "claims:\n  - name: a\n    probe: consensus/single_vote\n    metric: p100\n    target: <= 1s\n", `f.yaml:4:13: there is no metric "p100"`},
		{"throughput of a share", "claims:\n  - name: a\n    probe: gpu/utilization\n    metric: throughput\n    target: \">= 1/s\"\n", "f.yaml:4:13: gpu/utilization has no throughput"},
		{"probe", "claims:\n  - name: a\n    probe: consensus/singel_vote\n    metric: p50\n    target: <= 1s\n", `f.yaml:3:12: there is no probe "consensus/singel_vote"; of this family there are consensus/single_vote, consensus/batch_100`},
		{"no claims", "name: x\n", "f.yaml: there are no claims"},
		{"empty", "", "f.yaml: there are no claims"},
		{"two of a name", head + "    target: <= 1s\n  - name: a\n    probe: consensus/single_vote\n    metric: mean\n    target: <= 1s\n", `f.yaml:6:11: there are two claims named "a"`},
		{"measure", head + "    target: <= 1s\nmeasure: [consensus/*, nothing/here]\n", `f.yaml:6:24: there is no probe "nothing/here"`},
		{"command without a unit", "commands:\n  - name: b\n    command: [true]\n    better: lower\n", "f.yaml:2:5: a command's unit must be said"},
		{"command with a shell line", "commands:\n  - name: b\n    command: ./bench --json\n    unit: s\n    better: lower\n", "f.yaml:3:14"},
		{"command with a direction of its own", "commands:\n  - name: b\n    command: [x]\n    unit: s\n    better: faster\n", `f.yaml:5:13: better is lower, higher or neither, not "faster"`},
		{"a time without a unit", head + "    target: <= 1s\nprobes:\n  - {probe: consensus/*, duration: 3}\n", `f.yaml:7:36: "3" is not a time; write a number and its unit`},
		{"a word where a number stands", head + "    target: <= 1s\nrequires: {cpus: lots}\n", `f.yaml:6:18: "lots" is not a whole number`},
		{"a number where a list stands", head + "    target: <= 1s\nrequires: {programs: 3}\n", `f.yaml:6:22: `},
		{"broken YAML", "claims: [\n", "f.yaml:1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.file), "f.yaml", testCatalog())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestReadTellsEverythingAtOnce(t *testing.T) {
	_, err := Read(strings.NewReader("claims:\n  - {name: a, probe: x/y, metric: p50, target: <= 1s}\n  - {name: b, probe: consensus/single_vote, metric: q, target: <= 1s}\n"), "f.yaml", testCatalog())
	if err == nil || !strings.Contains(err.Error(), "f.yaml:2:") || !strings.Contains(err.Error(), "f.yaml:3:") {
		t.Errorf("both faults should be told: %v", err)
	}
}

func TestReadBounds(t *testing.T) {
	if _, err := Read(strings.NewReader(strings.Repeat("#\n", maxFileBytes)), "f", Catalog{}); err == nil {
		t.Error("a file of megabytes was read")
	}
}

func TestReadResolves(t *testing.T) {
	const file = `
name: mine
claims:
  - name: latency
    probe: consensus/single_vote
    metric: p95
    target: "<= 100us"
    goal: "<= 49 µs"
  - name: warm
    probe: gpu/temperature
    metric: max
    target: "< 80 celsius"
  - name: busy
    probe: gpu/utilization
    metric: mean
    target: ">= 90%"
  - name: ours
    probe: command/bench
    metric: p50
    target: "< 2s"
  - name: tally rate
    probe: consensus/single_vote
    metric: throughput
    target: ">= 10k/s"
measure: [consensus/*]
commands:
  - name: bench
    command: [./bench, --json]
    unit: ms
    better: lower
    parse: json:latency.p50
    timeout: 10s
`
	s, err := Read(strings.NewReader(file), "dir/f.yaml", testCatalog())
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "mine" || len(s.Claims) != 5 {
		t.Fatalf("%+v", s)
	}
	wants := []struct {
		op    string
		value float64
		unit  string
		line  int
	}{{"<=", 100e-6, "s", 4}, {"<", 80, "celsius", 9}, {">=", 0.9, "ratio", 13}, {"<", 2, "s", 17}, {">=", 10e3, "1/s", 21}}
	for i, w := range wants {
		c := s.Claims[i]
		if c.Target.Op != w.op || !(math.Abs(c.Target.Value-w.value) <= 1e-12*w.value) || c.Target.Unit != w.unit || c.Line != w.line {
			t.Errorf("claim %d: %+v line %d, want %+v", i, c.Target, c.Line, w)
		}
	}
	if g := s.Claims[0].Goal; g == nil || !(math.Abs(g.Value-49e-6) <= 1e-15) {
		t.Errorf("goal: %+v", g)
	}
	var names []string
	for _, p := range s.Probes {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "consensus/single_vote consensus/batch_100 gpu/temperature gpu/utilization command/bench" {
		t.Errorf("probes: %s", got)
	}
	if u := s.Probes[4].Unit; u != "s" {
		t.Errorf("a command that prints ms is measured in %s", u)
	}
}

func TestUnitsConvert(t *testing.T) {
	for _, c := range []struct {
		written string
		want    string
		value   float64
	}{
		{"ns", "s", 1e-9}, {"us", "s", 1e-6}, {"µs", "s", 1e-6}, {"ms", "s", 1e-3}, {"s", "s", 1},
		{"/s", "1/s", 1}, {"G/s", "1/s", 1e9},
		{"B", "bytes", 1}, {"KB", "bytes", 1000}, {"MiB", "bytes", 1 << 20}, {"GB", "bytes", 1e9},
		{"MB/s", "bytes/s", 1e6}, {"GiB/s", "bytes/s", 1 << 30},
		{"%", "ratio", 0.01}, {"", "ratio", 1}, {"", "1", 1}, {"", "", 1}, {"W", "W", 1},
	} {
		got, err := convert(1, c.written, c.want)
		if err != nil || got != c.value {
			t.Errorf("1 %s in %s: %v, %v; want %v", c.written, c.want, got, err, c.value)
		}
	}
	for _, c := range [][2]string{{"", "s"}, {"", "1/s"}, {"", "bytes"}, {"%", "s"}, {"ms", "1/s"}, {"B", "bytes/s"}, {"W", "s"}, {"s", "W"}} {
		if _, err := convert(1, c[0], c[1]); err == nil {
			t.Errorf("%q was taken for %q", c[0], c[1])
		}
	}
}

func TestFormatValue(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{49.1e-6, "s", "49.1 µs"}, {0.9996e-3, "s", "1.00 ms"}, {0, "s", "0 s"}, {3e-11, "s", "0.03 ns"}, {90, "s", "90.0 s"},
		{2.61e9, "1/s", "2.61 G/s"}, {5, "1/s", "5.00 /s"}, {1.5e6, "bytes", "1.50 MB"}, {1e9, "bytes/s", "1.00 GB/s"},
		{0.934, "ratio", "93.4 %"}, {70, "celsius", "70.0 celsius"}, {math.NaN(), "s", "–"}, {math.Inf(-1), "s", "−∞"}, {12, "1", "12.0"},
	} {
		if got := FormatValue(c.v, c.unit); got != c.want {
			t.Errorf("%g %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// A kilobyte whose aliases repeat each other would take all memory.
func TestReadRefusesWhatExplodes(t *testing.T) {
	file := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		file += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for _, text := range []string{file + "measure: *a11\n", "claims: " + strings.Repeat("[", 100_000)} {
		if _, err := Read(strings.NewReader(text), "f.yaml", testCatalog()); !errors.Is(err, yamltext.ErrBounds) {
			t.Errorf("%.40s…: %v", text, err)
		}
	}
}
