package load

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

// Whatever the load, the cap and the engine: each request has one line, the cap
// is kept, requests go out in the order in which they were wanted and as soon as
// they may, and the counts add up.
func TestGeneratorProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := func(name string, lo, hi int) int64 {
			return int64(rapid.IntRange(lo, hi).Draw(rt, name)) * int64(time.Millisecond)
		}
		stage := assay.Stage{
			Name:        "s",
			Kind:        rapid.SampledFrom([]assay.LoadKind{assay.LoadClosed, assay.LoadOpen, assay.LoadRamp, assay.LoadBatch}).Draw(rt, "kind"),
			Concurrency: rapid.IntRange(1, 8).Draw(rt, "concurrency"),
			Rate:        rapid.Float64Range(10, 500).Draw(rt, "rate"),
			RateFrom:    rapid.Float64Range(10, 100).Draw(rt, "from"),
			RateTo:      rapid.Float64Range(10, 500).Draw(rt, "to"),
			Burstiness:  rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(rt, "burstiness"),
			Batch:       rapid.IntRange(1, 12).Draw(rt, "batch"),
			Warmups:     rapid.IntRange(0, 4).Draw(rt, "warmups"),
			DurationNS:  ms("duration", 0, 1000),
			RampUpNS:    ms("rampUp", 0, 200),
			GraceNS:     ms("grace", 0, 200),
		}
		if stage.DurationNS == 0 || rapid.Bool().Draw(rt, "counted") {
			stage.Requests = rapid.IntRange(1, 100).Draw(rt, "requests")
		}
		latencies := rapid.SliceOfN(rapid.IntRange(0, 150), 1, 20).Draw(rt, "latencies")
		o := Options{Seed: rapid.Uint64().Draw(rt, "seed")}
		var problem string
		synctest.Test(t, func(t *testing.T) {
			e := &engine{latency: func(n int) time.Duration {
				return time.Duration(latencies[n%len(latencies)])*time.Millisecond + time.Microsecond
			}}
			problem = wrong(e, stage, run(t, t.Context(), e, stage, o))
		})
		if problem != "" {
			rt.Fatalf("%s", problem)
		}
	})
}

// wrong says what is wrong with a stage that was run.
func wrong(e *engine, stage assay.Stage, res Result) string {
	requests := e.byNumber()
	if len(requests) != res.Issued || res.Sent+res.NeverSent != res.Issued || res.Interrupted {
		return fmt.Sprintf("%d lines for %+v", len(requests), res)
	}
	if stage.Requests > 0 && stage.DurationNS == 0 && len(requests) != stage.Requests+stage.Warmups {
		return fmt.Sprintf("%d requests, want %d and %d warm-ups", len(requests), stage.Requests, stage.Warmups)
	}
	if e.most > stage.Concurrency {
		return fmt.Sprintf("%d in flight, over the cap of %d", e.most, stage.Concurrency)
	}
	if res.Censored != e.count(assay.FailCensored) || res.NeverSent != e.count(assay.FailNeverSent) || e.count(assay.FailCancelled) != 0 {
		return fmt.Sprintf("%+v does not agree with the lines", res)
	}
	if len(e.loadEnd) != 1 || len(e.steady) > 1 {
		return fmt.Sprintf("told of %d load ends and %d steady windows", len(e.loadEnd), len(e.steady))
	}
	ends := map[int64]bool{res.Started: true}
	for _, r := range requests {
		ends[r.End] = true
	}
	last := int64(0)
	for i, r := range requests {
		switch {
		case r.Prompt != i:
			return fmt.Sprintf("line %d is of request %d", i, r.Prompt)
		case r.Error == assay.FailNeverSent:
			if r.Scheduled >= res.LoadEnd {
				return fmt.Sprintf("request %d was wanted after the load's end", i)
			}
			continue
		case r.Sent != r.Eligible || r.Eligible < r.Scheduled || r.Sent < last:
			return fmt.Sprintf("request %d: scheduled %v, eligible %v, sent %v ms after one at %v",
				i, e.at(r.Scheduled), e.at(r.Eligible), e.at(r.Sent), e.at(last))
		case r.Sent > r.Scheduled && !ends[r.Sent]:
			return fmt.Sprintf("request %d waited, and went out at %v when no slot became free", i, e.at(r.Sent))
		case r.Sent > res.LoadEnd:
			return fmt.Sprintf("request %d went out after the load's end", i)
		case !r.Warmup && r.Scheduled < res.Steady:
			return fmt.Sprintf("request %d is judged, and was wanted before the steady window", i)
		}
		last = r.Sent
	}
	if i := slices.IndexFunc(requests, func(r *assay.Request) bool { return !r.Warmup }); i >= 0 && (res.Steady == 0 || requests[i].Scheduled < res.Steady) {
		return fmt.Sprintf("steady from %v, and the first judged request at %v", e.at(res.Steady), e.at(requests[i].Scheduled))
	}
	return ""
}
