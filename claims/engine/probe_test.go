package engine

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/simulate"
)

func simulated(t *testing.T, c simulate.Config) string {
	t.Helper()
	e, err := simulate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		<-done
		e.Close()
	})
	return "http://" + ln.Addr().String()
}

// measured asks again while other work on this machine makes the client late.
func measured(t *testing.T, sample func(context.Context) (claims.Measurement, error)) claims.Measurement {
	t.Helper()
	for range 5 {
		m, err := sample(t.Context())
		if err == nil {
			return m
		}
		if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "bottleneck") {
			t.Fatal(err)
		}
		t.Log(err)
	}
	t.Skip("the machine is too busy to measure on")
	return claims.Measurement{}
}

// The engine's truth is known: 20 ms to the first token, 1 ms for each other.
// The bounds are wide, as the machine may be busy; a wrong unit or a wrong field
// leaves them.
func TestInferenceProbes(t *testing.T) {
	url := simulated(t, simulate.Config{TTFT: 20 * time.Millisecond, ITL: time.Millisecond})
	bounds := map[string]struct {
		low, high float64
		n         int
	}{
		"inference/ttft": {0.019, 0.5, 10},
		"inference/ttfo": {0.019, 0.5, 10},
		"inference/e2e":  {0.080, 0.8, 10},
		"inference/tpot": {0.0009, 0.01, 10},
		"inference/itl":  {0, 0.5, 100},
		"inference/output_tokens_per_second_per_user": {100, 1100, 10},
		"inference/requests_per_second":               {10, 200, 1},
		"inference/output_tokens_per_second":          {640, 12800, 1},
		"inference/total_tokens_per_second":           {3200, 64000, 1},
		"inference/error_rate":                        {0, 0, 1},
	}
	for _, p := range Probes() {
		t.Run(p.Name, func(t *testing.T) {
			b, ok := bounds[p.Name]
			if !ok {
				t.Fatal("no bounds")
			}
			if testing.Short() && b.n == 10 && p.Name != "inference/ttft" {
				t.Skip("it takes three seconds, and ttft does the same")
			}
			dir := t.TempDir()
			r, err := p.Start(t.Context(), claims.Env{Dir: dir, EngineURL: url, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("the directory still holds %v", left)
				}
			})
			for range b.n {
				if m := measured(t, r.Sample); m.Value < b.low || m.Value > b.high || m.Batch > 1 {
					t.Errorf("%+v is not between %g and %g", m, b.low, b.high)
				}
			}
		})
	}
}

// Each judged request is one sample; warm-ups and failures are none.
func TestInferenceSamplesAreTheJudgedRequests(t *testing.T) {
	url := simulated(t, simulate.Config{TTFT: time.Millisecond, ITL: 100 * time.Microsecond, Faults: simulate.Faults{StreamError: 0.3}})
	r, err := newEngineRuns(t.Context(), claims.Env{Dir: t.TempDir(), EngineURL: url, Seed: 1}, inferenceMetrics()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.cfg.Load.Warmups = 20
	m := measured(t, r.Sample)
	ok := int(m.Extra["run_requests"] - m.Extra["run_failed"])
	if got := len(r.left) + 1; got != ok || m.Extra["run_failed"] == 0 {
		t.Errorf("%d samples; %v", got, m.Extra)
	}
}

func TestInferenceGaps(t *testing.T) {
	for _, c := range []struct {
		name string
		r    assay.Request
		want []float64
	}{
		{"all", assay.Request{Gaps: []int32{1000, 2000}}, []float64{0.001, 0.002}},
		{"into a merged read, and out of it", assay.Request{Gaps: []int32{1000, assay.MarkGap(5), 2000, 3000}}, []float64{0.001, 0.002, 0.003}},
		{"the first was merged", assay.Request{FirstMerged: true, Gaps: []int32{assay.MarkGap(0), 1000, 2000}}, []float64{0.001, 0.002}},
		{"three came together", assay.Request{Gaps: []int32{0, 1000, 2000}, ChunkTokens: []int32{1, 1, 3, 1}}, []float64{0.001, 0, 0, 0.002}},
	} {
		var got []float64
		gaps(&c.r, func(v float64) { got = append(got, v) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestInferenceWithoutAnEngine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	_ = ln.Close()
	for _, p := range Probes() {
		if _, err := p.Start(t.Context(), claims.Env{Dir: t.TempDir(), EngineURL: url}); !errors.Is(err, claims.ErrUnavailable) {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// Failures are counted where they are asked for, and are no latencies.
func TestInferenceOfAFailingEngine(t *testing.T) {
	url := simulated(t, simulate.Config{TTFT: 20 * time.Millisecond, ITL: time.Millisecond, Faults: simulate.Faults{StreamError: 0.5}})
	for _, p := range Probes() {
		if p.Name != "inference/error_rate" && p.Name != "inference/e2e" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			r, err := p.Start(t.Context(), claims.Env{Dir: t.TempDir(), EngineURL: url, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			m := measured(t, r.Sample)
			if p.Name == "inference/error_rate" && (m.Value < 0.3 || m.Value > 0.7) {
				t.Errorf("half of the requests fail: %g", m.Value)
			}
			if m.Extra["run_failed"] == 0 || m.Extra["run_failed"] >= m.Extra["run_requests"] {
				t.Errorf("%v", m.Extra)
			}
		})
	}
}
