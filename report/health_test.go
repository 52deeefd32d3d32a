package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

const testStart = int64(1_790_000_000_000_000_000)

func spread(n int, median float64) assay.Dist {
	d := assay.Dist{N: n, Effective: float64(n) / 2, Mean: median * 1.04, Min: median * 0.8, Max: median * 2}
	for i, l := range []float64{50, 90, 95, 99} {
		v := median * (1 + 0.15*float64(i))
		p := assay.Percentile{Level: l, Value: v, Lo: v * 0.97, Hi: v * 1.04}
		if need := []int{6, 36, 72, 368}[i]; d.Effective < float64(need) {
			p.Lo, p.Hi, p.Need = math.NaN(), math.NaN(), need
		}
		d.Percentiles = append(d.Percentiles, p)
	}
	return d
}

func word(s string) *string { return &s }

func million(units float64) *assay.Money {
	return &assay.Money{Nano: int64(units * 1e9), Currency: "USD"}
}

// sick is the health of a node with two GPUs of which the second throttles
// from the fifth minute on.
func sick() HealthInput {
	rng := rand.New(rand.NewPCG(1, 2))
	gpus := []assay.GPU{
		{UUID: "GPU-6f1c2f3e-0000-4a11-8c11-000000000000", Name: "NVIDIA GeForce RTX 4090", Index: 0, Source: "nvml", MemoryBytes: 24 << 30, SMCount: 128, BusWidthBits: 384, Driver: "550.54.15", PCIBusID: "00000000:01:00.0"},
		{UUID: "GPU-6f1c2f3e-0000-4a11-8c11-000000000001", Name: "NVIDIA GeForce RTX 4090", Index: 1, Source: "nvml", MemoryBytes: 24 << 30, SMCount: 128, BusWidthBits: 384, Driver: "550.54.15", PCIBusID: "00000000:41:00.0"},
	}
	in := HealthInput{
		Manifest: assay.Manifest{Format: assay.RunFormat, ID: "01JCS8ZTESTRUN0000000000000", Created: testStart, Seed: 42, Clock: assay.ClockKernel,
			Version: assay.Version{Assay: "v0.1.0", Go: "go1.26"},
			Node:    assay.Node{ID: "node_123", Hostname: "box", OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPU: "AMD Ryzen 9 7950X", Cores: 32, MemoryBytes: 64 << 30, GPUs: gpus}},
		Summary: assay.Summary{Format: assay.SummaryFormat, RunID: "01JCS8ZTESTRUN0000000000000", Status: assay.StatusComplete, Started: testStart, Ended: testStart + 700e9,
			Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: "llama-3-8b", Version: "vLLM 0.11.0"},
			Client: assay.ClientSummary{Certificate: assay.Certified, Clock: assay.ClockKernel, AllowedLagUS: 1000, LagUS: dist(90000, 40, 90), SendLag: dist(5000, 30, 80),
				Reads: 912345, MergedReads: 1203, MergedShare: 0.0013, CPUSeconds: ptr(31), CPUShare: ptr(0.034), PeakRSSBytes: ptr(91 << 20)},
			Warnings: []assay.Warning{{Kind: "little", Stage: "c64", Text: "in flight by the gauge is 3 % above arrivals times mean time"}},
		},
	}
	s := &in.Summary
	scale := &assay.Scaling{Knee: assay.Quantity{N: 7, Est: 21.3, Lo: math.NaN(), Hi: math.NaN()}, Peak: assay.Quantity{N: 7, Est: 32}, Cliff: assay.Quantity{N: 7, Est: 58, Lo: 54, Hi: 61},
		USL: &assay.USL{Gamma: 0.82, Sigma: 0.012, Kappa: 0.0006, R2: 0.991, PeakN: ptr(40.6)}}
	for i, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		f := float64(n)
		x := 0.82 * f / (1 + 0.012*(f-1) + 0.0006*f*(f-1)) * (1 + 0.02*(rng.Float64()-0.5))
		if n == 64 {
			x *= 0.82
		}
		at := testStart + int64(i)*60e9
		name := fmt.Sprintf("c%d", n)
		ttft := 38 * (1 + 0.02*f + 0.0012*f*f)
		reqs := int(x * 60)
		s.Stages = append(s.Stages, assay.StageSummary{Name: name, Plan: assay.Stage{Name: name, Kind: assay.LoadClosed, Concurrency: n}, Complete: true,
			Started: at, SteadyFrom: at + 5e9, SteadyTo: at + 58e9, Ended: at + 60e9, Requests: reqs, OK: reqs, RequestsPerSecond: x, GoodputPerSecond: x, OutputTokensPerSecond: 256 * x,
			TokensPerUser: 256 * x / f, TTFT: spread(reqs, ttft), TPOT: spread(reqs, 4.6*f/(5*x)), E2E: spread(reqs, 1000*f/x)})
		scale.Points = append(scale.Points, assay.ScalePoint{Stage: name, Load: f, Goodput: x, TokenRate: 256 * x, LatencyMS: 1000 * f / x, PerUser: 256 * x / f, Degradation: x / f / 0.82})
	}
	s.Scaling = scale
	hold := testStart + 420e9
	s.Stages = append(s.Stages, assay.StageSummary{Name: "hold", Plan: assay.Stage{Name: "hold", Kind: assay.LoadOpen, Rate: 9, Utilization: 0.8}, Complete: true, Started: hold, SteadyFrom: hold + 5e9, SteadyTo: hold + 278e9, Ended: hold + 280e9,
		Requests: 2500, OK: 2496, Failed: 4, ErrorRate: 0.0016, Errors: map[assay.Failure]int{assay.FailTimeout: 4}, RequestsPerSecond: 8.9, GoodputPerSecond: 8.9, OutputTokensPerSecond: 2278,
		TTFT: spread(2496, 72), TTFTIntended: spread(2496, 74), TPOT: spread(2496, 9.1), E2E: spread(2496, 2400)})

	hot := func(t float64) bool { return t > 520 && t < 640 }
	ttft := Series{Name: "ttft_ms", Unit: "ms"}
	tpot := Series{Name: "tpot_ms", Unit: "ms"}
	for i := range 4000 {
		t := 700 * float64(i) / 4000
		base := 38 + 0.1*t
		if hot(t) {
			base *= 1.9
		}
		v := base * (1 + 0.25*rng.ExpFloat64())
		ttft.Times, ttft.Values = append(ttft.Times, testStart+int64(t*1e9)), append(ttft.Values, v)
		tpot.Times, tpot.Values = append(tpot.Times, testStart+int64(t*1e9)), append(tpot.Values, v/9)
	}
	in.Series = append(in.Series, ttft, tpot)
	for k := range 70 {
		from := testStart + int64(k)*10e9
		st := s.Stages[min(k/6, 7)].Name
		mean := 38 + float64(k)
		rate := 300 * math.Min(7, float64(1+k/6))
		if hot(float64(10 * k)) {
			mean, rate = mean*2, rate*0.6
		}
		s.Windows = append(s.Windows, assay.Window{Stage: st, From: from, To: from + 10e9, OK: 50, Tokens: int64(10 * rate * (1 + 0.03*rng.NormFloat64())), TTFT: ptr(mean), TTFTMax: ptr(mean * 2.4), TPOT: ptr(mean / 8)})
	}
	for g, gpu := range gpus {
		course := func(name, unit string, f func(t float64) float64) {
			sr := Series{Name: name, Device: gpu.UUID, Unit: unit}
			for i := range 3500 {
				t := float64(i) / 5
				if g == 0 && t > 300 && t < 330 {
					continue // the readings stayed away
				}
				sr.Times, sr.Values = append(sr.Times, testStart+int64(t*1e9)), append(sr.Values, f(t))
			}
			in.Series = append(in.Series, sr)
		}
		throttled := func(t float64) bool { return g == 1 && hot(t) }
		course(assay.GPUUtilization, "ratio", func(t float64) float64 { return math.Min(1, 0.6+0.4*math.Min(1, t/120)+0.02*rng.NormFloat64()) })
		course(assay.GPUMemoryUsed, "bytes", func(t float64) float64 { return 19e9 + 2e6*t })
		course(assay.GPUTemperature, "celsius", func(t float64) float64 { return 45 + 38*(1-math.Exp(-t/150)) + 5*float64(g) })
		course(assay.GPUPower, "watts", func(t float64) float64 {
			if throttled(t) {
				return 260 + 8*rng.NormFloat64()
			}
			return 200 + 180*math.Min(1, t/200) + 10*rng.NormFloat64()
		})
		course(assay.GPUSMClock, "hertz", func(t float64) float64 {
			if throttled(t) {
				return 1.41e9 + 2e7*rng.NormFloat64()
			}
			return 2.52e9 + 1e7*rng.NormFloat64()
		})
		course(assay.GPUThrottledSWThermal, "flag", func(t float64) float64 {
			if throttled(t) {
				return 1
			}
			return 0
		})
		held := 0.0
		if g == 1 {
			held = 0.171
		}
		s.GPUs = append(s.GPUs, assay.GPUSummary{UUID: gpu.UUID, Source: "nvml", LoadedSeconds: 700, Throttled: map[string]float64{"sw_thermal": held, "sw_power_cap": 0.3},
			Energy: &assay.EnergySummary{Joules: ptr(210300), Counter: ptr(210300), Integrated: ptr(209100), Disagreement: ptr(0.0057)},
			Stats: map[string]assay.ReadingStats{assay.GPUUtilization: {N: 3500, Mean: 0.96, Max: 1}, assay.GPUTemperature: {N: 3500, Max: 83 + 5*float64(g)},
				assay.GPUPower: {N: 3500, Mean: 331}, assay.GPUMemoryUsed: {N: 3500, Max: 20.4e9}, assay.GPUSMClock: {N: 3500, Mean: 2.41e9, Min: 1.38e9}}})
	}
	s.Trends = []assay.Trend{
		{Of: "output_tokens_per_second", Stage: "hold", Kind: "drift", Slope: assay.Quantity{N: 28, Est: -0.021, Lo: -0.034, Hi: -0.008}, MinEffect: -0.005, P: ptr(0.002), Level: 0.01, Found: assay.Fail, Cause: "gpu_clocks"},
		{Of: assay.EngineResidentMemory, Stage: "hold", Kind: "leak", Slope: assay.Quantity{N: 28, Est: 12000, Lo: -30000, Hi: 51000}, MinEffect: 500000, P: ptr(0.41), Level: 0.01, Found: assay.Pass}}
	s.Sampling = &assay.Sampling{IntervalNS: 100e6, Sources: []string{"nvml", "host", "engine"}, CPUShare: ptr(0.0061)}
	h := &assay.Health{Format: assay.HealthFormat, RunID: s.RunID, NodeID: "node_123", Timestamp: "2026-09-21T14:13:20Z", Verdict: assay.Degraded,
		Because: "GPU 1 lowered its clocks because of heat for 17.1 % of loaded time; output fell by 40 % in step with its clocks.",
		Findings: []assay.Finding{
			{Rule: "sw_thermal", Device: gpus[1].UUID, Verdict: assay.Degraded, Text: "software thermal slowdown for 17.1 % of loaded time, 1 % is allowed", Action: "look at fans, dust and the card above it; take its replicas out meanwhile"},
			{Rule: "throughput_drift", Verdict: assay.Degraded, Text: "output tokens a second fell 2.1 % a minute while clocks fell", Action: "cool the GPU and measure again"}},
		GPUs:     []assay.GPUHealth{{UUID: gpus[0].UUID, Name: gpus[0].Name, Verdict: assay.Pass, Because: "no sign of bad health"}, {UUID: gpus[1].UUID, Name: gpus[1].Name, Index: 1, Verdict: assay.Degraded, Because: "software thermal slowdown"}},
		Hardware: assay.HardwareInfo{GPUModel: word(gpus[0].Name), GPUMemory: word("24GB"), CPUModel: word("AMD Ryzen 9 7950X"), RAM: word("64GB"), GPUCount: 2},
		Score: assay.HealthScore{Overall: ptr(0.78), Latency: ptr(0.92), Throughput: ptr(0.85), Stability: ptr(0.61), Coverage: 0.85,
			Intervals: map[string]assay.Interval{"overall": {Low: 0.74, High: 0.81}, "latency": {Low: 0.89, High: 0.94}, "throughput": {Low: 0.83, High: 0.87}, "stability": {Low: 0.55, High: 0.66}},
			Unknown:   map[string]string{"efficiency": "the baseline has no tokens per joule"}, Weights: map[string]float64{"latency": 0.3, "throughput": 0.3, "stability": 0.25, "efficiency": 0.15},
			Baseline: "rtx4090-llama-3-8b", Stage: "c16",
			Deductions: []assay.Deduction{
				{Part: "stability", Metric: "throttled_share", Measured: 0.171, Expected: 0, Lost: 0.29, Because: "GPU 1 was held back by heat for 17.1 % of loaded time"},
				{Part: "throughput", Metric: "output_tokens_per_second", Measured: 2278, Expected: 2680, Lost: 0.15, Because: "15 % fewer output tokens a second than the baseline"},
				{Part: "latency", Metric: "ttft_p99_ms", Measured: 104, Expected: 88, Lost: 0.08, Because: "p99 TTFT is 18 % above the baseline's"}}},
		Performance: assay.PerformanceMetrics{MaxThroughput: ptr(16.1), AvgLatencyMS: ptr(2496), MeanPowerWatts: ptr(662), MaxGPUUtilization: ptr(1)},
		Cost: assay.CostAnalysis{EnergyCostPerToken: ptr(2.2e-8), RentalCostPerToken: ptr(1.07e-7), TotalCostPerToken: ptr(1.29e-7), Currency: "USD", Utilization: ptr(0.8), EnergyPerMillion: million(0.022), RentalPerMillion: million(0.107), TotalPerMillion: million(0.129),
			Price: million(0.7), Rate: million(0.30), Energy: &assay.EnergySummary{Joules: ptr(420600), Counter: ptr(420600), Integrated: ptr(418200), Disagreement: ptr(0.0057), Idle: ptr(42000)}, Unknown: map[string]string{"rental_cost_per_million_good_tokens": "no --goodput limits were given"}}}
	for u := 1; u <= 10; u++ {
		h.Cost.Curve = append(h.Cost.Curve, assay.CostPoint{Utilization: float64(u) / 10, PerMillion: *million(0.0853 * 10 / float64(u))})
	}
	in.Health = h
	in.Checks = []assay.Check{
		{Name: "identity.catalogue", Device: gpus[0].UUID, Verdict: assay.Pass, Evidence: "128 multiprocessors, 384 bits, 24 GiB: as the catalogue has it", Proves: "what the driver says fits the model's name", DoesNotProve: "that the driver tells the truth"},
		{Name: "compute.product", Device: gpus[1].UUID, Verdict: assay.Unknown, Evidence: "no OpenCL platform"}}
	return in
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if on purpose, run go test -update ./report\n%s", name, got)
	}
}

