package verify

import (
	"errors"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestSpeedRules(t *testing.T) {
	const cpu = 100e9
	// A product of the given rate that took 2 s by events and a bit more by the
	// wall.
	at := func(rate float64) *verdictOf {
		return &verdictOf{product: product{N: Size, Repeats: 1, DeviceSeconds: flop(Size) / rate, BestSeconds: flop(Size) / rate, WallSeconds: 1.1 * flop(Size) / rate}}
	}
	model := Model{FP32: 80e12}
	hidden := at(50e12)
	hidden.WallSeconds *= 10
	longer := at(50e12)
	longer.WallSeconds /= 3
	wrong := at(50e12)
	wrong.wrong = errors.New("row 1")
	for _, c := range []struct {
		name  string
		p     *verdictOf
		model Model
		want  assay.Verdict
		says  string
	}{
		{"a good GPU", at(40e12), model, assay.Pass, "50 % of the model's peak"},
		{"a model that is not known", at(40e12), Model{}, assay.Pass, "400.0 times"},
		{"twice the CPU exactly", at(200e9), Model{}, assay.Pass, "2.0 times"},
		{"below twice the CPU", at(199e9), Model{}, assay.Fail, "2 are needed"},
		{"far below the model's peak", at(5e12), model, assay.Degraded, "below 10 %"},
		{"faster than the model can be", at(120e12), model, assay.Fail, "faster than this model can be"},
		{"a device clock that runs slow", hidden, model, assay.Unknown, "clocks"},
		{"a device clock that runs fast", longer, model, assay.Unknown, "clocks"},
		{"a wrong product", wrong, model, assay.Unknown, "says nothing"},
		{"no product", nil, model, assay.Unknown, "not measured: because"},
	} {
		got := speedCheck(c.p, DeviceInfo{}, c.model, cpu, "because")
		if got.Verdict != c.want || !strings.Contains(got.Evidence, c.says) {
			t.Errorf("%s: %v (%s), want %v and %q", c.name, got.Verdict, got.Evidence, c.want, c.says)
		}
	}
}

func TestMemoryRules(t *testing.T) {
	good := memoryResult{Free: 20 << 30, FreeKnown: true, Wanted: 19 << 30, Tested: 19 << 30, Passes: 35, WriteBytes: 100e9, WriteSeconds: 0.2, ReadBytes: 100e9, ReadSeconds: 0.125}
	with := func(f func(*memoryResult)) memoryResult { r := good; f(&r); return r }
	model := Model{Bandwidth: 1000e9}
	for _, c := range []struct {
		name           string
		r              memoryResult
		model          Model
		pattern, speed assay.Verdict
	}{
		{"good", good, model, assay.Pass, assay.Pass},
		{"one wrong word", with(func(r *memoryResult) { r.Wrong = 1 }), model, assay.Fail, assay.Pass},
		{"interrupted", with(func(r *memoryResult) { r.Passes = 34 }), model, assay.Unknown, assay.Pass},
		{"less than was wanted", with(func(r *memoryResult) { r.Tested = 12 << 30 }), model, assay.Degraded, assay.Pass},
		{"slow", with(func(r *memoryResult) { r.ReadSeconds = 0.3 }), model, assay.Pass, assay.Degraded},
		{"too fast", with(func(r *memoryResult) { r.ReadSeconds = 0.05 }), model, assay.Pass, assay.Fail},
		{"no peak", good, Model{}, assay.Pass, assay.Unknown},
		{"fits into a cache", with(func(r *memoryResult) { r.Tested, r.Wanted = 1<<20, 1<<20 }), model, assay.Pass, assay.Unknown},
		{"no time", with(func(r *memoryResult) { r.ReadSeconds = 0 }), model, assay.Pass, assay.Unknown},
	} {
		got := memoryChecks(c.r, true, c.model, "")
		if got[0].Verdict != c.pattern || got[1].Verdict != c.speed {
			t.Errorf("%s: %v and %v (%s; %s), want %v and %v", c.name, got[0].Verdict, got[1].Verdict, got[0].Evidence, got[1].Evidence, c.pattern, c.speed)
		}
	}
	for _, c := range memoryChecks(memoryResult{}, false, model, "it is gone") {
		if c.Verdict != assay.Unknown || !strings.Contains(c.Evidence, "it is gone") {
			t.Errorf("without a result: %+v", c)
		}
	}
}
