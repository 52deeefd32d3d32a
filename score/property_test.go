package score

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

// Each property is tried on this many generated runs, of which there are
// then more than ten thousand in total.
const casesEach = 2500

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue && !testing.Short() {
		if err := f.Value.Set(fmt.Sprint(casesEach)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func between(t *rapid.T, name string, lo, hi float64) float64 {
	return rapid.Float64Range(lo, hi).Draw(t, name)
}

func maybe(t *rapid.T, name string, lo, hi float64) *float64 {
	if rapid.Bool().Draw(t, name+" known") {
		return new(between(t, name, lo, hi))
	}
	return nil
}

// generated is a run as it might be: any number of GPUs and stages, with and
// without a baseline, energy, replicates, trends and terms.
func generated(t *rapid.T) Input {
	in := healthy(rapid.IntRange(0, 4).Draw(t, "GPUs"))
	for i := range in.Summary.GPUs {
		g := &in.Summary.GPUs[i]
		for _, r := range badReasons {
			if !rapid.Bool().Draw(t, "reason read") {
				delete(g.Throttled, r.key)
			} else if rapid.Bool().Draw(t, "throttled") {
				g.Throttled[r.key] = between(t, "share", 0, 1)
			}
		}
		if rapid.Bool().Draw(t, "xid") {
			g.XIDs[fmt.Sprint(rapid.IntRange(1, 160).Draw(t, "number"))] = 1
		}
	}
	in.Summary.Stages = nil
	for i := range rapid.IntRange(1, 4).Draw(t, "stages") {
		s := stage(fmt.Sprintf("s%d", i), rapid.IntRange(1, 4).Draw(t, "streams"))
		s.TTFT = dist(between(t, "ttft", 1, 1e4), 1, between(t, "ttft99", 1, 1e5))
		s.TPOT = dist(between(t, "tpot", 1, 1e3), between(t, "tpot50", 0.1, 1e3), 2e3)
		if rapid.IntRange(0, 3).Draw(t, "few") == 0 {
			s.TTFT = unheld(s.TTFT)
		}
		s.OutputTokensPerSecond = between(t, "rate", 0, 1e5)
		s.GoodputPerSecond = between(t, "goodput", 0, 1e3)
		s.GoodShare = between(t, "good", 0, 1)
		s.ErrorRate = between(t, "errors", 0, 1)
		s.WindowCV, s.Joules = maybe(t, "cv", 0, 3), maybe(t, "joules", 1, 1e7)
		if rapid.Bool().Draw(t, "replicates") {
			r := &assay.Replicates{}
			for range 5 {
				r.TTFTp99MS = append(r.TTFTp99MS, between(t, "r", 1, 1e5))
				r.TPOTp50MS = append(r.TPOTp50MS, between(t, "r", 0.1, 1e3))
				r.OutputTokensPerSecond = append(r.OutputTokensPerSecond, between(t, "r", 0, 1e5))
				r.ErrorRate = append(r.ErrorRate, between(t, "r", 0, 1))
				if s.Joules != nil {
					r.TokensPerJoule = append(r.TokensPerJoule, between(t, "r", 0, 10))
				}
			}
			s.Replicates = r
		}
		in.Summary.Stages = append(in.Summary.Stages, s)
	}
	found := rapid.SampledFrom([]assay.Verdict{assay.Unknown, assay.Pass, assay.Fail})
	in.Summary.Trends = []assay.Trend{
		{Of: "output_tokens_per_second", Kind: "drift", Stage: "s0", Found: found.Draw(t, "drift"), Slope: assay.Quantity{N: 99, Est: -between(t, "slope", 0, 1)}},
		{Of: assay.EngineResidentMemory, Kind: "leak", Stage: "s0", Found: found.Draw(t, "leak"), Slope: assay.Quantity{N: 99, Est: between(t, "slope", 0, 1e9)}},
	}
	if len(in.Summary.GPUs) > 0 {
		in.Summary.Trends = append(in.Summary.Trends, assay.Trend{Of: assay.GPUMemoryUsed, Device: in.Summary.GPUs[0].UUID, Kind: "leak", Found: found.Draw(t, "leak"), Slope: assay.Quantity{N: 99, Est: between(t, "slope", 0, 1e9)}})
	}
	in.Summary.Restarts = rapid.IntRange(0, 3).Draw(t, "restarts")
	if rapid.Bool().Draw(t, "limits") {
		in.Manifest.Judge.Goodput = []assay.Limit{{Metric: "ttft", MaxMS: 100}}
	}
	if rapid.IntRange(0, 9).Draw(t, "baseline") == 0 {
		in.Baseline = nil
	} else {
		in.Baseline.At = float64(rapid.IntRange(0, 5).Draw(t, "at"))
		in.Baseline.TTFTp99MS, in.Baseline.TPOTp50MS = maybe(t, "base ttft", 1, 1e5), maybe(t, "base tpot", 0.1, 1e3)
		in.Baseline.OutputTokensPerSecond, in.Baseline.TokensPerJoule = maybe(t, "base rate", 0.1, 1e5), maybe(t, "base joule", 1e-3, 1e3)
	}
	if rapid.Bool().Draw(t, "terms") {
		in.Terms = Terms{Price: &assay.Money{Nano: rapid.Int64Range(0, 1e12).Draw(t, "price"), Currency: "EUR"}, EnergyRate: &assay.Money{Nano: rapid.Int64Range(0, 1e10).Draw(t, "energy"), Currency: "EUR"}}
	}
	return in
}

func partsOf(s assay.HealthScore) map[string]*float64 {
	return map[string]*float64{"overall": s.Overall, "latency": s.Latency, "throughput": s.Throughput, "stability": s.Stability, "efficiency": s.Efficiency}
}

func TestPropertyPartsLieBetweenZeroAndOneAndAreExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Health(generated(t)).Score
		lost := map[string]float64{}
		for _, d := range s.Deductions {
			lost[d.Part] += d.Lost
		}
		for name, p := range partsOf(s) {
			switch {
			case p == nil && s.Unknown[name] == "":
				t.Fatalf("%s is null and does not say why", name)
			case p == nil:
				continue
			case !(*p >= 0 && *p <= 1):
				t.Fatalf("%s is %v", name, *p)
			case name != "overall" && !(math.Abs(1-*p-lost[name]) <= 1e-9):
				t.Fatalf("%s is %v, and %v is explained", name, *p, lost[name])
			}
		}
		for name, i := range s.Intervals {
			if !(i.Low >= 0 && i.Low <= i.High && i.High <= 1) {
				t.Fatalf("the interval of %s is %v", name, i)
			}
		}
		if (s.Overall == nil) != (s.Coverage < minCoverage) {
			t.Fatalf("coverage %v, overall %v", s.Coverage, s.Overall)
		}
	})
}

