package summary

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Collector gathers the requests of one stage, in any order and each once. It is
// for one goroutine.
//
// When the stage began is set before the first request is added. The steady
// window is found in the requests when a summary is asked for; it needs to know
// when the load ended.
type Collector struct {
	plan   assay.Stage
	judge  assay.Judge
	levels []float64

	started, ended int64
	down           int64 // ns between started and ended in which nobody measured
	complete       bool
	latest         int64 // the latest mark of any request
	loading        loading
	steady         span   // the steady window, when it was settled; empty: there is none
	noWindow       string // why

	requests, warmups, ok, failed, good int
	errors                              map[assay.Failure]int
	addresses                           map[string]int
	lateSent                            int
	stepped, disordered                 int
	fromUsage, fromChunks               int
	usageTokens, chunkTokens            int64 // of requests with both
	otherLength, askedLength            int
	gaps, marked                        int64
	cached                              int64

	ttft, ttftIntended, ttfo, e2e, e2eIntended sample
	itl, arrivalGap                            gapSample
	apart                                      bool   // arrivalGap differs from itl
	tpot                                       sample // ns: a fast engine's is below a microsecond's worth
	input, output                              sample
	reads, burstReads, burstChunks             int64

	engine *engineSample

	// whole is of all requests of a closed stage, and of the judged ones of any
	// other, whose warm-ups are over before; firstSend and lastToken are theirs.
	whole                tally
	firstSend, lastToken int64
	gauge                gauge
	backlog              backlog
	trials               []trial      // one for each objective
	warmupE2E            stat.Moments // ns
}

// NewCollector gathers a stage that was planned so.
func NewCollector(plan assay.Stage, judge assay.Judge) *Collector {
	return &Collector{plan: plan, judge: judge, levels: levelsOf(judge), trials: newTrials(judge), errors: map[assay.Failure]int{}}
}

// Started sets when the stage began, in Unix nanoseconds like all times here.
func (c *Collector) Started(t int64) { c.started, c.loading.begun = t, t }

// again sets when a stage was taken up that had been interrupted. The requests of
// both parts are judged; the steady window is that of the later part, as a
// window with a hole has no throughput.
func (c *Collector) again(t int64) {
	c.loading.begun, c.loading.loadEnd, c.ended, c.complete = t, 0, 0, false
}

// LoadEnd sets when no more requests were sent.
func (c *Collector) LoadEnd(t int64) { c.loading.loadEnd = t }

// Ended sets when the stage had drained, and that it came to its end.
func (c *Collector) Ended(t int64) { c.ended, c.complete = t, true }

// settle finds the steady window in the requests so far.
func (c *Collector) settle() { c.steady, c.noWindow = c.window() }

// inFlight takes a sample of the gauge of requests in flight, when the window is
// settled; those outside of it are passed over.
func (c *Collector) inFlight(at int64, n float64) {
	if c.steady.in(at) {
		c.gauge.add(n)
	}
}

// Add takes a request. It keeps nothing of what r points to.
func (c *Collector) Add(r *assay.Request) {
	c.latest = max(c.latest, r.End, r.Last)
	good := r.OK() && c.keepsLimits(r)
	c.addTime(r, good)
	c.reads += int64(max(0, r.Reads))
	c.burstReads += int64(max(0, r.BurstReads))
	c.burstChunks += int64(max(0, r.BurstChunks))
	c.addAddress(r.Address)
	c.backlog.add(r, c.plan, c.started)
	if r.Warmup {
		c.warmups++
		if ns, ok := r.E2E(); ok && r.OK() && plausible(ns) {
			c.warmupE2E.Add(float64(ns))
		}
		return
	}
	c.requests++
	c.addTrials(r)
	if c.plan.Concurrency > 0 && r.Scheduled != 0 && r.Eligible-r.Scheduled > 1e6 {
		c.lateSent++
	}
	c.cached += tokenCount(r.CachedTokens)
	if r.ClockStep {
		c.stepped++
	}
	if !r.OK() {
		c.errors[r.Error]++
		if r.Error.OfEngine() {
			c.failed++
		}
		return
	}
	c.ok++
	if good {
		c.good++
	}
	c.addTokens(r)
	// A mark taken across a step of the clock is no measurement: such requests
	// are counted, and warned of, and stay out of the latencies.
	if !r.ClockStep {
		c.addLatency(r)
	}
}

// maxAddresses bounds the addresses that are told apart; the rest are "other".
const maxAddresses = 256

