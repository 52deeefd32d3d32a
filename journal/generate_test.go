package journal_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

const (
	second      = int64(1e9)
	exampleTime = int64(1_760_000_000) * second
)

func exampleManifest() assay.Manifest {
	return assay.Manifest{
		ID: "01K74T0AB00000000000000000", Created: exampleTime,
		Node: assay.Node{ID: "node-1", Hostname: "bench", OS: "linux", Arch: "amd64", CPU: "made up", Cores: 2,
			GPUs: []assay.GPU{{UUID: "GPU-0", Name: "made up", MemoryBytes: 24 << 30}}},
		Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: "made-up"},
		Clock:  assay.ClockKernel, Seed: 42,
		Version: assay.Version{Assay: "0.1.0", Go: "go1.26"},
		Config:  json.RawMessage(`{"sweep":[1,4,16]}`),
		Judge: assay.Judge{
			Goodput:     []assay.Limit{{Metric: "ttft", MaxMS: 180}, {Metric: "tpot", MaxMS: 30}},
			Objectives:  []assay.Objective{{Metric: "ttft", Stat: "p90", Max: 200}, {Metric: "error_rate", Max: 0.05}},
			Percentiles: []float64{99.9},
		},
	}
}

// writeExample records a made-up run: a sweep of three closed stages and an open
// one with every oddity of the format, from one seed and no clock. Each stage
// lasts so many nanoseconds.
func writeExample(w *journal.Writer, length int64) error {
	g := &generator{w: w, rng: rand.New(rand.NewPCG(42, 1)), now: exampleTime}
	for _, n := range []int{1, 2, 8} {
		g.stage(assay.Stage{Name: fmt.Sprintf("c%d", n), Kind: assay.LoadClosed, Concurrency: n, DurationNS: length, GraceNS: 5 * second})
	}
	g.stage(assay.Stage{Name: "open", Kind: assay.LoadOpen, Rate: 15, Burstiness: 1, Concurrency: 4, DurationNS: length, GraceNS: 5 * second})
	g.keep(w.Check(assay.Check{At: g.now, Name: "compute.product", Device: "GPU-0", Verdict: assay.Pass,
		Evidence: "the product has the known hash", Proves: "the device multiplies right",
		DoesNotProve: "that the device is in this machine", Values: map[string]float64{"flops": 4.2e10}, Facts: map[string]string{"sha256": "00"}}))
	g.keep(w.Event(assay.Event{At: g.now, Kind: assay.EventClockStep, Data: map[string]float64{"seconds": -0.25}}))
	g.keep(w.Checkpoint(assay.Checkpoint{At: g.now, Status: assay.StatusComplete, StageN: 4, StageOf: 4,
		ElapsedNS: g.now - exampleTime, Sent: g.sent, Done: g.sent, Errors: g.errors}))
	return g.err
}

type generator struct {
	w      *journal.Writer
	rng    *rand.Rand
	now    int64
	sent   int
	errors map[assay.Failure]int
	cpu    float64
	err    error
}

func (g *generator) keep(err error) {
	if g.err == nil {
		g.err = err
	}
}

func (g *generator) stage(plan assay.Stage) {
	start, stop := g.now, g.now+plan.DurationNS
	g.keep(g.w.Event(assay.Event{At: start, Kind: assay.EventStageStarted, Stage: plan.Name, Plan: &plan}))
	g.keep(g.w.Event(assay.Event{At: start + plan.DurationNS/10, Kind: assay.EventStageSteady, Stage: plan.Name}))
	var all []*assay.Request
	if plan.Kind == assay.LoadClosed {
		free := make([]int64, plan.Concurrency)
		for k := range free {
			free[k] = start
		}
		for {
			k := slices.Index(free, slices.Min(free))
			if free[k] >= stop {
				break
			}
			r := g.request(plan, free[k], len(all))
			free[k] = r.End
			all = append(all, r)
		}
	} else {
		for at := start; at < stop; at += int64(g.rng.ExpFloat64() / plan.Rate * 1e9) {
			all = append(all, g.request(plan, at, len(all)))
		}
	}
	slices.SortStableFunc(all, func(a, b *assay.Request) int { return cmp.Compare(a.End, b.End) })
	for _, r := range all {
		g.keep(g.w.Request(r))
		if r.Error != "" {
			if g.errors == nil {
				g.errors = map[assay.Failure]int{}
			}
			g.errors[r.Error]++
		}
	}
	for at := start; at < stop; at += second / 4 {
		g.readings(at, all)
	}
	g.keep(g.w.Event(assay.Event{At: stop, Kind: assay.EventStageLoadEnd, Stage: plan.Name}))
	g.now = stop + second
	g.keep(g.w.Event(assay.Event{At: g.now, Kind: assay.EventStageEnded, Stage: plan.Name}))
	g.keep(g.w.Checkpoint(assay.Checkpoint{At: g.now, Status: assay.StatusRunning, Stage: plan.Name, StageN: 1, StageOf: 4, ElapsedNS: g.now - exampleTime, Sent: g.sent, Done: g.sent}))
}

