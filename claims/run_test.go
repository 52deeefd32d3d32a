package claims

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
)

// fake is a probe in virtual time that gives what the function does.
func fake(name string, sample func(n int) (Measurement, error)) Probe {
	return Probe{Name: name, Help: "A probe of a test.", Unit: unitSeconds, Better: assay.Lower,
		Start: func(context.Context, Env) (Runner, error) {
			n := 0
			return &runnerOf{sample: func(ctx context.Context) (Measurement, error) {
				n++
				time.Sleep(time.Millisecond)
				return sample(n)
			}}, nil
		}}
}

// around is steady work of about a value, ±1 %, without any correlation.
func around(v float64) func(int) (Measurement, error) {
	return func(n int) (Measurement, error) {
		return Measurement{Value: v * (1 + 0.01*(float64(uint32(n)*2654435761)/(1<<31)-1))}, nil
	}
}

func refused(name string, err error) Probe {
	return Probe{Name: name, Unit: unitSeconds, Better: assay.Lower,
		Start: func(context.Context, Env) (Runner, error) { return nil, err }}
}

// named is a machine of which only its name and a file are known.
type named string

func (m named) Name() string             { return string(m) }
func (m named) Files() map[string]string { return map[string]string{"cpu_info.txt": "CPUs: 2\n"} }
func (m named) Check(r Requirements, _ string) []Prerequisite {
	if r.CPUs == 0 {
		return nil
	}
	return []Prerequisite{
		{What: "CPUs", Wanted: "at least 16", Have: "2", Verdict: assay.Fail},
		{What: "CUDA", Wanted: "at least 12", Have: "nvidia-smi is not installed", Do: "install it"},
		{What: "memory", Wanted: "at least 1 B", Have: "8 GB", Verdict: assay.Pass},
	}
}
func (m named) Advice(r *Result) []Advice {
	return []Advice{{Kind: "tuning", About: "CPU governor", Text: "Slow.", Evidence: []string{r.Name}, Command: "sudo cpupower"}}
}

// fixture gives options that read nothing of this machine.
func fixture(t *testing.T) Options {
	t.Helper()
	return Options{Env: Env{Dir: t.TempDir()}, Machine: named("a machine")}
}

