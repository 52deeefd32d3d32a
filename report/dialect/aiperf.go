package dialect

import (
	"fmt"
	"iter"
	"time"

	"github.com/assay-bench/assay"
)

// AIPerfSchema is the version of aiperf's summary that is written.
const AIPerfSchema = "1.4"

// AIPerfReport is aiperf's profile_export_aiperf.json: one load, each figure under
// aiperf's name with aiperf's meaning. docs/migrating.md says how they differ from
// ours.
type AIPerfReport struct {
	SchemaVersion string `json:"schema_version"`
	BenchmarkID   string `json:"benchmark_id"`

	RequestThroughput *AIPerfMetric `json:"request_throughput,omitempty"`
	RequestLatency    *AIPerfMetric `json:"request_latency,omitempty"`
	RequestCount      *AIPerfMetric `json:"request_count,omitempty"`
	ErrorRequestCount *AIPerfMetric `json:"error_request_count,omitempty"`
	TTFT              *AIPerfMetric `json:"time_to_first_token,omitempty"`
	TTST              *AIPerfMetric `json:"time_to_second_token,omitempty"`
	ITL               *AIPerfMetric `json:"inter_token_latency,omitempty"`
	ICL               *AIPerfMetric `json:"inter_chunk_latency,omitempty"`
	TokenThroughput   *AIPerfMetric `json:"output_token_throughput,omitempty"`
	TokensPerUser     *AIPerfMetric `json:"output_token_throughput_per_user,omitempty"`
	TotalThroughput   *AIPerfMetric `json:"total_token_throughput,omitempty"`
	OSL               *AIPerfMetric `json:"output_sequence_length,omitempty"`
	ISL               *AIPerfMetric `json:"input_sequence_length,omitempty"`
	TotalOSL          *AIPerfMetric `json:"total_osl,omitempty"`
	TotalISL          *AIPerfMetric `json:"total_isl,omitempty"`
	Duration          *AIPerfMetric `json:"benchmark_duration,omitempty"`

	WasCancelled bool      `json:"was_cancelled"`
	IsComplete   bool      `json:"is_complete"`
	StartTime    time.Time `json:"start_time,omitzero"`
	EndTime      time.Time `json:"end_time,omitzero"`
}

// AIPerfMetric is one figure: of requests a distribution, of a run its avg alone.
type AIPerfMetric struct {
	Unit  string   `json:"unit"`
	Avg   float64  `json:"avg"`
	P1    *float64 `json:"p1,omitempty"`
	P5    *float64 `json:"p5,omitempty"`
	P10   *float64 `json:"p10,omitempty"`
	P25   *float64 `json:"p25,omitempty"`
	P50   *float64 `json:"p50,omitempty"`
	P75   *float64 `json:"p75,omitempty"`
	P90   *float64 `json:"p90,omitempty"`
	P95   *float64 `json:"p95,omitempty"`
	P99   *float64 `json:"p99,omitempty"`
	Min   *float64 `json:"min,omitempty"`
	Max   *float64 `json:"max,omitempty"`
	Std   *float64 `json:"std,omitempty"`
	Count *int64   `json:"count,omitempty"`
	Sum   *float64 `json:"sum,omitempty"`
}

// aiperfOf is a distribution in another unit; nil of nothing, as there.
func aiperfOf(s sample, unit string, scale float64) *AIPerfMetric {
	n := s.n()
	if n == 0 {
		return nil
	}
	in := func(v float64) *float64 { v *= scale; return &v }
	p := func(level float64) *float64 { return in(s.percentile(level)) }
	m := AIPerfMetric{
		Unit: unit, Avg: s.mean() * scale, Count: &n, Sum: in(s.mean() * float64(n)), Std: in(s.deviation()),
		P1: p(1), P5: p(5), P10: p(10), P25: p(25), P50: p(50), P75: p(75), P90: p(90), P95: p(95), P99: p(99),
		Min: in(s.values[0]), Max: in(s.values[len(s.values)-1]),
	}
	return &m
}

// aiperfDigest is what is kept of the requests. Times are microseconds, the
// resolution of the record.
type aiperfDigest struct {
	latency, ttft, ttst, osl, isl counts
	gaps                          counts
	itl, perUser                  []float64
	first, last                   int64 // ns
	ok, failed                    int
}