func (g *generator) readings(at int64, all []*assay.Request) {
	inFlight := 0.0
	for _, r := range all {
		if r.Sent != 0 && r.Sent <= at && r.End > at {
			inFlight++
		}
	}
	g.cpu += 0.05 + g.rng.Float64()/40
	cpu, rss, watts := g.cpu, 40e6+g.cpu, 200+g.rng.Float64()*20
	g.keep(g.w.Reading(assay.Reading{At: at, Source: "client", Name: "client_in_flight", Value: &inFlight}))
	g.keep(g.w.Reading(assay.Reading{At: at, Source: "client", Name: "client_cpu_seconds_total", Value: &cpu}))
	g.keep(g.w.Reading(assay.Reading{At: at, Source: "client", Name: "client_resident_memory_bytes", Value: &rss}))
	g.keep(g.w.Reading(assay.Reading{At: at, Source: "client", Name: "client_lag_us", Counts: []int64{12, 40, 30, 8, 1056, 1}}))
	g.keep(g.w.Reading(assay.Reading{At: at, Source: "nvml", Name: "gpu_power_watts", Device: "GPU-0", Value: &watts}))
}

func (g *generator) request(plan assay.Stage, at int64, i int) *assay.Request {
	us := func(lo, hi int64) int64 { return (lo + g.rng.Int64N(hi-lo)) * 1000 }
	r := &assay.Request{
		ID: fmt.Sprintf("%s-%d", plan.Name, i), Stage: plan.Name, Warmup: i < 2, Prompt: g.sent,
		Scheduled: at, Eligible: at, AskedInput: 100, AskedOutput: 16, InputTokens: 101,
	}
	g.sent++
	open := plan.Kind == assay.LoadOpen
	if open && i%5 == 0 {
		r.Eligible += us(2000, 90_000) // held by the cap
	}
	if i%7 == 0 {
		r.Connect = r.Eligible + us(100, 400)
	}
	r.Sent = max(r.Eligible, r.Connect) + us(5, 60)
	if open && i%6 == 5 {
		return g.failed(r, i/6)
	}
	r.First = r.Sent + us(40_000, 60_000)*int64(1+plan.Concurrency/2)
	r.Last = r.First
	for k := range 15 {
		gap := int32(us(9_000, 11_000) / 1000)
		r.Last += int64(gap) * 1000
		if i%13 == 5 && k == 3 {
			gap = assay.MarkGap(gap)
			r.MergedReads++
		}
		r.Gaps = append(r.Gaps, gap)
	}
	r.End = r.Last + us(50, 300)
	r.OutputTokens, r.TokensFrom, r.Reads, r.Status = 16, "usage", 16-r.MergedReads, 200
	r.FirstLag, r.MaxLag = int64(i%30), 40
	r.Other, r.OtherUS = "rfud", []int32{39_000, int32((r.Last - r.Sent) / 1000), int32((r.End - r.Sent) / 1000), int32((r.End - r.Sent) / 1000)}
	if !open {
		return r
	}
	switch i % 10 {
	case 1:
		r.Answer = r.First + 3*10_000_000
	case 2:
		r.ChunkTokens = make([]int32, 16)
		for k := range r.ChunkTokens {
			r.ChunkTokens[k] = 1
		}
		r.ChunkTokens[4], r.OutputTokens, r.AskedOutput = 3, 18, 18
	case 3:
		r.CachedTokens, r.Text = 64, "héllo \u2028 \"world\"\n\x01"
	case 4:
		r.FirstMerged, r.ClockStep = true, i == 4
	case 6:
		d := r.Last - r.First
		r.Engine = &assay.EngineTimings{Total: r.Last - r.Sent, Load: 1e6, Prompt: 45e6, Eval: d - d/100, PromptTokens: 101, EvalTokens: 16, EvalIntervals: 15}
	case 7:
		r.TokensFrom = "chunks"
	}
	return r
}

func (g *generator) failed(r *assay.Request, k int) *assay.Request {
	classes := assay.Failures()
	r.Error = classes[k%len(classes)]
	r.Detail = "made up: <" + string(r.Error) + "> & \"more\""
	r.InputTokens = 0
	r.End = r.Sent + second/2
	switch r.Error {
	case assay.FailNeverSent:
		r.Sent, r.Connect = 0, 0
	case assay.FailHTTP5xx:
		r.Status = 503
	case assay.FailTruncated, assay.FailCensored:
		r.First = r.Sent + 50_000_000
		r.Gaps = []int32{10_000, 10_100}
		r.Last = r.First + 20_100_000
		r.OutputTokens, r.TokensFrom, r.Reads = 3, "chunks", 3
	}
	return r
}
