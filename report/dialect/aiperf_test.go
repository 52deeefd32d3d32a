package dialect

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// byRules computes aiperf's figures of the invented requests by its rules, straight
// from the times of chunks and by other means than the digest.
func byRules(list []*assay.Request) (ttft, itl, latency, icl, perUser []float64, osl float64, ok, failed int, first, last float64) {
	first = math.Inf(1)
	for _, r := range list {
		if r.Warmup || r.Stage != "main" || r.Sent == 0 {
			continue
		}
		if r.Error.OfEngine() {
			failed++
		}
		if r.Error != "" || r.First == 0 {
			continue
		}
		ok++
		at := []float64{math.Round(float64(r.First-r.Sent)/1e3) / 1e3} // ms
		for _, g := range r.Gaps {
			us, _ := assay.Gap(g)
			at = append(at, at[len(at)-1]+float64(us)/1e3)
			icl = append(icl, float64(us)/1e3)
		}
		end := at[len(at)-1]
		ttft, latency = append(ttft, at[0]), append(latency, end)
		osl += float64(r.OutputTokens)
		if r.OutputTokens >= 2 {
			v := (end - at[0]) / float64(r.OutputTokens-1)
			itl = append(itl, v)
			if v > 0 {
				perUser = append(perUser, 1000/v)
			}
		}
		first, last = min(first, float64(r.Sent)), max(last, float64(r.Sent)+end*1e6)
	}
	return ttft, itl, latency, icl, perUser, osl, ok, failed, first, last
}

// numpy is numpy.percentile with its default method.
func numpy(values []float64, p float64) float64 {
	v := slices.Sorted(slices.Values(values))
	h := float64(len(v)-1) * p / 100
	lo := int(h)
	hi := min(lo+1, len(v)-1)
	return v[lo] + (h-float64(lo))*(v[hi]-v[lo])
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

func TestAIPerfByItsRules(t *testing.T) {
	list := invented()
	got, err := AIPerf(assay.Manifest{ID: "run"}, assay.StageSummary{Name: "main", Complete: true}, seq(list))
	if err != nil {
		t.Fatal(err)
	}
	ttft, itl, latency, icl, perUser, osl, ok, failed, first, last := byRules(list)
	if ok < 50 || failed == 0 || len(itl) == ok || len(perUser) == 0 {
		t.Fatalf("%d requests, %d with an ITL, %d failed: too few to tell", ok, len(itl), failed)
	}
	for name, c := range map[string]struct {
		got  *AIPerfMetric
		want []float64
	}{
		"ttft": {got.TTFT, ttft}, "itl": {got.ITL, itl}, "latency": {got.RequestLatency, latency}, "icl": {got.ICL, icl}, "per user": {got.TokensPerUser, perUser},
	} {
		var sum, squares float64
		for _, v := range c.want {
			sum += v
		}
		mean := sum / float64(len(c.want))
		for _, v := range c.want {
			squares += (v - mean) * (v - mean)
		}
		g := c.got
		for what, pair := range map[string][2]float64{
			"avg": {g.Avg, mean}, "sum": {*g.Sum, sum}, "std": {*g.Std, math.Sqrt(squares / float64(len(c.want)))}, "count": {float64(*g.Count), float64(len(c.want))},
			"min": {*g.Min, slices.Min(c.want)}, "max": {*g.Max, slices.Max(c.want)},
			"p1": {*g.P1, numpy(c.want, 1)}, "p25": {*g.P25, numpy(c.want, 25)}, "p50": {*g.P50, numpy(c.want, 50)}, "p99": {*g.P99, numpy(c.want, 99)},
		} {
			if !near(pair[0], pair[1]) {
				t.Errorf("%s %s is %v, by aiperf's rules %v", name, what, pair[0], pair[1])
			}
		}
	}
	seconds := (last - first) / 1e9
	for name, pair := range map[string][2]float64{
		"request_count": {got.RequestCount.Avg, float64(ok)}, "error_request_count": {got.ErrorRequestCount.Avg, float64(failed)},
		"benchmark_duration": {got.Duration.Avg, seconds}, "output_token_throughput": {got.TokenThroughput.Avg, osl / seconds}, "request_throughput": {got.RequestThroughput.Avg, float64(ok) / seconds},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s is %v, by aiperf's rules %v", name, pair[0], pair[1])
		}
	}
	if got.WasCancelled || !got.IsComplete {
		t.Error("a whole stage is called cancelled")
	}
}

func TestAIPerfOfNothing(t *testing.T) {
	got, err := AIPerf(assay.Manifest{ID: "run"}, assay.StageSummary{Name: "main"}, seq(nil))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil || strings.Contains(string(b), "avg") || !got.WasCancelled {
		t.Errorf("%v: %s", err, b)
	}
	broken := func(yield func(*assay.Request, error) bool) { yield(nil, errors.New("line 2 is damaged")) }
	if _, err := AIPerf(manifest, assay.StageSummary{}, broken); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

// aiperf's own model reads what we write. ASSAY_AIPERF is a Python that has it; it is
// large, so only the long run asks for it.
func TestAIPerfReadsItsSummary(t *testing.T) {
	python := os.Getenv("ASSAY_AIPERF")
	if python == "" {
		t.Skip("ASSAY_AIPERF names no Python with aiperf")
	}
	got, err := AIPerf(assay.Manifest{ID: "run"}, assay.StageSummary{Name: "main", Complete: true}, seq(invented()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "profile_export_aiperf.json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `import sys
from aiperf.common.models.export_models import JsonExportData, JsonMetricResult
d = JsonExportData.model_validate_json(open(sys.argv[1]).read())
assert d.schema_version == JsonExportData.SCHEMA_VERSION, d.schema_version
extra = set(d.model_extra or {}) - {"total_token_throughput"}
assert not extra, extra
print(d.time_to_first_token.p99, d.inter_token_latency.unit)`
	out, err := exec.Command(python, "-c", script, file).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