func runFile(t *testing.T, o Options, file string, probes ...Probe) *Result {
	t.Helper()
	s, err := Read(strings.NewReader(file), "claims.yaml", Catalog{Probes: probes})
	if err != nil {
		t.Fatal(err)
	}
	var r *Result
	synctest.Test(t, func(t *testing.T) {
		// The empty probe would spin: in a bubble its time does not pass.
		o.MaxSamples = 6000
		r, err = Run(t.Context(), s, o)
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func claimLines(lines ...string) string {
	b := strings.Builder{}
	b.WriteString("claims:\n")
	for i, l := range lines {
		fmt.Fprintf(&b, "  - {name: c%d, %s}\n", i, l)
	}
	return b.String()
}

func TestOutcomes(t *testing.T) {
	wrong := fake("f/wrong", func(n int) (Measurement, error) {
		if n > 700 {
			return Measurement{}, fmt.Errorf("%w: 41 and not 42", ErrWrong)
		}
		return Measurement{Value: 1e-3}, nil
	})
	breaks := fake("f/breaks", func(n int) (Measurement, error) {
		if n > 700 {
			return Measurement{}, errors.New("the disk is full")
		}
		return Measurement{Value: 1e-3}, nil
	})
	nan := fake("f/nan", func(n int) (Measurement, error) {
		if n == 700 {
			return Measurement{Value: math.NaN()}, nil
		}
		return Measurement{Value: 1e-3}, nil
	})
	batches := fake("f/batches", func(n int) (Measurement, error) {
		m, _ := around(1e-3)(n)
		m.Batch = 50
		return m, nil
	})
	good := fake("f/good", around(1e-3))
	absent := refused("f/absent", fmt.Errorf("%w: there is no GPU", ErrUnavailable))
	probes := []Probe{wrong, breaks, nan, batches, good, absent}
	for _, c := range []struct {
		name, file string
		want       assay.Verdict
		why        string
	}{
		{"kept", "probe: f/good, metric: p95, target: <= 2ms", assay.Pass, "the whole interval keeps"},
		{"broken", "probe: f/good, metric: p95, target: <= 0.5ms", assay.Fail, "the whole interval breaks"},
		{"throughput kept", "probe: f/good, metric: throughput, target: '>= 900/s'", assay.Pass, ""},
		{"throughput broken", "probe: f/good, metric: throughput, target: '>= 2k/s'", assay.Fail, ""},
		{"too near", "probe: f/good, metric: mean, target: <= 1ms", assay.Unknown, "more samples would decide"},
		{"a percentile that the samples do not carry", "probe: f/good, metric: p99.99, target: <= 2ms", assay.Unknown, "too few samples"},
		{"maximum cannot be shown", "probe: f/good, metric: max, target: <= 1s", assay.Unknown, "promise a percentile"},
		{"maximum broken", "probe: f/good, metric: max, target: <= 0.5ms", assay.Fail, "was seen, which breaks"},
		{"minimum kept", "probe: f/good, metric: min, target: <= 1ms", assay.Pass, "was seen, which keeps"},
		{"wrong result", "probe: f/wrong, metric: p95, target: <= 1s", assay.Fail, "41 and not 42"},
		{"error on the way", "probe: f/breaks, metric: p95, target: <= 1s", assay.Unknown, "the disk is full"},
		{"a value that is none", "probe: f/nan, metric: mean, target: <= 1s", assay.Unknown, "1 of 5000 samples were no numbers"},
		{"percentile of batches", "probe: f/batches, metric: p95, target: <= 1s", assay.Unknown, "the mean of a batch has no p95"},
		{"maximum of batches", "probe: f/batches, metric: max, target: <= 0.1ms", assay.Unknown, "the mean of a batch has no max"},
		{"mean of batches", "probe: f/batches, metric: mean, target: <= 1s", assay.Pass, ""},
		{"not available", "probe: f/absent, metric: mean, target: <= 1s", assay.Unknown, "there is no GPU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runFile(t, fixture(t), claimLines(c.file), probes...)
			got := r.Claims[0]
			if got.Verdict != c.want || r.Verdict != c.want {
				t.Errorf("verdict %v, of the whole %v; want %v: %s", got.Verdict, r.Verdict, c.want, got.Why)
			}
			if !strings.Contains(got.Why, c.why) {
				t.Errorf("why: %s", got.Why)
			}
		})
	}
	t.Run("a failure outweighs an unknown", func(t *testing.T) {
		r := runFile(t, fixture(t), claimLines("probe: f/absent, metric: mean, target: <= 1s", "probe: f/good, metric: mean, target: <= 1us", "probe: f/good, metric: p50, target: <= 1s"), probes...)
		if r.Verdict != assay.Fail || !strings.Contains(r.Because, "c1") || !strings.Contains(r.Because, "c0") {
			t.Errorf("%v: %s", r.Verdict, r.Because)
		}
	})
	t.Run("an unknown outweighs a pass", func(t *testing.T) {
		r := runFile(t, fixture(t), claimLines("probe: f/good, metric: p50, target: <= 1s", "probe: f/absent, metric: mean, target: <= 1s"), probes...)
		if r.Verdict != assay.Unknown {
			t.Errorf("%v: %s", r.Verdict, r.Because)
		}
	})
	t.Run("a wrong result fails without a claim", func(t *testing.T) {
		r := runFile(t, fixture(t), claimLines("probe: f/good, metric: p50, target: <= 1s")+"measure: [f/wrong]\n", probes...)
		if r.Verdict != assay.Fail || !strings.Contains(r.Because, "f/wrong") {
			t.Errorf("%v: %s", r.Verdict, r.Because)
		}
	})
	t.Run("goals decide nothing", func(t *testing.T) {
		r := runFile(t, fixture(t), claimLines("probe: f/good, metric: p50, target: <= 1s, goal: <= 1ns"), probes...)
		if c := r.Claims[0]; r.Verdict != assay.Pass || c.GoalVerdict == nil || *c.GoalVerdict != assay.Fail {
			t.Errorf("%v, goal %v", r.Verdict, c.GoalVerdict)
		}
	})
}

func TestHowLongProbesRun(t *testing.T) {
	p := fake("f/x", around(1e-3))
	slow := fake("f/slow", func(n int) (Measurement, error) {
		time.Sleep(2 * time.Second)
		return around(2)(n)
	})
	batches := fake("f/batches", func(n int) (Measurement, error) { return Measurement{Value: 1, Batch: 50}, nil })
	file := func(p string) string { return claimLines("probe: " + p + ", metric: mean, target: <= 1000s") }
	for _, c := range []struct {
		name    string
		o       Options
		probe   string
		samples int
		warmup  int
		stopped string
	}{
		{"by default five seconds", Options{}, "f/x", 5000, 500, stopDuration},
		{"a duration", Options{Duration: time.Second}, "f/x", 1000, 500, stopDuration},
		{"samples", Options{Samples: 100}, "f/x", 100, 100, stopSamples},
		{"samples before a duration", Options{Samples: 100, Duration: time.Second}, "f/x", 100, 100, stopSamples},
		{"a duration before samples", Options{Samples: 10_000, Duration: time.Second}, "f/x", 1000, 500, stopDuration},
		{"operations", Options{Iterations: 1000}, "f/batches", 20, 500, stopIterations},
		{"a warm-up", Options{Duration: time.Second, Warmup: time.Second}, "f/x", 1000, 1000, stopDuration},
		{"no warm-up", Options{Duration: time.Second, Warmup: -1}, "f/x", 1000, 0, stopDuration},
		{"a slow one gets six", Options{}, "f/slow", 6, 1, stopDuration},
		{"a very slow one gets six times as long", Options{Duration: time.Second}, "f/slow", 3, 1, stopDuration},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := fixture(t)
			o.Duration, o.Samples, o.Iterations, o.Warmup = c.o.Duration, c.o.Samples, c.o.Iterations, c.o.Warmup
			got := runFile(t, o, file(c.probe), p, slow, batches).Probes[0]
			if got.Samples != c.samples || got.Warmup != c.warmup || got.Stopped != c.stopped {
				t.Errorf("%d samples after %d to warm up, ended by %s; want %d, %d, %s", got.Samples, got.Warmup, got.Stopped, c.samples, c.warmup, c.stopped)
			}
		})
	}
}

