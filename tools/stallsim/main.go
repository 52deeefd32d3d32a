// Command stallsim says what a truthful load tester must report of an engine
// that stalls: it is an event simulation of an open-loop schedule under a
// concurrency cap, against an engine that answers each request by a fixed law
// and keeps silent for a while. It has no clock and no network.
//
// It prints the nearest-rank percentiles of ttft (from the moment of sending)
// and of ttft_intended (from the moment that the schedule wanted) as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/load"
)

func main() {
	var stage assay.Stage
	var e engine
	o := load.Options{}
	flag.Float64Var(&stage.Rate, "rate", 200, "requests a second")
	flag.Float64Var(&stage.Burstiness, "burstiness", 1, "shape of the gaps; 1 is Poisson, 0 constant")
	duration := flag.Duration("duration", 20*time.Second, "length of the load; 0: until -requests")
	flag.IntVar(&stage.Requests, "requests", 0, "number of requests; 0: until -duration")
	flag.IntVar(&stage.Concurrency, "cap", 64, "requests under way at most; 0: no cap")
	flag.Uint64Var(&o.Seed, "seed", 0, "seed of the schedule")
	flag.BoolVar(&o.VLLM, "vllm", false, "normalise the arrivals to -requests ÷ -rate")
	flag.IntVar(&e.tokens, "tokens", 16, "tokens in each answer")
	flag.DurationVar(&e.ttft, "ttft", 50*time.Millisecond, "time to the first token")
	flag.DurationVar(&e.itl, "itl", 10*time.Millisecond, "time between tokens")
	flag.DurationVar(&e.stallAt, "stall-at", 8*time.Second, "when the stall begins, since the start of the load")
	flag.DurationVar(&e.stallFor, "stall-for", 2*time.Second, "how long it lasts")
	flag.Parse()
	stage.Name, stage.Kind, stage.DurationNS = "stall", assay.LoadOpen, int64(*duration)

	calls, err := simulate(stage, o, e)
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(reduce(calls))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stallsim:", err)
		os.Exit(1)
	}
}

// engine sends token k of a request at ttft + k·itl after the request came.
// Tokens that are due in the stall come at its end.
type engine struct {
	ttft, itl         time.Duration
	tokens            int
	stallAt, stallFor time.Duration
}

func (e engine) token(sent time.Duration, k int) time.Duration {
	due := sent + e.ttft + time.Duration(k)*e.itl
	if due >= e.stallAt && due < e.stallAt+e.stallFor {
		return e.stallAt + e.stallFor
	}
	return due
}

// call is one request; times are since the start of the load.
type call struct {
	scheduled, sent, first, last time.Duration
	neverSent                    bool
}

// simulate walks through the schedule's times. Requests over the cap are sent
// in order, each when the earliest of those under way has ended; one that would
// be sent after the load's end is not.
func simulate(stage assay.Stage, o load.Options, e engine) ([]call, error) {
	s, err := load.Of(stage, o)
	if err != nil {
		return nil, err
	}
	var calls []call
	var ends []time.Duration // of those under way, unordered, at most the cap
	for n := 0; ; n++ {
		// The schedule is open: its times depend on nothing that happens.
		step := s.Next(load.State{Issued: n, Ended: -1})
		if step.Stop || step.Wait {
			return calls, nil
		}
		c := call{scheduled: step.At, sent: step.At}
		if stage.Concurrency > 0 && len(ends) >= stage.Concurrency {
			i := slices.Index(ends, slices.Min(ends))
			c.sent = max(c.sent, ends[i])
			ends = slices.Delete(ends, i, i+1)
		}
		if step.End > 0 && c.sent >= step.End {
			c = call{scheduled: step.At, neverSent: true}
			// Nothing that comes later is sent either: its slot is not free earlier.
			ends = append(ends, math.MaxInt64)
		} else {
			c.first, c.last = e.token(c.sent, 0), e.token(c.sent, max(0, e.tokens-1))
			ends = append(ends, c.last)
		}
		calls = append(calls, c)
	}
}

// result is what is printed.
type result struct {
	Requests     int                `json:"requests"`
	NeverSent    int                `json:"never_sent"`
	LateSent     int                `json:"late_sent"` // by more than a millisecond
	TTFT         map[string]float64 `json:"ttft_ms"`
	TTFTIntended map[string]float64 `json:"ttft_intended_ms"`
}

func reduce(calls []call) result {
	r := result{Requests: len(calls)}
	var ttft, intended []float64
	for _, c := range calls {
		if c.neverSent {
			r.NeverSent++
			continue
		}
		if c.sent-c.scheduled > time.Millisecond {
			r.LateSent++
		}
		ttft = append(ttft, float64(c.first-c.sent)/1e6)
		intended = append(intended, float64(c.first-c.scheduled)/1e6)
	}
	r.TTFT, r.TTFTIntended = percentiles(ttft), percentiles(intended)
	return r
}

// percentiles by nearest rank.
func percentiles(v []float64) map[string]float64 {
	out := map[string]float64{}
	slices.Sort(v)
	for _, p := range []int{50, 90, 95, 99} {
		if len(v) > 0 {
			out[fmt.Sprintf("p%d", p)] = v[(p*len(v)+99)/100-1]
		}
	}
	return out
}
