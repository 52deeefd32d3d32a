package score

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// newcomer is a node without a baseline, whose only GPU was verified: a 4090 of
// which the product reached 0.45 of the peak and reading 0.8, with a model of
// 4 GB whose token takes 8 ms.
func newcomer() Input {
	in := healthy(1)
	in.Baseline = nil
	in.Manifest.Engine.ModelBytes = 4e9
	in.Checks = []assay.Check{
		{Name: "identity.catalogue", Device: "GPU-a", Verdict: assay.Pass, Values: map[string]float64{"peak_fp32_flops": 82.6e12, "peak_bandwidth_bytes_per_second": 1e12}},
		{Name: "compute.speed", Device: "GPU-a", Verdict: assay.Pass, Values: map[string]float64{"peak_share": 0.45}},
		{Name: "memory.bandwidth", Device: "GPU-a", Verdict: assay.Pass, Values: map[string]float64{"peak_share": 0.8}},
		{Name: "model.execution", Device: "GPU-a", Verdict: assay.Pass},
	}
	return in
}

// without is the input without a check.
func without(in Input, name string) Input {
	in.Checks = filter(in.Checks, func(c assay.Check) bool { return c.Name != name })
	return in
}

func TestANewcomersStartingScore(t *testing.T) {
	h := Health(newcomer())
	s := h.Score
	near(t, "latency", s.Latency, 4.0/8) // 4 GB at 1 TB/s are 4 ms
	near(t, "throughput", s.Throughput, math.Sqrt(0.45*0.8))
	near(t, "stability", s.Stability, 0.995/1.02)
	if s.Efficiency != nil || s.Unknown["efficiency"] == "" {
		t.Errorf("efficiency %v, %q", s.Efficiency, s.Unknown["efficiency"])
	}
	if s.Coverage != 0.75 || s.Against != assay.AgainstCatalogue || s.Baseline != "" {
		t.Errorf("coverage %v, against %q, baseline %q", s.Coverage, s.Against, s.Baseline)
	}
	near(t, "overall", s.Overall, math.Cbrt(0.5*math.Sqrt(0.45*0.8)*0.995/1.02))
	// A share of a peak is no sign of bad health: 0.66 would degrade a node that
	// has a baseline.
	if h.Verdict != assay.Pass || len(findings(h, "score")) > 0 {
		t.Errorf("verdict %s, %+v", h.Verdict, h.Findings)
	}
	for _, d := range s.Deductions {
		if d.Metric == "tpot_p50_ms" && (d.Measured != 8 || d.Expected != 4) {
			t.Errorf("%+v", d)
		}
	}
}

func TestAStartingScoreSaysHowMuchItCovers(t *testing.T) {
	for name, c := range map[string]struct {
		in       Input
		coverage float64
		unknown  string // of overall; empty: it is known
	}{
		"no bandwidth":                {without(newcomer(), "memory.bandwidth"), 0.625, ""},
		"stability and latency":       {without(without(newcomer(), "memory.bandwidth"), "compute.speed"), 0.5, ""},
		"stability and throughput":    {without(newcomer(), "model.execution"), 0.5, ""},
		"stability and compute alone": {without(without(newcomer(), "model.execution"), "memory.bandwidth"), 0.375, "only 37.5 % of the weight"},
		"stability alone":             {Input{Manifest: newcomer().Manifest, Summary: newcomer().Summary}, 0.25, "only 25 % of the weight"},
	} {
		s := Health(c.in).Score
		if s.Coverage != c.coverage || (s.Overall == nil) != (c.unknown != "") || !strings.Contains(s.Unknown["overall"], c.unknown) {
			t.Errorf("%s: coverage %v, want %v; overall %v, %q", name, s.Coverage, c.coverage, s.Overall, s.Unknown["overall"])
		}
	}
	s := Health(without(newcomer(), "memory.bandwidth")).Score
	near(t, "throughput by compute alone", s.Throughput, 0.45)
	if why := s.Unknown["throughput.bandwidth_peak_share"]; !strings.Contains(why, "assay hammer --checks DIR") {
		t.Errorf("it does not say how to measure bandwidth: %q", why)
	}
	// Half of a part weighs half in the whole.
	near(t, "overall", s.Overall, math.Exp((0.25*math.Log(0.5)+0.125*math.Log(0.45)+0.25*math.Log(0.995/1.02))/0.625))
}

