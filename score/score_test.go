package score

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestANodeHeldAgainstItselfLosesOnlyWhatIsUnsteady(t *testing.T) {
	s := Health(healthy(1)).Score
	near(t, "latency", s.Latency, 1)
	near(t, "throughput", s.Throughput, 1)
	near(t, "efficiency", s.Efficiency, 1)
	near(t, "stability", s.Stability, 0.995/1.02)
	near(t, "overall", s.Overall, math.Pow(0.995/1.02, 0.25))
	if s.Coverage != 1 || s.Stage != "c3" || s.Baseline != "own" {
		t.Errorf("coverage %v, stage %q, baseline %q", s.Coverage, s.Stage, s.Baseline)
	}
}

func TestPartsAgainstTheBaseline(t *testing.T) {
	in := healthy(1)
	in.Baseline.TTFTp99MS = new(30.0)              // half of what is measured
	in.Baseline.TPOTp50MS = new(16.0)              // twice: no more than 1
	in.Baseline.OutputTokensPerSecond = new(542.4) // twice
	in.Baseline.TokensPerJoule = new(271.2 / 320 * 4)
	s := Health(in).Score
	near(t, "latency", s.Latency, math.Sqrt(0.5))
	near(t, "throughput", s.Throughput, 0.5)
	near(t, "efficiency", s.Efficiency, 0.25)
	near(t, "overall", s.Overall, math.Pow(math.Sqrt(0.5)*0.5*0.25*0.995/1.02, 0.25))
	for _, d := range s.Deductions {
		if d.Metric == "ttft_p99_ms" && (d.Measured != 60 || d.Expected != 30 || d.Because == "") {
			t.Errorf("%+v", d)
		}
	}
}

func TestStabilityIsAProduct(t *testing.T) {
	in := healthy(1)
	in.Summary.Restarts = 2
	in.Summary.GPUs[0].Throttled["sw_thermal"] = 0.1
	in.Summary.GPUs[0].Throttled["hw_thermal"] = 0.3
	slope := func(v float64) assay.Quantity { return assay.Quantity{N: 100, Est: v, Lo: v, Hi: v} }
	in.Summary.Trends = []assay.Trend{
		{Of: "output_tokens_per_second", Stage: "c3", Kind: "drift", Found: assay.Fail, Slope: slope(-0.01)},
		{Of: "ttft_ms", Stage: "c3", Kind: "drift", Found: assay.Fail, Slope: slope(0.03)},
		{Of: assay.GPUMemoryUsed, Device: "GPU-a", Kind: "leak", Found: assay.Fail, Slope: slope(24 << 20)},
	}
	want := 0.995 / 1.02 * 0.25 * 0.7 / (1 + 0.03*290/60) / (1 + 1440.0/1024)
	near(t, "stability", Health(in).Score.Stability, want)
	// A drift that was looked for and not found costs nothing, however steep.
	in.Summary.Trends[1].Found = assay.Pass
	in.Summary.Trends[0].Found = assay.Unknown
	near(t, "stability", Health(in).Score.Stability, 0.995/1.02*0.25*0.7/(1+1440.0/1024))
}

func TestDeductionsAddUpToWhatAPartLost(t *testing.T) {
	in := healthy(2)
	in.Baseline.TTFTp99MS, in.Baseline.TPOTp50MS = new(33.0), new(5.0)
	in.Baseline.TokensPerJoule, in.Baseline.OutputTokensPerSecond = new(2.0), new(300.0)
	in.Summary.Restarts = 1
	in.Summary.GPUs[1].Throttled["sw_thermal"] = 0.2
	for _, errors := range []float64{0.02, 1} { // at 1 stability is zero
		in.Summary.Stages[0].ErrorRate = errors
		s := Health(in).Score
		lost := map[string]float64{}
		for _, d := range s.Deductions {
			lost[d.Part] += d.Lost
			if d.Because == "" || !(d.Lost > 0) {
				t.Errorf("%+v says nothing", d)
			}
		}
		for name, v := range map[string]*float64{"latency": s.Latency, "throughput": s.Throughput, "stability": s.Stability, "efficiency": s.Efficiency} {
			if !(math.Abs(1-*v-lost[name]) <= 1e-9) {
				t.Errorf("%s is %v, deductions are %v", name, *v, lost[name])
			}
		}
	}
}

