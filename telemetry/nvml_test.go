package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/nvml/nvmltest"
	"github.com/assay-bench/assay/tools/stillness"
)

func serveNVML(args []string) error {
	src, err := NewNVML(NVMLOptions{Library: args[0]})
	if err != nil {
		return err
	}
	defer src.Close()
	return ServeChild(os.Stdin, os.Stdout, src)
}

// newStub is the source as it is shipped, on the stub: in a child, through the
// library's own entry points.
func newStub(tb testing.TB, v nvmltest.Variant, scenario string, o ChildOptions) *Child {
	tb.Helper()
	o.Env = append(os.Environ(), nvmltest.Variable+"="+scenario)
	c := NewChild("nvml", []string{os.Args[0], "child-nvml", nvmltest.Library(tb, v)}, o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

const uuid0 = "GPU-57ab0000-0000-4000-8000-000000000000"

func uuidOf(i int) string { return fmt.Sprintf("%s%012d", uuid0[:len(uuid0)-12], i) }

// series are the values of readings in the order of their coming.
type series map[key][]float64

func (s series) add(r assay.Reading) {
	k := key{r.Name, r.Device}
	s[k] = append(s[k], *r.Value)
}

func (s series) of(name string, gpu int) []float64 { return s[key{name, uuidOf(gpu)}] }

func (s series) last(name string, gpu int) float64 {
	v := s.of(name, gpu)
	if len(v) == 0 {
		return -1 // none of the readings here is negative
	}
	return v[len(v)-1]
}

// courses is what the readings of a scenario must show. scale is scripted
// seconds a second; the run takes 1.4 s.
var courses = []struct {
	name    string
	variant nvmltest.Variant
	scale   float64
	check   func(t *testing.T, s series, err error)
}{
	{"normal", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{
			assay.GPUPower: 610, assay.GPUPowerInstant: 1, assay.GPUUtilization: .97, assay.GPUMemoryUsed: 71000e6, assay.GPUMemoryFree: 85520e6 - 520e6 - 71000e6,
			assay.GPUMemoryTotal: 85520e6, assay.GPUSMClock: 1980e6, assay.GPUSMClockMax: 1980e6, assay.GPUMemoryClock: 2619e6, assay.GPUMemoryClockMax: 2619e6,
			assay.GPUThrottledIdle: 0, assay.GPUThrottledHWThermal: 0, assay.GPULost: 0, assay.GPUPowerLimit: 700, assay.GPUECCUncorrected: 0,
			assay.GPURowRemapPending: 0, assay.GPURecoveryAction: 0, assay.GPUPCIeLinkWidth: 16, assay.GPUPCIeLinkGenMax: 5, assay.GPUProcesses: 0, assay.GPUProcessMemory: 0,
			assay.GPUPCIeReplays: 0, assay.GPUMemoryTemperature: 40,
		})
		// What this card does not have is absent.
		wantAbsent(t, s, 0, assay.GPUFanSpeed, assay.GPURetiredPages, assay.GPUNVLinksDown, assay.GPUNVLinkErrors, assay.GPUFabricReady, assay.GPUXID, assay.GPUPeersUnreachable)
		if p := s.of(assay.GPUPower, 0); slices.Min(p) > 80 || len(p) < 5 { // 28 where nothing else runs
			t.Errorf("power: %v", p)
		}
		if n := len(s.of(assay.GPUECCUncorrected, 0)); n < 2 || n > 3 {
			t.Errorf("the slow readings came %d times in 1.4 s", n)
		}
		if n := len(s.of(assay.GPUThrottledHWThermal, 0)); n < 2 || n > 3 {
			t.Errorf("a flag that does not change came %d times in 1.4 s", n)
		}
		if e := s.of(assay.GPUEnergy, 0); !slices.IsSorted(e) || e[0] < 1e6 || e[len(e)-1] <= e[0] {
			t.Errorf("energy: %v", e)
		}
	}},
	{"thermal", nvmltest.Today, 40, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{
			assay.GPUThrottledHWThermal: 1, assay.GPUThrottledHWSlowdown: 1, assay.GPUThrottledSWThermal: 1, assay.GPUThrottledPowerBrake: 0,
			assay.GPUSMClock: 795e6, assay.GPUPower: 310, assay.GPUTemperature: 91,
		})
		sw, hw := s.of(assay.GPUThrottledSWThermal, 0), s.of(assay.GPUThrottledHWThermal, 0)
		if sw[0] != 0 || hw[0] != 0 {
			t.Errorf("throttled from the start: %v %v", sw, hw)
		}
		if hot := slices.Max(s.of(assay.GPUTemperature, 0)); hot < 91 {
			t.Errorf("hottest %v", hot)
		}
		if v := s.last(assay.GPUHWThermalSeconds, 0); v <= 0 || v > 1.5 {
			t.Errorf("throttled by heat for %v s of about 0.3", v)
		}
		if a, b := s.last(assay.GPUSWThermalSeconds, 0), s.last(assay.GPUHWThermalSeconds, 0); a <= b {
			t.Errorf("by the driver %v s, by the hardware, which came later, %v s", a, b)
		}
	}},
	{"sw_thermal", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		if f := s.of(assay.GPUThrottledSWThermal, 0); f[0] != 0 || slices.Max(f) != 1 || f[len(f)-1] != 0 {
			t.Errorf("flags %v", f)
		}
		if v := s.last(assay.GPUSWThermalSeconds, 0); v < .4 || v > .6 {
			t.Errorf("throttled %v s; half a second is true", v)
		}
		want(t, s, 0, map[string]float64{assay.GPUThrottledHWThermal: 0, assay.GPUHWThermalSeconds: 0})
	}},
	{"power_brake", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUThrottledPowerBrake: 1, assay.GPUThrottledHWSlowdown: 1, assay.GPUThrottledHWThermal: 0, assay.GPUPower: 250})
		if v := s.last(assay.GPUPowerBrakeSeconds, 0); v < .2 {
			t.Errorf("braked %v s", v)
		}
	}},
	{"power_cap", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUThrottledPowerCap: 1, assay.GPUThrottledHWSlowdown: 0, assay.GPUPowerLimit: 400, assay.GPUPower: 399})
		// This driver may have its counters under either of two ids.
		want(t, s, 0, map[string]float64{assay.GPUSWThermalSeconds: 0, assay.GPUHWThermalSeconds: 0, assay.GPUPowerBrakeSeconds: 0})
		if v := s.last(assay.GPUPowerCapSeconds, 0); v < .9 {
			t.Errorf("held for %v s", v)
		}
	}},
	{"ecc", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUECCCorrected: 9, assay.GPUECCUncorrected: 1})
		if s.of(assay.GPUECCUncorrected, 0)[0] != 0 {
			t.Error("there at once")
		}
	}},
	{"xid", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		if d := cmp.Diff([]float64{63, 48, 95}, s.of(assay.GPUXID, 1)); d != "" {
			t.Error(d)
		}
		wantAbsent(t, s, 0, assay.GPUXID)
	}},
	{"lost", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 1, map[string]float64{assay.GPULost: 1, assay.GPUXID: 79})
		want(t, s, 0, map[string]float64{assay.GPULost: 0, assay.GPUPower: 600})
		if l := s.of(assay.GPULost, 1); l[0] != 0 {
			t.Errorf("lost from the start: %v", l)
		}
		if a, b := len(s.of(assay.GPUPower, 0)), len(s.of(assay.GPUPower, 1)); b >= a || b == 0 {
			t.Errorf("%d readings of the one that is there, %d of the lost one", a, b)
		}
	}},
	{"energy_backwards", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		if e := s.of(assay.GPUEnergy, 0); slices.IsSorted(e) || slices.Min(e) > 2e5 {
			t.Errorf("the counter's fall was hidden: %v", e)
		}
	}},
	{"mig", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUPower: 320})
		wantAbsent(t, s, 0, assay.GPUUtilization, assay.GPUMemoryUtilization, assay.GPURowRemapFailed, assay.GPURowRemapPending)
	}},
	{"nvlink", nvmltest.Today, 20, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUNVLinksDown: 2, assay.GPUFabricReady: 1})
		want(t, s, 1, map[string]float64{assay.GPUNVLinksDown: 0, assay.GPUNVLinkErrors: 0, assay.GPUPeersUnreachable: 0})
		if e := s.of(assay.GPUNVLinkErrors, 0); e[0] != 0 || e[len(e)-1] < 1000 {
			t.Errorf("errors %v", e)
		}
	}},
	{"fabric", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUFabricReady: 0})
	}},
	{"eight_one_bad", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		for i := range 8 {
			bad, clock := 0., 1980e6
			if i == 5 {
				bad, clock = 1, 990e6
			}
			want(t, s, i, map[string]float64{assay.GPUThrottledHWThermal: bad, assay.GPUSMClock: clock, assay.GPULost: 0})
			if n := len(s.of(assay.GPUECCUncorrected, i)); n < 2 || n > 4 {
				t.Errorf("GPU %d: the slow readings came %d times in 1.4 s", i, n)
			}
		}
	}},
	{"foreign_pids", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUProcesses: 2, assay.GPUProcessMemory: 59.7e9})
	}},
	{"remap_pending", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPURowRemapPending: 1, assay.GPURowRemapFailed: 0})
	}},
	{"remap_failed", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPURowRemapPending: 0, assay.GPURowRemapFailed: 1})
	}},
	{"retired_pages", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPURetiredPages: 60})
		wantAbsent(t, s, 0, assay.GPURowRemapFailed)
	}},
	{"pcie_replays", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		if r := s.of(assay.GPUPCIeReplays, 0); r[0] != 5 || r[len(r)-1] < 10000 {
			t.Errorf("replays %v", r)
		}
	}},
	{"pcie_narrow", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUPCIeLinkWidth: 8, assay.GPUPCIeLinkWidthMax: 16, assay.GPUPCIeLinkGeneration: 3, assay.GPUPCIeLinkGenMax: 5})
	}},
	{"recovery", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPURecoveryAction: 1, assay.GPUXID: 154})
	}},
	{"old_driver", nvmltest.Old, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{
			assay.GPUPower: 180, assay.GPUPowerInstant: 0, assay.GPUUtilization: .9, assay.GPUTemperature: 58, assay.GPUThrottledPowerCap: 1,
			assay.GPUMemoryUsed: 12000e6, assay.GPUProcesses: 1, assay.GPUProcessMemory: 11e9, assay.GPUSWThermalSeconds: 0,
		})
		wantAbsent(t, s, 0, assay.GPURowRemapFailed, assay.GPUHWThermalSeconds, assay.GPUPowerBrakeSeconds, assay.GPUPowerCapSeconds, assay.GPURecoveryAction, assay.GPUFabricReady)
	}},
	{"normal", nvmltest.Bare, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{})
		for k := range s {
			if k.name != assay.GPULost {
				t.Errorf("a driver without functions gave %v", k)
			}
		}
	}},
	{"no_permission", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		want(t, s, 0, map[string]float64{assay.GPUPower: 300})
		wantAbsent(t, s, 0, assay.GPUECCUncorrected, assay.GPUProcesses, assay.GPUProcessMemory, assay.GPUUtilization, assay.GPUPCIeReplays, assay.GPUXID)
	}},
	{"hostile", nvmltest.Today, 10, func(t *testing.T, s series, err error) {
		wantNone(t, err)
		for k := range s {
			if len(k.device) > maxChildDevice || k.name == assay.GPUProcesses || k.name == assay.GPUUtilization {
				t.Errorf("believed %v", k)
			}
		}
		if len(s) == 0 {
			t.Error("nothing at all")
		}
	}},
	{"not_loaded", nvmltest.Today, 1, func(t *testing.T, s series, err error) {
		if err == nil || !strings.Contains(err.Error(), "the driver is not loaded (NVML return 9)") || len(s) != 0 {
			t.Errorf("%v, %v", err, s)
		}
	}},
}

