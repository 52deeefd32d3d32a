package summary_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

// tell adds a reading of a source.
func (m *made) tell(at int64, source, name, device string, v float64) {
	m.readings = append(m.readings, assay.Reading{At: at, Source: source, Name: name, Device: device, Value: &v})
}

// loadedMade is a run of a minute under load, after ten idle seconds, whose
// steady window is its last 50 s.
func loadedMade() *made {
	m := newMade()
	m.closed("s", 4, start+10*second, 60*second, 10*second, 50*ms, 10*ms, 32)
	m.events[3].At = start + 70*second // drained at once
	return m
}

// powered adds power and a counter of energy of a GPU, every 100 ms of 80 s.
func (m *made) powered(gpu string, watts func(s float64) float64) {
	joules := 12345.0
	for i := range 801 {
		s := float64(i) / 10
		if i > 0 {
			for k := range 10 { // the counter's own steps are finer
				joules += watts(s-0.1+float64(k)/100+0.005) / 100
			}
		}
		at := start + int64(i)*100*ms
		m.tell(at, "nvml", assay.GPUPower, gpu, watts(s))
		m.tell(at, "nvml", assay.GPUEnergy, gpu, joules)
	}
}

func integral(f func(float64) float64, from, to float64) (sum float64) {
	const n = 100_000
	for i := range n {
		sum += f(from+(float64(i)+0.5)*(to-from)/n) * (to - from) / n
	}
	return sum
}

func TestEnergyByBothWays(t *testing.T) {
	for name, watts := range map[string]func(float64) float64{
		"constant": func(float64) float64 { return 300 },
		"ramp":     func(s float64) float64 { return 50 + 4*s },
		"waves":    func(s float64) float64 { return 250 + 150*math.Sin(s*2) },
		"steps": func(s float64) float64 {
			if math.Mod(s, 7) < 3 {
				return 80
			}
			return 420
		},
		"load": func(s float64) float64 {
			if s < 10 {
				return 60
			}
			return 350
		},
	} {
		m := loadedMade()
		m.powered("GPU-a", watts)
		s := of(t, m)
		if len(s.GPUs) != 1 || s.GPUs[0].Energy == nil || s.Energy == nil {
			t.Fatalf("%s: no energy: %+v", name, s.GPUs)
		}
		e, want := s.GPUs[0].Energy, integral(watts, 10, 70)
		near(t, name+": counter", *e.Counter, want, 0.001)
		near(t, name+": integrated", *e.Integrated, want, 0.02)
		near(t, name+": joules", *e.Joules, *e.Counter, 0)
		near(t, name+": disagreement", *e.Disagreement, *e.Counter / *e.Integrated - 1, 0)
		near(t, name+": idle", *e.Idle, integral(watts, 0, 10)*6, 0.02)
		near(t, name+": together", *s.Energy.Joules, *e.Joules, 0)
		from, to := float64(s.Stages[0].SteadyFrom-start)/1e9, float64(s.Stages[0].SteadyTo-start)/1e9
		near(t, name+": steady", *s.Stages[0].Joules, integral(watts, from, to), 0.001)
		near(t, name+": window", to-from, 50, 0.01)
		near(t, name+": mean power", s.GPUs[0].Stats[assay.GPUPower].Mean, want/60, 0.02)
		near(t, name+": covered", s.GPUs[0].LoadedSeconds, 60, 1e-9)
		if len(s.Warnings) != 0 {
			t.Errorf("%s: %v", name, s.Warnings)
		}
		tpj := s.Stages[0].Replicates.TokensPerJoule
		if len(tpj) != 200 {
			t.Fatalf("%s: %d replicates of tokens per joule", name, len(tpj))
		}
		near(t, name+": tokens per joule", meanOf(tpj), s.Stages[0].OutputTokensPerSecond*(to-from) / *s.Stages[0].Joules, 0.15)
	}
}

func meanOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x / float64(len(v))
	}
	return sum
}