func TestWithoutABaselineOnlyStabilityIsScoredAndTheRestSaysHowToMakeOne(t *testing.T) {
	in := healthy(1)
	in.Baseline = nil
	h := Health(in)
	s := h.Score
	if s.Latency != nil || s.Throughput != nil || s.Efficiency != nil || s.Overall != nil || s.Stability == nil {
		t.Errorf("%+v", s)
	}
	for _, p := range []string{"latency", "throughput", "efficiency"} {
		if !strings.Contains(s.Unknown[p], "assay hammer --save-baseline FILE") {
			t.Errorf("%s: %q", p, s.Unknown[p])
		}
	}
	if s.Coverage != 0.25 || s.Unknown["overall"] == "" || h.Verdict != assay.Pass {
		t.Errorf("coverage %v, overall %q, verdict %s", s.Coverage, s.Unknown["overall"], h.Verdict)
	}
}

func TestAP99ThatTheSamplesDoNotCarryIsNotScored(t *testing.T) {
	in := healthy(1)
	in.Summary.Stages[0].TTFT = unheld(in.Summary.Stages[0].TTFT)
	s := Health(in).Score
	if s.Latency != nil || !strings.Contains(s.Unknown["latency"], "needs 368 effective samples and has 80") {
		t.Errorf("latency %v, %q", s.Latency, s.Unknown["latency"])
	}
	if s.Coverage != 0.75 {
		t.Errorf("coverage %v", s.Coverage)
	}
	near(t, "overall", s.Overall, math.Cbrt(0.995/1.02)) // its weight is shared out
	// A baseline that has no p99 does not ask for one.
	in.Baseline.TTFTp99MS = nil
	near(t, "latency", Health(in).Score.Latency, 1)
}

func TestWithoutTheBaselinesLoadThereIsNoLatencyAndTheBestThroughput(t *testing.T) {
	in := healthy(1)
	in.Baseline.At, in.Baseline.OutputTokensPerSecond = 8, new(542.4)
	low := stage("c1", 1)
	low.OutputTokensPerSecond, low.GoodputPerSecond, low.ErrorRate = 100, 10, 0.008
	in.Summary.Stages = append(in.Summary.Stages, low)
	s := Health(in).Score
	if s.Latency != nil || !strings.Contains(s.Unknown["latency"], "run 8 streams") {
		t.Errorf("latency %v, %q", s.Latency, s.Unknown["latency"])
	}
	near(t, "throughput", s.Throughput, 0.5)
	near(t, "stability", s.Stability, 0.992/1.02) // of the worst stage
	// Within one part in a hundred it is the same load.
	in.Baseline.At = 3.02
	if s := Health(in).Score; s.Latency == nil {
		t.Error(s.Unknown["latency"])
	}
}

func TestRepeatedRunsCountByTheirMedian(t *testing.T) {
	in := healthy(1)
	in.Summary.Stages = nil
	for i, rate := range []float64{271.2, 135.6, 27.12} {
		s := stage("c3", 3)
		s.Name, s.Plan.Run, s.OutputTokensPerSecond = s.Name+string(rune('1'+i)), i+1, rate
		in.Summary.Stages = append(in.Summary.Stages, s)
	}
	near(t, "throughput", Health(in).Score.Throughput, 0.5)
}

func TestOnlyTokensThatKeptTheLimitsCount(t *testing.T) {
	in := healthy(1)
	in.Manifest.Judge.Goodput = []assay.Limit{{Metric: "ttft", MaxMS: 50}}
	in.Summary.Stages[0].GoodShare = 0.4
	near(t, "throughput", Health(in).Score.Throughput, 0.4)
}

func TestAClientThatWasTheBottleneckScoresNothing(t *testing.T) {
	in := healthy(1)
	in.Summary.Client.Certificate = assay.Invalid
	s := Health(in).Score
	if s.Overall != nil || s.Stability != nil || s.Latency != nil || s.Coverage != 0 || len(s.Unknown) != 5 {
		t.Errorf("%+v", s)
	}
}