func wantNone(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func want(t *testing.T, s series, gpu int, last map[string]float64) {
	t.Helper()
	for name, v := range last {
		if got := s.last(name, gpu); !(got >= v-1e-9*v && got <= v+1e-9*v) {
			t.Errorf("GPU %d: %s ends at %v, want %v (all: %v)", gpu, name, got, v, s.of(name, gpu))
		}
	}
}

func wantAbsent(t *testing.T, s series, gpu int, names ...string) {
	t.Helper()
	for _, n := range names {
		if v := s.of(n, gpu); v != nil {
			t.Errorf("GPU %d: %s must be absent, is %v", gpu, n, v)
		}
	}
}

func TestNVMLScenarios(t *testing.T) {
	results := make([]played, len(courses))
	// A machine that stands still meanwhile sees nothing of what happens: then they
	// are played again.
	stillness.Timed(t, "scenarios", func() error {
		begin, children, errs := joined(t)
		var wg sync.WaitGroup
		gaps := make([]time.Duration, len(children)) // the longest time between two readings
		for i, c := range children {
			results[i] = played{series{}, errs[i]}
			wg.Go(func() { gaps[i] = results[i].read(t, c, begin) })
		}
		wg.Wait()
		for _, c := range children {
			_ = c.Close()
		}
		if gap := slices.Max(gaps); gap >= 250*time.Millisecond {
			return fmt.Errorf("nothing was read for %s, of 1.4 s", gap)
		}
		return nil
	})
	for i, c := range courses {
		t.Run(c.name+string(c.variant), func(t *testing.T) { c.check(t, results[i].s, results[i].err) })
	}
}

// played is what was seen of a scenario.
type played struct {
	s   series
	err error
}

// read reads a child while its scenario is played, and gives the longest time
// between two readings.
func (r *played) read(t *testing.T, c *Child, begin time.Time) (gap time.Duration) {
	for last := begin; r.err == nil && time.Since(begin) < 1400*time.Millisecond; time.Sleep(25 * time.Millisecond) {
		r.err = c.Read(t.Context(), r.s.add)
		now := time.Now()
		gap, last = max(gap, now.Sub(last)), now
	}
	return gap
}

// joined starts a child for each scenario. All begin at one moment, by which all
// children must have started; on a slow machine it is put off.
func joined(t *testing.T) (begin time.Time, children []*Child, errs []error) {
	for ahead := 2 * time.Second; ; ahead *= 3 {
		begin = time.Now().Add(ahead).Truncate(time.Millisecond)
		epoch := fmt.Sprintf("epoch_unix_ms %d", begin.UnixMilli())
		children, errs = make([]*Child, len(courses)), make([]error, len(courses))
		var wg sync.WaitGroup
		for i, c := range courses {
			scenario := nvmltest.Scenario(t, c.name, fmt.Sprintf("scale %v", c.scale), epoch)
			children[i] = newStub(t, c.variant, scenario, ChildOptions{Deadline: 10 * time.Second})
			wg.Go(func() { _, errs[i] = children[i].Describe(t.Context()) })
		}
		wg.Wait()
		if time.Now().Before(begin) || ahead > 10*time.Second {
			time.Sleep(time.Until(begin))
			return begin, children, errs
		}
		for _, c := range children {
			_ = c.Close()
		}
	}
}

// A scenario with an epoch is joined in its middle.
func TestNVMLPeersOutOfReach(t *testing.T) {
	epoch := fmt.Sprintf("epoch_unix_ms %d", time.Now().Add(-13*time.Second).UnixMilli())
	s := series{}
	if err := newStub(t, nvmltest.Today, nvmltest.Scenario(t, "nvlink", epoch), ChildOptions{}).Read(t.Context(), s.add); err != nil {
		t.Fatal(err)
	}
	want(t, s, 0, map[string]float64{assay.GPUPeersUnreachable: 1, assay.GPUNVLinksDown: 2})
	want(t, s, 1, map[string]float64{assay.GPUPeersUnreachable: 1, assay.GPUNVLinksDown: 0})
}

// The slow readings of eight GPUs do not all come at once, after the first time.
func TestNVMLSpreadsSlowReadings(t *testing.T) {
	c := newStub(t, nvmltest.Today, nvmltest.Scenario(t, "eight_one_bad"), ChildOptions{})
	most, all := 0, series{}
	for i := range 24 {
		s := series{}
		if err := c.Read(t.Context(), func(r assay.Reading) { s.add(r); all.add(r) }); err != nil {
			t.Fatal(err)
		}
		n := 0
		for gpu := range 8 {
			n += len(s.of(assay.GPUECCUncorrected, gpu))
		}
		if i == 0 && n != 8 {
			t.Errorf("the first reading had %d of 8", n)
		} else if i > 0 {
			most = max(most, n)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if most > 4 {
		t.Errorf("%d of 8 at once", most)
	}
	for gpu := range 8 {
		if n := len(all.of(assay.GPUECCUncorrected, gpu)); n < 2 {
			t.Errorf("GPU %d: read %d times", gpu, n)
		}
	}
}

func TestNVMLGivesAllErrorsThatHaveCome(t *testing.T) {
	s := series{}
	c := newStub(t, nvmltest.Today, nvmltest.Write(t, "gpus 1\nat 0 gpu 0 xid 13\nat 0 gpu 0 xid 31\nat 0 gpu 0 xid 43\n"), ChildOptions{})
	if err := c.Read(t.Context(), s.add); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float64{13, 31, 43}, s.of(assay.GPUXID, 0)); d != "" {
		t.Error(d)
	}
}

// Drivers that do not have a link's counters as fields have them as calls.
func TestNVMLErrorsByCalls(t *testing.T) {
	epoch := fmt.Sprintf("epoch_unix_ms %d", time.Now().Add(-7*time.Second).UnixMilli())
	more := []string{epoch, "at 15 gpu 0 nvlink_recoveries 3"}
	first := 0.
	for _, without := range [][]string{nil, {"field_fail 161 3", "field_fail 162 3", "field_fail 163 3", "field_fail 165 3"}} {
		s := series{}
		if err := newStub(t, nvmltest.Today, nvmltest.Scenario(t, "nvlink", append(more, without...)...), ChildOptions{}).Read(t.Context(), s.add); err != nil {
			t.Fatal(err)
		}
		want(t, s, 1, map[string]float64{assay.GPUNVLinkErrors: 0, assay.GPUNVLinksDown: 0})
		e := s.last(assay.GPUNVLinkErrors, 0)
		if e < 1000 || first != 0 && (e < first || e > first+2000) {
			t.Errorf("errors %v, by fields %v", e, first)
		}
		first = e
	}
}

// A driver that hangs costs its own readings and nobody else's.
func TestNVMLHangIsKilledAndOthersGoOn(t *testing.T) {
	hung := newStub(t, nvmltest.Today, nvmltest.Scenario(t, "hang", "scale 10"), ChildOptions{Deadline: patience, Backoff: time.Hour})
	if _, err := hung.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	hung.o.Deadline = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var failures []error
	after := 0 // readings of the other source since
	Poll(ctx, 10*time.Millisecond, func() int64 { return 0 }, []Source{hung, &fake{}}, func(r assay.Reading) {
		if r.Source == "fake" && len(failures) > 0 {
			if after++; after == 20 {
				cancel()
			}
		}
	}, func(err error) { failures = append(failures, err) })
	if after < 20 {
		t.Errorf("the other source was read %d times after the failure", after)
	}
	if len(failures) != 1 || !errors.Is(failures[0], ErrNoAnswer) || !strings.Contains(failures[0].Error(), "the driver did not answer within 300ms") {
		t.Errorf("failures: %v", failures)
	}
}

func TestNVMLInitThatHangs(t *testing.T) {
	c := newStub(t, nvmltest.Today, nvmltest.Scenario(t, "init_hang"), ChildOptions{StartDeadline: 300 * time.Millisecond})
	if _, err := c.Describe(t.Context()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("error %v", err)
	}
}

func TestNVMLDescribe(t *testing.T) {
	for _, tc := range []struct {
		scenario string
		variant  nvmltest.Variant
		want     []assay.GPU
	}{
		{"normal", nvmltest.Today, []assay.GPU{{
			UUID: uuid0, Name: "NVIDIA H100 80GB HBM3", Source: "nvml", MemoryBytes: 85520e6, PCIBusID: "0000:1b:00.0", Serial: "1652023000000", VBIOS: "96.00.74.00.01",
			Driver: "580.82.07", CUDA: "13.0", SMCount: 132, BusWidthBits: 5120, MaxSMClockHz: 1980e6, MaxMemoryClockHz: 2619e6, PowerLimitWatts: 700, MIG: "disabled", VGPU: "none",
		}}},
		{"mig", nvmltest.Today, []assay.GPU{{
			UUID: uuid0, Name: "NVIDIA A100-SXM4-80GB", Source: "nvml", MemoryBytes: 85520e6, PCIBusID: "0000:1b:00.0", Serial: "1652023000000", VBIOS: "96.00.74.00.01",
			Driver: "580.82.07", CUDA: "13.0", SMCount: 108, BusWidthBits: 5120, MaxSMClockHz: 1980e6, MaxMemoryClockHz: 2619e6, PowerLimitWatts: 700, MIG: "enabled", VGPU: "none",
		}}},
		{"old_driver", nvmltest.Old, []assay.GPU{{
			UUID: uuid0, Name: "Tesla V100-PCIE-16GB", Source: "nvml", MemoryBytes: 16900e6, PCIBusID: "0000:1b:00.0", Serial: "1652023000000", VBIOS: "96.00.74.00.01",
			Driver: "390.116", CUDA: "9.1", MaxSMClockHz: 1980e6, MaxMemoryClockHz: 2619e6, PowerLimitWatts: 700, VGPU: "none",
		}}},
		{"normal", nvmltest.Bare, []assay.GPU{{UUID: uuid0, Name: "NVIDIA H100 80GB HBM3", Source: "nvml"}}},
	} {
		t.Run(tc.scenario+string(tc.variant), func(t *testing.T) {
			got, err := newStub(t, tc.variant, nvmltest.Scenario(t, tc.scenario), ChildOptions{}).Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Power integrated over the wall clock comes to the counter's difference. The power
// only rises, and each value was read between two moments that are known: so the
// integral has bounds that hold however late this process or its child is.
func TestNVMLEnergyAgreesWithPower(t *testing.T) {
	c := newStub(t, nvmltest.Today, nvmltest.Write(t, "gpus 1\nscale 30\ngpu 0 power 300\nat 600 gpu 0 power 700\n"), ChildOptions{})
	if _, err := c.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	type look struct {
		began, ended  time.Time
		watts, joules float64
	}
	var looks []look
	for len(looks) < 20 || looks[len(looks)-1].joules-looks[0].joules < 200 {
		s, l := series{}, look{began: time.Now()}
		if err := c.Read(t.Context(), s.add); err != nil {
			t.Fatal(err)
		}
		l.ended, l.watts, l.joules = time.Now(), s.last(assay.GPUPower, 0), s.last(assay.GPUEnergy, 0)
		looks = append(looks, l)
		time.Sleep(20 * time.Millisecond)
	}
	// From the second to the last but one, so that each has a power before it,
	// which is not above its own, and one behind it, which is not below.
	last := len(looks) - 2
	first := looks[1].ended.Sub(looks[1].began).Seconds() * looks[2].watts
	low, high := -first, first
	for k := 1; k < last; k++ {
		low += looks[k-1].watts * looks[k+1].began.Sub(looks[k].began).Seconds()
		high += looks[k+2].watts * looks[k+1].ended.Sub(looks[k].ended).Seconds()
	}
	const slack = 0.001 // whole milliwatts, and a wall clock that is being slewed
	if counter := looks[last].joules - looks[1].joules; !(low > 0 && counter >= low*(1-slack) && counter <= high*(1+slack)) {
		t.Errorf("by counter %.1f J, by integration %.1f to %.1f J", counter, low, high)
	}
}

// A GPU that is gone before the start is counted, not forgotten.
func TestNVMLLostBeforeTheStart(t *testing.T) {
	c := newStub(t, nvmltest.Today, nvmltest.Write(t, "gpus 2\ngpu 1 lost 1\n"), ChildOptions{})
	gpus, err := c.Describe(t.Context())
	if err != nil || len(gpus) != 2 {
		t.Fatalf("%v %v", gpus, err)
	}
	if d := cmp.Diff(assay.GPU{UUID: "index-1", Index: 1, Source: "nvml"}, gpus[1]); d != "" {
		t.Error(d)
	}
	s := series{}
	if err := c.Read(t.Context(), s.add); err != nil {
		t.Fatal(err)
	}
	if v := s[key{assay.GPULost, "index-1"}]; len(v) != 1 || v[0] != 1 {
		t.Errorf("%v", s)
	}
}