// AIPerf makes the summary of one stage. Warm-ups are left out, and so are requests
// that did not come to an end of their own: aiperf counts what was answered or
// refused. The run is complete if its stage is.
func AIPerf(m assay.Manifest, stage assay.StageSummary, requests iter.Seq2[*assay.Request, error]) (AIPerfReport, error) {
	d := aiperfDigest{latency: counts{}, ttft: counts{}, ttst: counts{}, osl: counts{}, isl: counts{}, gaps: counts{}}
	for r, err := range requests {
		if err != nil {
			return AIPerfReport{}, fmt.Errorf("make aiperf's summary: %w", err)
		}
		if !r.Warmup && r.Stage == stage.Name && r.Sent != 0 {
			d.add(r)
		}
	}
	return d.report(m, stage), nil
}

func (d *aiperfDigest) add(r *assay.Request) {
	if r.Error.OfEngine() {
		d.failed++
		return
	}
	if !r.OK() || r.First == 0 {
		return
	}
	d.ok++
	ttft := max(0, r.First-r.Sent+500) / 1000
	latency := ttft
	for i, g := range r.Gaps {
		us, _ := assay.Gap(g) // a marked gap is where aiperf, too, would have seen the read
		if i == 0 {
			d.ttst[int64(us)]++
		}
		d.gaps[int64(us)]++
		latency += int64(us)
	}
	osl := int64(tokens(r.OutputTokens))
	d.ttft[ttft]++
	d.latency[latency]++
	d.osl[osl]++
	d.isl[int64(tokens(r.InputTokens))]++
	if osl >= 2 {
		itl := float64(latency-ttft) / float64(osl-1)
		d.itl = append(d.itl, itl)
		if itl > 0 {
			d.perUser = append(d.perUser, 1e6/itl)
		}
	}
	if d.first == 0 || r.Sent < d.first {
		d.first = r.Sent
	}
	d.last = max(d.last, r.Sent+1000*latency)
}

func (d *aiperfDigest) report(m assay.Manifest, stage assay.StageSummary) AIPerfReport {
	alone := func(unit string, v float64) *AIPerfMetric { return &AIPerfMetric{Unit: unit, Avg: v} }
	osl, isl := d.osl.sample(), d.isl.sample()
	out := AIPerfReport{
		SchemaVersion: AIPerfSchema, BenchmarkID: m.ID, WasCancelled: !stage.Complete, IsComplete: stage.Complete,
		RequestLatency: aiperfOf(d.latency.sample(), "ms", 1e-3), TTFT: aiperfOf(d.ttft.sample(), "ms", 1e-3), TTST: aiperfOf(d.ttst.sample(), "ms", 1e-3),
		ICL: aiperfOf(d.gaps.sample(), "ms", 1e-3), ITL: aiperfOf(sampleOf(d.itl), "ms", 1e-3), TokensPerUser: aiperfOf(sampleOf(d.perUser), "tokens/sec/user", 1),
		OSL: aiperfOf(osl, "tokens", 1), ISL: aiperfOf(isl, "tokens", 1),
	}
	if d.failed > 0 {
		out.ErrorRequestCount = alone("requests", float64(d.failed))
	}
	if d.ok == 0 {
		return out
	}
	totalOSL, totalISL := osl.mean()*float64(d.ok), isl.mean()*float64(d.ok)
	out.RequestCount, out.TotalOSL, out.TotalISL = alone("requests", float64(d.ok)), alone("tokens", totalOSL), alone("tokens", totalISL)
	out.StartTime, out.EndTime = time.Unix(0, d.first).UTC(), time.Unix(0, d.last).UTC()
	if seconds := float64(d.last-d.first) / 1e9; seconds > 0 {
		out.Duration = alone("sec", seconds)
		out.RequestThroughput, out.TokenThroughput = alone("requests/sec", float64(d.ok)/seconds), alone("tokens/sec", totalOSL/seconds)
		out.TotalThroughput = alone("tokens/sec", (totalOSL+totalISL)/seconds)
	}
	return out
}