func TestHealthInText(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, Health(sick())); err != nil {
		t.Fatal(err)
	}
	golden(t, "health.txt", b.Bytes())
	for _, want := range []string{"DEGRADED", "0.78 [0.74, 0.81]", "software thermal slowdown from 8:40 to 10:40", "knee at 21.3", "cliff at 58"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// A node of which nothing is known has a page, and nothing on it is invented.
func TestHealthOfNothing(t *testing.T) {
	for name, in := range map[string]HealthInput{"nothing": {}, "unknown": {Health: &assay.Health{}}} {
		var b bytes.Buffer
		if err := HTML(&b, Health(in)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "unknown" && !strings.Contains(b.String(), `class="verdict v-unknown"`) {
			t.Errorf("an empty health report is not shown as unknown")
		}
		if strings.Contains(b.String(), "NaN") {
			t.Errorf("%s: the page has a NaN", name)
		}
	}
}

func drawings(t *testing.T, page string) []map[string]any {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="charts">`)
	if !ok {
		t.Fatal("the page has no data")
	}
	data, _, _ := strings.Cut(rest, "</script>")
	var out []map[string]any
	if err := json.Unmarshal([]byte(data), &out); err != nil {
		t.Fatalf("the page's data: %v", err)
	}
	return out
}

// Where readings stayed away there is no line, and what was throttled is shaded
// on every chart of a GPU.
func TestHealthDrawings(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, Health(sick())); err != nil {
		t.Fatal(err)
	}
	gaps, shaded, times := 0, 0, 0
	for _, d := range drawings(t, b.String()) {
		if d["time"] != true {
			continue
		}
		times++
		if d["from"] == nil || d["group"] != timeGroup {
			t.Error("a chart over time does not share its axis")
		}
		if d["spans"] != nil {
			shaded++
		}
		for _, l := range d["lines"].([]any) {
			l := l.(map[string]any)
			y := l["y"].([]any)
			if len(y) > mostPoints {
				t.Errorf("%v has %d points", l["name"], len(y))
			}
			for i, v := range y {
				if v == nil && i > 0 && l["name"] == "GPU 0" {
					gaps++
				}
			}
		}
	}
	if gaps != 5 {
		t.Errorf("%d gaps of GPU 0 in its five readings, want 5", gaps)
	}
	if times != 8 || shaded != 8 {
		t.Errorf("%d of %d charts over time are shaded, want 8 of 8", shaded, times)
	}
}
