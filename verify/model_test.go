package verify

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

const gb = float64(1 << 30)

// samples are three equal readings; NaN is not read.
func samples(used, util, watts float64, rows ...GPUProcess) []GPUSample {
	read := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	s := GPUSample{read(used), read(util), read(watts), rows}
	return []GPUSample{s, s, s}
}

func TestModelRan(t *testing.T) {
	no := math.NaN()
	for _, c := range []struct {
		name string
		s    ModelSamples
		want assay.Verdict
		says string
	}{
		{"an honest engine, its processes seen", ModelSamples{
			BeforeLoad: samples(1*gb, 0, 30), Idle: samples(9*gb, 0, 40, GPUProcess{42, 8 * gb}), UnderLoad: samples(9*gb, 0.97, 300, GPUProcess{42, 8 * gb}),
			EnginePIDs: []int{42}, ModelBytes: 7 * gb}, assay.Pass, "own processes hold 8.00 GiB"},
		{"an honest engine in a container, foreign process ids", ModelSamples{
			BeforeLoad: samples(1*gb, 0, 30), Idle: samples(9*gb, 0, 40, GPUProcess{7777, 8 * gb}), UnderLoad: samples(9*gb, 0.97, 300, GPUProcess{7777, 8 * gb}),
			EnginePIDs: []int{42}, ModelBytes: 7 * gb}, assay.Pass, "VRAM +8.00 GiB"},
		{"an honest engine in a container, no rows", ModelSamples{
			BeforeLoad: samples(1*gb, 0, 30), Idle: samples(9*gb, 0, 40), UnderLoad: samples(9*gb, 0.97, 300), EnginePIDs: []int{42}}, assay.Pass, ""},
		{"an engine on the CPU that claims the GPU", ModelSamples{
			BeforeLoad: samples(1*gb, 0, 30), Idle: samples(1*gb, 0, 30), UnderLoad: samples(1*gb, 0.01, 31),
			EnginePIDs: []int{42}, ModelBytes: 7 * gb}, assay.Fail, "VRAM did not rise, utilization and power stayed idle under load"},
		{"the same on an old card without power", ModelSamples{
			BeforeLoad: samples(1*gb, 0, no), Idle: samples(1*gb, 0, no), UnderLoad: samples(1*gb, 0, no)}, assay.Fail, "VRAM did not rise"},
		{"the same, found running: the model does not fit into what is used", ModelSamples{
			Idle: samples(0.5*gb, 0, 30), UnderLoad: samples(0.5*gb, 0, 30), ModelBytes: 7 * gb}, assay.Fail, "the weights alone are 7.00"},
		{"on the CPU, while another tenant uses the GPU", ModelSamples{
			BeforeLoad: samples(8*gb, 0.2, 100), Idle: samples(8*gb, 0.2, 100), UnderLoad: samples(8*gb, 0.9, 250)}, assay.Unknown, "do not decide"},
		{"memory before is not known, activity follows the load", ModelSamples{
			Idle: samples(9*gb, 0, 40), UnderLoad: samples(9*gb, 0.9, 300)}, assay.Pass, "in step with our load"},
		{"memory before is not known, no activity", ModelSamples{
			Idle: samples(9*gb, 0, 40), UnderLoad: samples(9*gb, 0, 40)}, assay.Unknown, "do not decide"},
		{"memory taken and no work", ModelSamples{
			BeforeLoad: samples(1*gb, 0, 30), Idle: samples(9*gb, 0, 40), UnderLoad: samples(9*gb, 0, 40)}, assay.Degraded, "stayed idle"},
		{"memory taken, activity not read", ModelSamples{
			BeforeLoad: samples(1*gb, no, no), Idle: samples(9*gb, no, no), UnderLoad: samples(9*gb, no, no)}, assay.Unknown, "do not decide"},
		{"a part of the layers", ModelSamples{
			BeforeLoad: samples(1*gb, 0, 30), Idle: samples(2*gb, 0, 40), UnderLoad: samples(2*gb, 0.5, 120), ModelBytes: 7 * gb}, assay.Degraded, "only a part"},
		{"no readings", ModelSamples{EnginePIDs: []int{42}, ModelBytes: 7 * gb}, assay.Unknown, "no readings"},
		{"readings without values", ModelSamples{BeforeLoad: samples(no, no, no), Idle: samples(no, no, no), UnderLoad: samples(no, no, no)}, assay.Unknown, "no readings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Device = "gpu0"
			got := modelRan(c.s)
			if got.Verdict != c.want || !strings.Contains(got.Evidence, c.says) || got.Device != "gpu0" || got.Proves == "" || got.DoesNotProve == "" {
				t.Errorf("%v (%s), want %v and %q", got.Verdict, got.Evidence, c.want, c.says)
			}
		})
	}
}

func TestSameAnswers(t *testing.T) {
	for _, c := range []struct {
		answers []string
		want    assay.Verdict
	}{
		{nil, assay.Unknown}, {[]string{"a"}, assay.Unknown}, {[]string{"a", "a"}, assay.Pass},
		{[]string{"a", "b"}, assay.Unknown}, {[]string{"", ""}, assay.Unknown}, {[]string{"a", "a", "b"}, assay.Unknown},
	} {
		got := SameAnswers("Say a.", c.answers, time.Unix(1, 0))
		if got.Verdict != c.want || got.Facts["prompt"] != "Say a." || (got.Proves != "") != (c.want == assay.Pass) {
			t.Errorf("%q: %v (%s), want %v", c.answers, got.Verdict, got.Evidence, c.want)
		}
	}
}
