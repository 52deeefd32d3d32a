package score

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay"
)

func TestARunBecomesABaselineThatItPasses(t *testing.T) {
	in := healthy(2)
	low := stage("c1", 1)
	low.GoodputPerSecond, low.OutputTokensPerSecond = 10, 60
	in.Summary.Stages = append(in.Summary.Stages, low)
	b, err := FromRun(in.Manifest, in.Summary, "mine")
	if err != nil {
		t.Fatal(err)
	}
	want := assay.Baseline{
		Format: assay.BaselineFormat, Name: "mine", Source: "run 01J", GPUModel: "RTX 4090", GPUCount: 2, Engine: "openai-chat", Model: "m",
		Load: assay.LoadClosed, At: 3, TTFTp99MS: new(60.0), TPOTp50MS: new(8.0), OutputTokensPerSecond: new(271.2), TokensPerJoule: new(271.2 * 290 / (320.0 * 290)),
	}
	if d := cmp.Diff(want, b); d != "" {
		t.Error(d)
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseBaseline(text)
	if err != nil || cmp.Diff(b, back) != "" {
		t.Errorf("%v %s", err, cmp.Diff(b, back))
	}
	in.Baseline = &b
	h := Health(in)
	near(t, "latency", h.Score.Latency, 1)
	near(t, "throughput", h.Score.Throughput, 1)
	near(t, "efficiency", h.Score.Efficiency, 1)
	if len(findings(h, "baseline_differs")) != 0 {
		t.Errorf("%+v", h.Findings)
	}
	// What the run does not carry is null, and not scored.
	for i := range in.Summary.Stages {
		in.Summary.Stages[i].TTFT, in.Summary.Stages[i].Joules = unheld(in.Summary.Stages[i].TTFT), nil
	}
	if b, err = FromRun(in.Manifest, in.Summary, "mine"); err != nil || b.TTFTp99MS != nil || b.TokensPerJoule != nil || b.TPOTp50MS == nil {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestRunsThatAreNoBaseline(t *testing.T) {
	for words, change := range map[string]func(*Input){
		"bottleneck":     func(in *Input) { in.Summary.Client.Certificate = assay.Invalid },
		"no stage":       func(in *Input) { in.Summary.Stages = nil },
		"interrupted":    func(in *Input) { in.Summary.Stages[0].Complete = false },
		"2 % of":         func(in *Input) { in.Summary.Stages[0].ErrorRate = 0.02 },
		"no single load": func(in *Input) { in.Summary.Stages[0].Plan = assay.Stage{Kind: assay.LoadRamp, RateTo: 9} },
	} {
		in := healthy(1)
		change(&in)
		if _, err := FromRun(in.Manifest, in.Summary, "x"); !errors.Is(err, ErrNotABaseline) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func TestBaselineFilesThatAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":      `hello`,
		"other format":  `{"format":"assay/baseline/v2","name":"a","source":"b","ttft_p99_ms":1}`,
		"no name":       `{"format":"assay/baseline/v1","source":"b","ttft_p99_ms":1}`,
		"no source":     `{"format":"assay/baseline/v1","name":"a","ttft_p99_ms":1}`,
		"no figure":     `{"format":"assay/baseline/v1","name":"a","source":"b"}`,
		"zero":          `{"format":"assay/baseline/v1","name":"a","source":"b","ttft_p99_ms":0}`,
		"negative":      `{"format":"assay/baseline/v1","name":"a","source":"b","tokens_per_joule":-1}`,
		"at of nothing": `{"format":"assay/baseline/v1","name":"a","source":"b","at":3,"tokens_per_joule":1}`,
		"more follows":  `{"format":"assay/baseline/v1","name":"a","source":"b","tokens_per_joule":1} {}`,
	} {
		if b, err := ParseBaseline([]byte(text)); err == nil {
			t.Errorf("%s was read as %+v", name, b)
		}
	}
}

func TestTheCatalogueHoldsOnlyPublishedFigures(t *testing.T) {
	list, err := Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if !strings.HasPrefix(b.Source, "https://") || b.GPUModel == "" || b.GPUCount == 0 || b.Model == "" || b.Engine == "" || !(b.At > 0) {
			t.Errorf("%s does not say where and how it was measured", b.Name)
		}
	}
}

// A file made by hand may hold anything that Go can hold.
func TestABaselineOfNonsenseScoresNothing(t *testing.T) {
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		in := healthy(1)
		in.Baseline.TTFTp99MS, in.Baseline.TPOTp50MS, in.Baseline.OutputTokensPerSecond, in.Baseline.TokensPerJoule = &v, &v, &v, &v
		if s := Health(in).Score; s.Latency != nil || s.Throughput != nil || s.Efficiency != nil {
			t.Errorf("%v: %+v", v, s)
		}
	}
}