// worsen makes one metric of one stage, GPU or trend worse.
func worsen(t *rapid.T, in *Input) string {
	s := &in.Summary.Stages[rapid.IntRange(0, len(in.Summary.Stages)-1).Draw(t, "stage")]
	k := between(t, "by", 1, 10)
	kinds := []string{"ttft", "tpot", "rate", "errors", "cv", "joules", "restarts", "slope", "good share"}
	if len(in.Summary.GPUs) > 0 {
		kinds = append(kinds, "throttled")
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "metric")
	switch kind {
	case "ttft":
		s.TTFT.Percentiles[1].Value *= k
	case "tpot":
		s.TPOT.Percentiles[0].Value *= k
	case "rate":
		s.OutputTokensPerSecond /= k
	case "errors":
		s.ErrorRate = min(1, s.ErrorRate*k)
	case "cv":
		if s.WindowCV != nil {
			s.WindowCV = new(*s.WindowCV * k)
		}
	case "joules":
		if s.Joules != nil {
			s.Joules = new(*s.Joules * k)
		}
	case "restarts":
		in.Summary.Restarts++
	case "slope":
		in.Summary.Trends[rapid.IntRange(0, len(in.Summary.Trends)-1).Draw(t, "trend")].Slope.Est *= k
	case "good share":
		s.GoodShare /= k
	case "throttled":
		g := in.Summary.GPUs[0]
		for key, v := range g.Throttled {
			g.Throttled[key] = min(1, v*k)
		}
	}
	return kind
}

func TestPropertyAWorseMetricNeverRaisesAPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := generated(t)
		before := partsOf(Health(in).Score)
		kind := worsen(t, &in)
		for name, after := range partsOf(Health(in).Score) {
			if (after == nil) != (before[name] == nil) {
				t.Fatalf("worse %s made %s known or unknown", kind, name)
			}
			if after != nil && !(*after <= *before[name]+1e-12) {
				t.Fatalf("worse %s raised %s from %v to %v", kind, name, *before[name], *after)
			}
		}
	})
}

func TestPropertyTheScoreHasNoUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := generated(t)
		before := partsOf(Health(in).Score)
		ms, tokens, joules := between(t, "time", 1e-3, 1e3), between(t, "tokens", 1e-3, 1e3), between(t, "energy", 1e-3, 1e3)
		scale := func(p *float64, k float64) *float64 {
			if p == nil {
				return nil
			}
			return new(*p * k)
		}
		for i := range in.Summary.Stages {
			s := &in.Summary.Stages[i]
			s.TTFT.Percentiles[1].Value *= ms
			s.TPOT.Percentiles[0].Value *= ms
			s.OutputTokensPerSecond *= tokens
			s.Joules = scale(s.Joules, joules)
		}
		if b := in.Baseline; b != nil {
			b.TTFTp99MS, b.TPOTp50MS = scale(b.TTFTp99MS, ms), scale(b.TPOTp50MS, ms)
			b.OutputTokensPerSecond, b.TokensPerJoule = scale(b.OutputTokensPerSecond, tokens), scale(b.TokensPerJoule, tokens/joules)
		}
		for name, after := range partsOf(Health(in).Score) {
			if (after == nil) != (before[name] == nil) || after != nil && !(math.Abs(*after-*before[name]) <= 1e-9) {
				t.Fatalf("%s changed with the units", name)
			}
		}
	})
}

func TestPropertyTheReportDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := generated(t)
		for i := range rapid.IntRange(0, 4).Draw(t, "checks") {
			in.Checks = append(in.Checks, assay.Check{Name: rapid.SampledFrom([]string{"compute.product", "identity.catalogue", "memory.pattern"}).Draw(t, "check"), Device: fmt.Sprintf("GPU-%c", 'a'+i), Verdict: assay.Verdict(rapid.IntRange(0, 3).Draw(t, "verdict"))})
		}
		before := Health(in)
		in.Summary.Stages = rapid.Permutation(in.Summary.Stages).Draw(t, "stages")
		in.Summary.GPUs = rapid.Permutation(in.Summary.GPUs).Draw(t, "GPUs")
		in.Manifest.Node.GPUs = rapid.Permutation(in.Manifest.Node.GPUs).Draw(t, "cards")
		in.Summary.Trends = rapid.Permutation(in.Summary.Trends).Draw(t, "trends")
		in.Checks = rapid.Permutation(in.Checks).Draw(t, "checks")
		if d := cmp.Diff(before, Health(in)); d != "" {
			t.Fatal(d)
		}
	})
}

func TestPropertyANodeWithoutReadingsHasNoInventedNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := generated(t)
		before := Health(in).Score
		in.Summary.GPUs, in.Summary.Energy = nil, nil
		for i := range in.Summary.Stages {
			in.Summary.Stages[i].Joules = nil
		}
		h := Health(in)
		if h.Score.Efficiency != nil || h.Score.Coverage > before.Coverage || before.Efficiency != nil && h.Score.Coverage >= before.Coverage {
			t.Fatalf("efficiency %v, coverage %v after %v", h.Score.Efficiency, h.Score.Coverage, before.Coverage)
		}
		if h.Verdict == assay.Pass || h.Cost.EnergyCostPerToken != nil || h.Performance.MaxGPUUtilization != nil || h.Performance.MeanPowerWatts != nil {
			t.Fatalf("%s %+v %+v", h.Verdict, h.Cost, h.Performance)
		}
	})
}

// Whatever a summary holds, the report can be written and stays in range.
func TestPropertyNonsenseInGivesNoNonsenseOut(t *testing.T) {
	wild := rapid.SampledFrom([]float64{0, -1, 1e308, -1e308, 5e-324, math.NaN(), math.Inf(1), math.Inf(-1), 0.5})
	rapid.Check(t, func(t *rapid.T) {
		in := generated(t)
		draw := func(p *float64) {
			if rapid.Bool().Draw(t, "wild") {
				*p = wild.Draw(t, "value")
			}
		}
		for i := range in.Summary.Stages {
			s := &in.Summary.Stages[i]
			for _, p := range []*float64{&s.ErrorRate, &s.OutputTokensPerSecond, &s.GoodShare, &s.GoodputPerSecond, &s.TTFT.Percentiles[1].Value, &s.TPOT.Percentiles[0].Value, &s.E2E.Mean, &s.Plan.Utilization, &s.InputTokens.Mean, &s.OutputTokens.Mean} {
				draw(p)
			}
			if s.Joules != nil {
				draw(s.Joules)
			}
			if s.WindowCV != nil {
				draw(s.WindowCV)
			}
			if s.Replicates != nil {
				draw(&s.Replicates.TTFTp99MS[3])
				draw(&s.Replicates.ErrorRate[4])
			}
		}
		for i := range in.Summary.GPUs {
			g := &in.Summary.GPUs[i]
			draw(&g.LoadedSeconds)
			draw(g.ReplaysPerMinute)
			for k := range g.Throttled {
				g.Throttled[k] = wild.Draw(t, "share")
			}
			for k, s := range g.Stats {
				draw(&s.Max)
				draw(&s.Last)
				draw(&s.Mean)
				g.Stats[k] = s
			}
		}
		for i := range in.Summary.Trends {
			draw(&in.Summary.Trends[i].Slope.Est)
			if rapid.Bool().Draw(t, "tested") {
				in.Summary.Trends[i].P = new(float64)
				draw(in.Summary.Trends[i].P)
			}
		}
		h := Health(in)
		if _, err := json.Marshal(h); err != nil {
			t.Fatalf("%v in %+v", err, h)
		}
		for name, p := range partsOf(h.Score) {
			if p != nil && !(*p >= 0 && *p <= 1) {
				t.Fatalf("%s is %v", name, *p)
			}
		}
	})
}