// without leaves out the readings that a test names.
func (m *made) without(drop func(*assay.Reading) bool) {
	var kept []assay.Reading
	for i := range m.readings {
		if !drop(&m.readings[i]) {
			kept = append(kept, m.readings[i])
		}
	}
	m.readings = kept
}

func TestEnergyThatIsDoubted(t *testing.T) {
	flat := func(float64) float64 { return 300 }
	seconds := func(r *assay.Reading) float64 { return float64(r.At-start) / 1e9 }
	t.Run("a gap is not bridged, and the disagreement says so", func(t *testing.T) {
		m := loadedMade()
		m.powered("GPU-a", flat)
		m.without(func(r *assay.Reading) bool { return r.Name == assay.GPUPower && seconds(r) > 30 && seconds(r) < 36 })
		s := of(t, m)
		e := s.GPUs[0].Energy
		near(t, "integrated", *e.Integrated, 300*54, 0.001)
		near(t, "counter", *e.Counter, 300*60, 0.001)
		near(t, "disagreement", *e.Disagreement, 60.0/54-1, 0.001)
		if !warned(s, "energy_disagrees") {
			t.Errorf("no warning: %v", s.Warnings)
		}
		near(t, "joules of the stage", *s.Stages[0].Joules, 300*50, 0.005)
	})
	t.Run("without a counter, a stage of which a tenth is not known has none", func(t *testing.T) {
		m := loadedMade()
		m.powered("GPU-a", flat)
		m.without(func(r *assay.Reading) bool {
			return r.Name == assay.GPUEnergy || r.Name == assay.GPUPower && seconds(r) > 30 && seconds(r) < 36
		})
		s := of(t, m)
		near(t, "lower bound", *s.GPUs[0].Energy.Joules, 300*54, 0.001)
		if s.GPUs[0].Energy.Counter != nil || s.GPUs[0].Energy.Disagreement != nil || s.Stages[0].Joules != nil || len(s.Stages[0].Replicates.TokensPerJoule) != 0 {
			t.Errorf("%+v, stage %v", s.GPUs[0].Energy, s.Stages[0].Joules)
		}
	})
	t.Run("a counter that falls is refused", func(t *testing.T) {
		m := loadedMade()
		m.powered("GPU-a", flat)
		for i := range m.readings {
			if r := &m.readings[i]; r.Name == assay.GPUEnergy && seconds(r) == 40 {
				v := *r.Value - 35
				r.Value = &v
			}
		}
		s := of(t, m)
		e := s.GPUs[0].Energy
		if e.Counter != nil || e.Disagreement != nil || !strings.Contains(e.Refused, "fell") || !warned(s, "energy_counter_refused") {
			t.Errorf("%+v, %v", e, s.Warnings)
		}
		near(t, "joules by integration", *e.Joules, 300*60, 0.001)
	})
	t.Run("one GPU that says nothing leaves the node without a sum", func(t *testing.T) {
		m := loadedMade()
		m.powered("GPU-a", flat)
		m.powered("GPU-b", flat)
		near(t, "two", *of(t, m).Energy.Joules, 2*300*60, 0.001)
		near(t, "two in the stage", *of(t, m).Stages[0].Joules, 2*300*50, 0.005)
		m.tell(start+20*second, "nvml", assay.GPUTemperature, "GPU-c", 60)
		s := of(t, m)
		if s.Energy != nil || s.Stages[0].Joules != nil || !warned(s, "energy_incomplete") {
			t.Errorf("%+v %v", s.Energy, s.Warnings)
		}
		// A GPU of the manifest without a single reading is one too.
		m = loadedMade()
		m.powered("GPU-a", flat)
		m.manifest.Node.GPUs = []assay.GPU{{UUID: "GPU-z"}, {UUID: "GPU-a"}}
		if s := of(t, m); s.Energy != nil || s.Stages[0].Joules != nil || !warned(s, "energy_incomplete") {
			t.Errorf("%+v %v", s.Energy, s.Warnings)
		}
	})
	t.Run("nothing read is nothing said", func(t *testing.T) {
		m := loadedMade()
		m.tell(start+20*second, "nvml", assay.GPUTemperature, "GPU-c", 60)
		s := of(t, m)
		if s.Energy != nil || s.GPUs[0].Energy != nil || s.GPUs[0].ReplaysPerMinute != nil || len(s.GPUs[0].Throttled) != 0 || len(s.Warnings) != 0 {
			t.Errorf("%+v %v", s.GPUs[0], s.Warnings)
		}
		if st := s.GPUs[0].Stats[assay.GPUTemperature]; st.N != 1 || st.Mean != 60 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("what nobody measured between two processes is nobody's", func(t *testing.T) {
		m := newMade()
		plan := assay.Stage{Name: "s", Kind: assay.LoadClosed, Concurrency: 1}
		m.events = []assay.Event{{At: start, Kind: assay.EventStageStarted, Stage: "s", Plan: &plan},
			{At: start + 100*second, Kind: assay.EventResumed, Data: map[string]float64{"down_seconds": 90}}}
		m.span(plan, start+100*second, start+100*second, start+110*second, start+110*second)
		for i := range int64(1101) {
			if at := i * 100 * ms; at < 10*second || at >= 100*second {
				m.tell(start+at, "nvml", assay.GPUEnergy, "g", 1000+float64(i)*30)
			}
		}
		near(t, "joules", *of(t, m).GPUs[0].Energy.Joules, 300*(9.9+10), 0.001)
	})
}

func TestThrottledShare(t *testing.T) {
	flagged := func(m *made, name string, on func(s float64) float64) {
		for i := range 801 {
			m.tell(start+int64(i)*100*ms, "nvml", name, "g", on(float64(i)/10))
		}
	}
	between := func(from, to float64) func(float64) float64 {
		return func(s float64) float64 {
			if s >= from && s < to {
				return 1
			}
			return 0
		}
	}
	m := loadedMade()
	flagged(m, assay.GPUThrottledHWThermal, between(30, 42))
	flagged(m, assay.GPUThrottledIdle, between(0, 10)) // before the load
	flagged(m, assay.GPUThrottledPowerCap, between(10, 70))
	// The counter says 6 s where the flag, seldom looked at, was never seen.
	flagged(m, assay.GPUThrottledSWThermal, between(-1, -1))
	flagged(m, assay.GPUSWThermalSeconds, func(s float64) float64 {
		v := 100 + min(6, max(0, (s-20)/2))
		if s >= 60 { // the driver was loaded again, and throttles for 3 s more
			v = min(3, s-60)
		}
		return v
	})
	g := of(t, m).GPUs[0]
	near(t, "hw_thermal", g.Throttled["hw_thermal"], 12.0/60, 1e-9)
	near(t, "sw_power_cap", g.Throttled["sw_power_cap"], 1, 1e-9)
	for range 8 { // whichever of both is looked at first
		near(t, "sw_thermal", of(t, m).GPUs[0].Throttled["sw_thermal"], 9.0/59.9, 1e-6)
	}
	if v, ok := g.Throttled["idle"]; !ok || v != 0 {
		t.Errorf("idle %v", v)
	}
	if _, ok := g.Throttled["power_brake"]; ok {
		t.Error("a reason that was not read has a share")
	}

	// A flag speaks for two seconds and no longer.
	m = loadedMade()
	m.tell(start+20*second, "nvml", assay.GPUThrottledHWThermal, "g", 1)
	m.tell(start+40*second, "nvml", assay.GPUThrottledHWThermal, "g", 0)
	m.tell(start+60*second, "nvml", assay.GPUThrottledHWThermal, "g", 0)
	m.tell(start+69*second, "nvml", assay.GPUTemperature, "g", 1)
	near(t, "held", of(t, m).GPUs[0].Throttled["hw_thermal"], 1.0/3, 1e-9)
}

func TestGPUErrors(t *testing.T) {
	m := loadedMade()
	m.manifest.Node.GPUs = []assay.GPU{{UUID: "GPU-b"}, {UUID: "GPU-a", PCIBusID: "00000000:3B:00.0"}}
	for i := range int64(61) {
		m.tell(start+10*second+i*second, "nvml", assay.GPUPCIeReplays, "GPU-a", float64(7+2*i))
		m.tell(start+10*second+i*second, "nvml", assay.GPUECCUncorrected, "GPU-b", float64(i/30))
	}
	m.tell(start+20*second, "nvml", assay.GPUXID, "GPU-a", 79)
	m.tell(start+20*second, "kernel", assay.GPUXID, "00000000:3b:00.0", 13)
	m.tell(start+30*second, "nvml", assay.GPUXID, "GPU-a", 13)
	m.tell(start+31*second, "nvml", assay.GPUXID, "GPU-a", 0)
	m.tell(start+75*second, "nvml", assay.GPULost, "GPU-b", 1)
	s := of(t, m)
	if len(s.GPUs) != 2 || s.GPUs[0].UUID != "GPU-b" || s.GPUs[1].UUID != "GPU-a" {
		t.Fatalf("%+v", s.GPUs)
	}
	b, a := s.GPUs[0], s.GPUs[1]
	near(t, "replays a minute", *a.ReplaysPerMinute, 120, 0.001)
	if fmt.Sprint(a.XIDs) != "map[13:2 79:1]" || a.Lost || a.Source != "nvml" {
		t.Errorf("%+v", a)
	}
	if st := b.Stats[assay.GPUECCUncorrected]; !b.Lost || st.First != 0 || st.Last != 1 || len(b.XIDs) != 0 || b.ReplaysPerMinute != nil {
		t.Errorf("%+v", b)
	}
}

// Two sources of one reading do not make one series; a second one takes over
// when the first falls silent.
func TestSourcesDoNotMix(t *testing.T) {
	m := loadedMade()
	for i := range int64(600) {
		at := start + 10*second + i*100*ms
		if i < 300 {
			m.tell(at, "nvml", assay.GPUEnergy, "g", 1e6+float64(i)*30)
		}
		m.tell(at+50*ms, "nvidia-smi", assay.GPUEnergy, "g", 5e5+float64(i)*30)
	}
	e := of(t, m).GPUs[0].Energy
	if e.Refused != "" {
		t.Fatalf("refused: %s", e.Refused)
	}
	near(t, "joules", *e.Joules, 300*57.8, 0.005) // two seconds of silence belong to none
}

func TestHostRestartsAndSampling(t *testing.T) {
	m := loadedMade()
	for i := range int64(60) {
		at := start + 10*second + i*second
		m.tell(at, "host", assay.HostCPU, "", 0.5)
		m.tell(at, "host", assay.HostCPU, "cpu0", 1)
		m.tell(at, "host", assay.HostCPUFrequency, "cpu0", 2e9)
		m.tell(at, "host", assay.HostCPUFrequency, "cpu1", 4e9)
		m.tell(at, "host", assay.HostNetworkSent, "eth0", float64(i*10))
		m.tell(at, "host", assay.HostNetworkSent, "eth1", float64(i*5))
		began, tokens := 1000.0, float64(i*100)
		if i >= 20 {
			began, tokens = 1500, float64((i-20)*100)
		}
		m.tell(at, "engine", assay.EngineStarted, "", began+float64(i%2)*0.01)
		m.tell(at, "engine", assay.EngineOutputTokens, "", tokens)
		m.tell(at, "engine", assay.EnginePromptTokens, "", tokens)
		for k := range int64(10) {
			m.tell(at+k*100*ms, "nvml", assay.GPUTemperature, "g", 50)
			m.read(at+k*100*ms, "sampling_cpu_seconds_total", 3+float64(i*10+k)*0.0008)
		}
	}
	s := of(t, m)
	if s.Host == nil {
		t.Fatal("no host")
	}
	near(t, "cpu", s.Host.Stats[assay.HostCPU].Mean, 0.5, 1e-9)
	near(t, "frequency", s.Host.Stats[assay.HostCPUFrequency].Mean, 3e9, 1e-9)
	near(t, "sent", s.Host.Stats[assay.HostNetworkSent].Last, 59*15, 1e-9)
	if s.Restarts != 1 {
		t.Errorf("%d restarts", s.Restarts)
	}
	if s.Sampling == nil || s.Sampling.IntervalNS != 100*ms || strings.Join(s.Sampling.Sources, " ") != "engine host nvml" {
		t.Fatalf("%+v", s.Sampling)
	}
	near(t, "sampling", *s.Sampling.CPUShare, 0.008, 1e-6)

	// Without the engine's word, its counters tell: they fall together.
	m.without(func(r *assay.Reading) bool { return r.Name == assay.EngineStarted })
	if got := of(t, m).Restarts; got != 1 {
		t.Errorf("%d restarts by counters", got)
	}
	if s := of(t, loadedMade()); s.Host != nil || s.Sampling != nil || s.Restarts != 0 || s.GPUs != nil {
		t.Errorf("nothing was read, and yet %+v %+v", s.Host, s.Sampling)
	}
}

// hours is a run with readings of eight GPUs every 100 ms, made one at a time.
type hours struct {
	made
	seconds int64
	peak    uint64
}

func newHours(seconds int64) *hours {
	h := &hours{made: *newMade(), seconds: seconds}
	h.span(assay.Stage{Name: "s", Kind: assay.LoadClosed, Concurrency: 1}, start, start+second, start+seconds*second, start+seconds*second)
	return h
}

func (h *hours) Readings() iter.Seq2[*assay.Reading, error] {
	return func(yield func(*assay.Reading, error) bool) {
		rng := rand.New(rand.NewPCG(1, 2))
		names := []string{assay.GPUPower, assay.GPUEnergy, assay.GPUMemoryUsed, assay.GPUSMClock, assay.GPUTemperature, assay.GPUUtilization,
			assay.GPUThrottledHWThermal, assay.GPUThrottledSWThermal, assay.GPUThrottledPowerCap, assay.GPUHWThermalSeconds}
		var gpus []string
		for i := range 8 {
			gpus = append(gpus, fmt.Sprintf("GPU-%d", i))
		}
		for i := range h.seconds * 10 {
			for _, g := range gpus {
				for _, name := range names {
					v := rng.Float64()
					if name == assay.GPUEnergy || name == assay.GPUHWThermalSeconds {
						v = float64(i)
					}
					if !yield(&assay.Reading{At: start + i*100*ms, Source: "nvml", Name: name, Device: g, Value: &v}, nil) {
						return
					}
				}
			}
			if i%(h.seconds/2) == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				h.peak = max(h.peak, m.HeapAlloc)
			}
		}
	}
}

// Ten times as many readings of eight GPUs take no more memory, and windows and
// series stay within their bound.
func TestTelemetryMemoryIsFlat(t *testing.T) {
	heap := func(seconds int64) float64 {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		h := newHours(seconds)
		s, err := summary.Of(h)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.Windows); n > 1026 || n < 500 {
			t.Errorf("%d windows of %d s", n, seconds)
		}
		return float64(h.peak) - float64(before.HeapAlloc)
	}
	short, long := heap(1000), heap(5000)
	t.Logf("%.1f MB, %.1f MB", short/1e6, long/1e6)
	if long > 1.3*short+1e6 || long > 20e6 {
		t.Errorf("1,000 s take %.1f MB, 5,000 s take %.1f MB", short/1e6, long/1e6)
	}
}

func BenchmarkReadings(b *testing.B) {
	const seconds = 1000
	for b.Loop() {
		if _, err := summary.Of(newHours(seconds)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(seconds*10*8*10), "ns/reading")
}