func TestIntervalsAreOfJointReplicates(t *testing.T) {
	in := healthy(1)
	r := &assay.Replicates{Windows: 290}
	for i := range 200 {
		// Latency and throughput move against each other: together they cancel.
		x := 1 + float64(i)/199
		r.TTFTp99MS = append(r.TTFTp99MS, 60*x)
		r.TPOTp50MS = append(r.TPOTp50MS, 8*x)
		r.OutputTokensPerSecond = append(r.OutputTokensPerSecond, 271.2*x/2)
		r.ErrorRate = append(r.ErrorRate, 0.005)
	}
	in.Summary.Stages[0].Replicates = r
	s := Health(in).Score
	lat, thr, all := s.Intervals["latency"], s.Intervals["throughput"], s.Intervals["overall"]
	if !(lat.Low <= 0.52 && lat.High >= 0.96 && thr.Low <= 0.53 && thr.High >= 0.97) {
		t.Errorf("latency %+v, throughput %+v", lat, thr)
	}
	if !(all.High-all.Low <= 1e-9) {
		t.Errorf("overall %+v: the replicates were not joined", all)
	}
	if _, ok := s.Intervals["efficiency"]; !ok {
		t.Error("a part that does not vary has an interval all the same")
	}
	in.Summary.Stages[0].Replicates = nil
	if s := Health(in).Score; len(s.Intervals) != 0 || s.Unknown["intervals"] == "" {
		t.Errorf("%+v", s.Intervals)
	}
}

func TestANodeWithoutGPUReadingsHasNoInventedNumber(t *testing.T) {
	in := healthy(1)
	with := Health(in).Score
	in.Summary.GPUs, in.Manifest.Node.GPUs, in.Summary.Energy = nil, nil, nil
	in.Summary.Stages[0].Joules = nil
	in.Terms = terms(t, "0.35", "0.30")
	h := Health(in)
	s := h.Score
	if s.Efficiency != nil || s.Unknown["efficiency"] == "" || !(s.Coverage < with.Coverage) {
		t.Errorf("efficiency %v (%q), coverage %v", s.Efficiency, s.Unknown["efficiency"], s.Coverage)
	}
	if s.Unknown["stability.throttled_share"] == "" {
		t.Error("stability does not say that throttling was not read")
	}
	p, c := h.Performance, h.Cost
	if p.MaxGPUUtilization != nil || p.PeakMemoryUsage != nil || p.PeakMemoryBytes != nil || p.MaxTemperature != nil || p.MeanPowerWatts != nil || p.TokensPerJoule != nil {
		t.Errorf("performance has a number that nobody read: %+v", p)
	}
	if c.EnergyCostPerToken != nil || c.EnergyPerMillion != nil || c.TotalCostPerToken != nil || c.Energy != nil || c.RentalCostPerToken == nil {
		t.Errorf("cost has a number that nobody read: %+v", c)
	}
	if h.Hardware.GPUModel != nil || h.Hardware.GPUMemory != nil || h.Hardware.GPUCount != 0 || len(h.GPUs) != 0 {
		t.Errorf("%+v", h.Hardware)
	}
	if h.Verdict != assay.Unknown {
		t.Errorf("verdict is %s", h.Verdict)
	}
}

// A stage without a steady window has a latency and an error rate, and nothing
// that is judged inside the window: throughput, efficiency, stability, and the
// price that follows from throughput.
func TestWithoutASteadyWindowThroughputIsUnknown(t *testing.T) {
	in := healthy(1)
	in.Terms.Price = &assay.Money{Nano: 350_000_000, Currency: "USD"}
	st := &in.Summary.Stages[0]
	st.RatesOf, st.WindowWhy, st.SteadyFrom, st.SteadyTo = assay.RatesOfWhole, "all requests were sent at once: the load only falls", 0, 0
	st.Joules, st.WindowCV, in.Summary.Trends = nil, nil, nil
	h := Health(in)
	if h.Score.Throughput != nil || h.Score.Stability != nil || h.Score.Efficiency != nil || h.Score.Latency == nil {
		t.Errorf("%+v", h.Score)
	}
	for _, part := range []string{"throughput", "stability", "efficiency"} {
		if why := h.Score.Unknown[part]; !strings.Contains(why, "at once") {
			t.Errorf("%s is unknown because %q", part, why)
		}
	}
	if h.Cost.RentalCostPerToken != nil || !strings.Contains(h.Cost.Unknown["rental_cost_per_token"], "at once") {
		t.Errorf("%+v", h.Cost)
	}
	if h.Performance.RatesOf != assay.RatesOfWhole || h.Performance.OutputTokensPerSecond == nil {
		t.Errorf("%+v", h.Performance)
	}
	in = healthy(1)
	in.Terms.Price = &assay.Money{Nano: 350_000_000, Currency: "USD"}
	if h := Health(in); h.Cost.RentalCostPerToken == nil || h.Performance.RatesOf != "" {
		t.Errorf("with a window: %+v", h.Cost)
	}
}
