package telemetry

import (
	"context"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// BenchmarkPoll prints what reading costs this process at the default interval,
// in percent of one core: go test -run '^$' -bench Poll ./telemetry. The engine's
// page is served by the same process unless ASSAY_LLAMACPP_URL names an engine,
// which makes the figure an upper bound.
func BenchmarkPoll(b *testing.B) {
	engine := os.Getenv("ASSAY_LLAMACPP_URL")
	if engine == "" {
		engine, _ = serve(b, "vllm.txt")
	}
	sources := map[string]func() (Source, error){
		"host":   func() (Source, error) { return NewHost(HostOptions{}) },
		"engine": func() (Source, error) { return NewEngine(b.Context(), EngineOptions{URL: engine}) },
		"smi": func() (Source, error) {
			return NewSMI(b.Context(), SMIOptions{Path: fakeSMI(b, "h100-sxm-550"), Interval: 100 * time.Millisecond})
		},
		"amdgpu": func() (Source, error) {
			return NewAMDGPU(b.Context(), AMDGPUOptions{SysRoot: tree(b, "testdata/amdgpu/mi300x.txtar")})
		},
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		b.Run(name, func(b *testing.B) { pollCost(b, sources[name]) })
	}
	b.Run("all", func(b *testing.B) {
		var every []func() (Source, error)
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			every = append(every, sources[name])
		}
		pollCost(b, every...)
	})
}

// pollCost polls for b.N intervals.
func pollCost(b *testing.B, sources ...func() (Source, error)) {
	const interval = 100 * time.Millisecond
	var open []Source
	for _, source := range sources {
		s, err := source()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		open = append(open, s)
	}
	time.Sleep(time.Second) // what a start costs is not the question
	before, err := cpuSeconds()
	if err != nil {
		b.Skip(err)
	}
	b.ResetTimer()
	began := time.Now()
	ctx, cancel := context.WithTimeout(b.Context(), time.Duration(b.N)*interval)
	defer cancel()
	n := 0
	Poll(ctx, interval, func() int64 { return 0 }, open, func(assay.Reading) { n++ }, func(err error) { b.Error(err) })
	took := time.Since(began)
	after, err := cpuSeconds()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(100*(after-before)/took.Seconds(), "%core")
	b.ReportMetric(float64(n)/took.Seconds(), "readings/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkExport writes a page.
func BenchmarkExport(b *testing.B) {
	e, _ := exportFixture(true)
	for b.Loop() {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}
