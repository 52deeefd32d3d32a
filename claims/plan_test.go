package claims

import (
	"strings"
	"testing"
	"time"
)

// A line of the file says how long its probes are measured, and the command line
// wins over it.
func TestPerProbeIterationsAndDuration(t *testing.T) {
	const file = `claims:
  - {name: a, probe: f/a, metric: mean, target: <= 1s}
measure: [g/*]
probes:
  - {probe: "*/*", duration: 2s}
  - {probe: f/a, iterations: 100}
  - {probe: g/c, samples: 30, warmup: -1s}
`
	batched := fake("f/a", func(n int) (Measurement, error) {
		m, _ := around(1e-3)(n)
		m.Batch = 10
		return m, nil
	})
	probes := []Probe{batched, fake("g/b", around(1e-3)), fake("g/c", around(1e-3))}
	r := runFile(t, fixture(t), file, probes...)
	for i, want := range []struct {
		name, stopped               string
		samples, operations, warmup int
	}{{"f/a", stopIterations, 10, 100, 500}, {"g/b", stopDuration, 2000, 2000, 500}, {"g/c", stopSamples, 30, 30, 0}} {
		p := r.Probes[i]
		if p.Name != want.name || p.Stopped != want.stopped || p.Samples != want.samples || p.Operations != want.operations || p.Warmup != want.warmup {
			t.Errorf("%s ended by %s after %d samples (%d operations, warm-up %d), want %+v", p.Name, p.Stopped, p.Samples, p.Operations, p.Warmup, want)
		}
	}
	o := fixture(t)
	o.Samples = 7
	for _, p := range runFile(t, o, file, probes...).Probes {
		if p.Stopped != stopSamples || p.Samples != 7 {
			t.Errorf("%s: asked for 7 samples, it ended by %s after %d", p.Name, p.Stopped, p.Samples)
		}
	}
	o = fixture(t)
	o.Duration = time.Second
	if p := runFile(t, o, file, probes...).Probes[0]; p.Stopped != stopDuration || p.Samples != 1000 {
		t.Errorf("asked for a second, it ended by %s after %d samples: the file's iterations should not hold", p.Stopped, p.Samples)
	}
}

func TestPlansAreChecked(t *testing.T) {
	const head = "claims:\n  - {name: a, probe: consensus/single_vote, metric: p95, target: <= 1s}\nprobes:\n"
	for _, c := range []struct{ name, line, want string }{
		{"no probe", "  - {duration: 1s}\n", "f.yaml:4:6: say which probe"},
		{"nothing said", "  - {probe: consensus/*}\n", "f.yaml:4:6: says nothing"},
		{"negative", "  - {probe: consensus/*, iterations: -1}\n", "f.yaml:4:38: a number of iterations cannot be negative"},
		{"not measured", "  - {probe: gpu/*, duration: 1s}\n", "f.yaml:4:13: this file does not measure gpu/utilization"},
		{"not there", "  - {probe: nothing/here, duration: 1s}\n", `f.yaml:4:13: there is no probe "nothing/here"`},
		{"no duration", "  - {probe: consensus/*, duration: long}\n", `f.yaml:4:36: "long" is not a time`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(head+c.line), "f.yaml", testCatalog())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