// A probe that hangs is given up, and the others are measured.
func TestHangingProbe(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprintf("obeys %v", obeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer close(end)
				hangs := fake("a/hangs", func(int) (Measurement, error) { return Measurement{}, nil })
				hangs.Start = func(context.Context, Env) (Runner, error) {
					return &runnerOf{sample: func(ctx context.Context) (Measurement, error) {
						if obeys {
							<-ctx.Done()
							return Measurement{}, ctx.Err()
						}
						<-end
						return Measurement{}, errors.New("ended")
					}}, nil
				}
				s, err := Read(strings.NewReader(claimLines("probe: a/hangs, metric: p50, target: <= 1s", "probe: f/good, metric: p50, target: <= 1s")), "f", Catalog{Probes: []Probe{hangs, fake("f/good", around(1e-3))}})
				if err != nil {
					t.Fatal(err)
				}
				o := fixture(t)
				o.MaxSamples = 6000
				began := time.Now()
				r, err := Run(t.Context(), s, o)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 5*time.Minute {
					t.Errorf("it took %v", took)
				}
				if r.Claims[0].Verdict != assay.Unknown || !strings.Contains(r.Claims[0].Why, "gave no sample") || r.Claims[1].Verdict != assay.Pass {
					t.Errorf("%+v", r.Claims)
				}
			})
		})
	}
}