func (c *Collector) addAddress(address string) {
	if address == "" {
		return
	}
	if c.addresses == nil {
		c.addresses = map[string]int{}
	}
	if _, known := c.addresses[address]; !known && len(c.addresses) >= maxAddresses {
		address = "other"
	}
	c.addresses[address]++
}

func (c *Collector) addLatency(r *assay.Request) {
	take := func(s *sample, ns int64, ok bool) {
		if !ok {
			return
		}
		if !plausible(ns) {
			c.disordered++
			return
		}
		s.addNS(ns)
	}
	ns, ok := r.TTFT()
	take(&c.ttft, ns, ok)
	ns, ok = r.TTFTIntended()
	take(&c.ttftIntended, ns, ok)
	ns, ok = r.TTFO()
	take(&c.ttfo, ns, ok)
	ns, ok = r.E2E()
	take(&c.e2e, ns, ok)
	ns, ok = r.E2EIntended()
	take(&c.e2eIntended, ns, ok)
	if tpot, ok := r.TPOT(); ok && plausible(r.Last-r.First) {
		c.tpot.add(int64(math.Round(tpot)))
	}
	c.addGaps(r)
	if r.Engine != nil {
		if c.engine == nil {
			c.engine = &engineSample{}
		}
		c.engine.add(r)
	}
}

// addTime counts a request in the time of the stage.
func (c *Collector) addTime(r *assay.Request, good bool) {
	if placed(r) {
		c.loading.add(r, c.plan, good)
	}
	if r.Warmup && c.plan.Kind != assay.LoadClosed {
		return
	}
	c.whole.whole(r, good)
	if sane(r.Sent) {
		c.firstSend = earliest(c.firstSend, r.Sent)
	}
	if last := lastArrival(r); sane(last) && plausible(last-r.Sent) {
		c.lastToken = max(c.lastToken, last)
	}
}

// plausible reports whether a span can be one of a request: marks in order, and
// within a month. Anything else is damage, and would drown what is measured.
func plausible(ns int64) bool { return ns >= 0 && ns < 30*24*3600*1e9 }

func (c *Collector) addTokens(r *assay.Request) {
	if r.InputTokens > 0 {
		c.input.add(tokenCount(r.InputTokens))
	}
	c.output.add(tokenCount(r.OutputTokens))
	chunks := chunksOf(r)
	switch r.TokensFrom {
	case "usage":
		c.fromUsage++
		if len(r.ChunkTokens) > 0 {
			chunks = 0
			for _, n := range r.ChunkTokens {
				chunks += int64(n)
			}
		}
		if chunks -= tokenCount(r.Unplaced); chunks > 0 {
			c.usageTokens += tokenCount(r.OutputTokens)
			c.chunkTokens += chunks
		}
	case "chunks":
		c.fromChunks++
	}
	if r.AskedOutput > 0 {
		c.askedLength++
		if r.AskedOutput != r.OutputTokens {
			c.otherLength++
		}
	}
}

func (c *Collector) keepsLimits(r *assay.Request) bool {
	for _, l := range c.judge.Goodput {
		var ns float64
		var ok bool
		var whole int64
		switch l.Metric {
		case "ttft":
			whole, ok = r.TTFT()
			ns = float64(whole)
		case "tpot":
			// An answer of one token has no time per further token, and so breaks
			// no limit on it. The pace of one that came all at once is unknown,
			// and so not known to be good.
			if ns, ok = r.TPOT(); !ok && r.OutputTokens == 1 {
				continue
			}
		case "e2el":
			whole, ok = r.E2E()
			ns = float64(whole)
		}
		if !ok || ns > l.MaxMS*1e6 {
			return false
		}
	}
	return true
}

// engineSample is what the engine reports of a stage.
type engineSample struct {
	tpot, prompt, load sample // tpot in ns
	ours, theirs       float64
}

func (e *engineSample) add(r *assay.Request) {
	t := r.Engine
	if t.Prompt > 0 && plausible(t.Prompt) {
		e.prompt.addNS(t.Prompt)
	}
	if t.Load > 0 && plausible(t.Load) {
		e.load.addNS(t.Load)
	}
	if t.Eval > 0 && plausible(t.Eval) && t.EvalIntervals > 0 {
		per := float64(t.Eval) / float64(t.EvalIntervals)
		e.tpot.add(int64(math.Round(per)))
		if _, ok := r.TPOT(); ok && plausible(r.Last-r.First) {
			e.ours += float64(r.Last - r.First)
			e.theirs += per * float64(r.OutputTokens-r.FirstTokens())
		}
	}
}