// What is not known of the decode speed's allowance leaves latency unknown.
func TestAStartingLatencyNeedsBytesAndBandwidth(t *testing.T) {
	change := func(f func(*Input)) Input {
		in := newcomer()
		f(&in)
		return in
	}
	two := healthy(2)
	two.Baseline, two.Manifest.Engine.ModelBytes, two.Checks = nil, 4e9, newcomer().Checks
	for why, in := range map[string]Input{
		"does not say how many bytes": change(func(in *Input) { in.Manifest.Engine.ModelBytes = 0 }),
		// A whole 8 ms of reading, of which the card holds not all.
		"the GPU holds 22.1GB in total": change(func(in *Input) {
			in.Manifest.Engine.ModelBytes, in.Checks[0].Values[peakBandwidth] = 24e9, 3e12
		}),
		"bandwidth of the card's memory":      without(newcomer(), "identity.catalogue"),
		"nothing shows that the model ran on": without(newcomer(), "model.execution"),
		"laid over 2 GPUs":                    two,
		"faster than the model can be read":   change(func(in *Input) { in.Manifest.Engine.ModelBytes = 12e9 }),
		"TPOT":                                change(func(in *Input) { in.Summary.Stages[0].TPOT = assay.Dist{} }),
	} {
		s := Health(in).Score
		if s.Latency != nil || !strings.Contains(s.Unknown["latency"], why) || !strings.Contains(s.Unknown["latency"], "--save-baseline") {
			t.Errorf("latency %v, %q; want %q", s.Latency, s.Unknown["latency"], why)
		}
	}
	// A check that failed is no measure of anything, and neither is one GPU of two.
	bad := newcomer()
	bad.Checks[1].Verdict = assay.Fail
	if s := Health(without(bad, "memory.bandwidth")).Score; s.Throughput != nil {
		t.Errorf("throughput %v by a check that failed", *s.Throughput)
	}
	if s := Health(two).Score; s.Throughput != nil || !strings.Contains(s.Unknown["throughput"], "GPU 1") {
		t.Errorf("throughput %v, %q", s.Throughput, s.Unknown["throughput"])
	}
}

func TestModelSizeIsComparedWithWhatTheEngineHolds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   []string
	}{
		"nothing is known": {func(*Input) {}, nil},
		"an 8B is meant by 7B": {func(in *Input) {
			in.Manifest.Judge.ModelSize, in.Manifest.Engine.ModelParameters = "7B", 8e9
		}, nil},
		"another model": {func(in *Input) {
			in.Manifest.Judge.ModelSize, in.Manifest.Engine.ModelParameters = "7B", 1.5e9
		}, []string{"for a model of 7B parameters, and the engine serves one of 1.5B"}},
		"weights that are not on the GPU": {func(in *Input) {
			in.Manifest.Engine.ModelBytes = 40 << 30
		}, []string{"its model has 40GB of weights, and all GPUs together hold 22.1GB"}},
		"weights that are": {func(in *Input) { in.Manifest.Engine.ModelBytes = 20 << 30 }, nil},
		"by the profile alone": {func(in *Input) {
			in.Manifest.Judge.ModelSize = "405B"
		}, []string{"a model of 405B parameters, which the workload is for, has at least 94.3GB of weights"}},
		"at two bits a 70B fits": {func(in *Input) { in.Manifest.Judge.ModelSize = "70B" }, nil},
		"an engine elsewhere holds what we do not see": {func(in *Input) {
			in.Manifest.Engine.ModelBytes, in.Checks = 40<<30, nil
		}, nil},
	} {
		in := newcomer()
		in.Manifest.Engine.ModelBytes = 0
		c.change(&in)
		h := Health(in)
		var got []string
		for _, f := range findings(h, "model_size") {
			got = append(got, f.Text)
			if f.Verdict != assay.Unknown {
				t.Errorf("%s: the note has the verdict %s", name, f.Verdict)
			}
		}
		if len(got) != len(c.want) || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(strings.Join(got, "\n"), w) }) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSlowInferenceDegrades(t *testing.T) {
	in := healthy(1)
	in.Summary.Stages[0].Slowed = []assay.Slowed{{At: 1, TokensPerSecond: 40, FirstMinute: 90}, {At: 2, TokensPerSecond: 3, FirstMinute: 90}}
	h := Health(in)
	f := findings(h, "slow_inference")
	if len(f) != 1 || f[0].Verdict != assay.Degraded || h.Verdict != assay.Degraded || !strings.Contains(f[0].Text, "stage c3: 3 tokens") || f[0].Values["times"] != 2 {
		t.Errorf("%s: %+v", h.Verdict, f)
	}
	in.Summary.Stages[0].BacklogGrows = true // too much was asked: that is not the engine's
	if f := findings(Health(in), "slow_inference"); len(f) > 0 {
		t.Errorf("%+v", f)
	}
	in.Summary.Stages[0].BacklogGrows = false
	in.Summary.Client.Certificate = assay.Invalid
	if f := findings(Health(in), "slow_inference"); len(f) > 0 {
		t.Errorf("with the client as the bottleneck: %+v", f)
	}
}

// docs/health.md names the baselines that are shipped, all of them and no other,
// and says of them what is so.
func TestHealthPageAndCatalogueAgree(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "health.md"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	var shipped []string
	for _, b := range list {
		shipped = append(shipped, b.Name)
		if b.TTFTp99MS != nil || b.TPOTp50MS != nil || b.OutputTokensPerSecond == nil || !(b.At > 0) {
			t.Errorf("%s: docs/health.md says that shipped baselines have throughput at a stated load, and no latency", b.Name)
		}
	}
	_, section, _ := strings.Cut(string(page), "\n## Baselines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, m := range regexp.MustCompile("`(nim-[^`]+)`").FindAllStringSubmatch(section, -1) {
		named = append(named, m[1])
	}
	slices.Sort(shipped)
	slices.Sort(named)
	if !slices.Equal(named, shipped) {
		t.Errorf("docs/health.md names %q, shipped are %q", named, shipped)
	}
}