// What had not been measured when the run was interrupted is unknown, and what had
// been is kept.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Read(strings.NewReader(claimLines("probe: a/x, metric: p50, target: <= 1s", "probe: b/x, metric: p50, target: <= 1s", "probe: c/x, metric: p50, target: <= 1s")),
			"f", Catalog{Probes: []Probe{fake("a/x", around(1e-3)), fake("b/x", around(1e-3)), fake("c/x", around(1e-3))}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		o := fixture(t)
		o.MaxSamples, o.Dir = 6000, filepath.Join(t.TempDir(), "r")
		r, err := Run(ctx, s, o)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Interrupted || r.Verdict != assay.Unknown || r.Claims[0].Verdict != assay.Pass || r.Claims[1].Verdict != assay.Unknown || r.Claims[2].Verdict != assay.Unknown {
			t.Errorf("%+v", r.Claims)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, "results.json")); err != nil {
			t.Error(err)
		}
	})
}

// heard is a log that is given each message.
type heard func(message string)

func (heard) Enabled(context.Context, slog.Level) bool        { return true }
func (h heard) Handle(_ context.Context, r slog.Record) error { h(r.Message); return nil }
func (h heard) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h heard) WithGroup(string) slog.Handler                 { return h }

func TestResultsDirectory(t *testing.T) {
	var said bytes.Buffer
	o := fixture(t)
	o.Dir, o.Samples = filepath.Join(t.TempDir(), "results", "one"), 100
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	var probes []Probe
	var lines []string
	for _, name := range []string{"consensus/a", "synthesis/a", "memory_tiers/a", "spawn/a", "kernel/a"} {
		probes = append(probes, fake(name, around(1e-3)))
		lines = append(lines, "probe: "+name+", metric: p50, target: <= 1s")
	}
	runFile(t, o, claimLines(lines...), probes...)
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Size() == 0 {
			t.Errorf("%s is empty (%v)", e.Name(), err)
		}
	}
	want := strings.Fields("consensus.json container_spawn.json cpu_info.txt empty.json kernel_overhead.json memory_tiers.json results.json synthesis.json validate_results.json")
	if !slices.Equal(names, want) {
		t.Errorf("files:\n%v\nwant\n%v", names, want)
	}
	all := said.String()
	for _, want := range []string{"[1/5] consensus", "[5/5] kernel", "empty probe, subtracted nowhere"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not said:\n%s", want, all)
		}
	}
	// A directory with something in it is refused before anything is measured.
	if _, err := Run(t.Context(), Suite{}, o); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("the same directory again: %v", err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	o := fixture(t)
	parent := t.TempDir()
	if os.Geteuid() == 0 {
		// Nothing is read-only to root, but a file is no directory to anybody.
		parent = filepath.Join(parent, "file")
		if err := os.WriteFile(parent, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod(parent, 0o555); err != nil {
		t.Fatal(err)
	}
	o.Dir = filepath.Join(parent, "results")
	measured := false
	p := fake("f/x", func(n int) (Measurement, error) { measured = true; return around(1)(n) })
	s, err := Read(strings.NewReader(claimLines("probe: f/x, metric: p50, target: <= 1s")), "f", Catalog{Probes: []Probe{p}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), "results directory") || measured {
		t.Errorf("measured %v; %v", measured, err)
	}
	// A history that cannot be kept is a remark, and no reason to stop.
	o = fixture(t)
	o.History, o.Samples = filepath.Join(parent, "history.json"), 100
	r := runFile(t, o, claimLines("probe: f/x, metric: p50, target: <= 2s"), p)
	if r.Verdict != assay.Pass || len(r.Notes) == 0 || !strings.Contains(strings.Join(r.Notes, " "), "not remembered") {
		t.Errorf("%v: %v", r.Verdict, r.Notes)
	}
}

func TestEmptyProbe(t *testing.T) {
	r, err := Run(t.Context(), Suite{}, fixture(t))
	if err != nil {
		t.Fatal(err)
	}
	e := r.Empty
	if e.Status != Measured || e.Mean == nil || !e.Mean.Known() || math.IsNaN(e.Mean.Lo) || !(e.P50.Est >= 0 && e.P50.Est <= 1e-3) {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(e.line(), "[") {
		t.Errorf("no interval in %q", e.line())
	}
	if r.Verdict != assay.Unknown {
		t.Error("a suite without claims passed")
	}
}
