package summary

import (
	"fmt"
	"maps"

	"github.com/assay-bench/assay"
)

// Summary is the stage so far, in numbers.
//
// Its rates are those of the steady window. A stage that has none has the rates
// of its whole time, from the first send to the last token, and says why.
// Without an end, the latest mark of a request is the end.
func (c *Collector) Summary() assay.StageSummary {
	const ms, perMicro, perNano = 1.0, 1e-3, 1e-6
	c.settle()
	s := assay.StageSummary{
		Name: c.plan.Name, Plan: c.plan, Complete: c.complete,
		Started: c.started, SteadyFrom: c.steady.from, SteadyTo: c.steady.to, Ended: c.ended,
		RatesOf: assay.RatesOfWindow, WindowWhy: c.noWindow,
		Requests: c.requests, Warmups: c.warmups, OK: c.ok, Failed: c.failed,
		Errors: maps.Clone(c.errors), LateSent: c.lateSent,
		NeverSent: c.errors[assay.FailNeverSent], Censored: c.errors[assay.FailCensored],
		CachedTokens: c.cached, TokensFrom: c.tokensFrom(),
	}
	if n := c.ok + c.failed; n > 0 {
		s.ErrorRate = float64(c.failed) / float64(n)
		s.GoodShare = float64(c.good) / float64(n)
	}
	s.TTFT = c.ttft.dist(c.levels, perMicro)
	s.TTFTHistogram = c.ttft.histogram(perMicro)
	s.TTFTIntended = c.ttftIntended.dist(c.levels, perMicro)
	s.TTFO = c.ttfo.dist(c.levels, perMicro)
	s.TPOT = c.tpot.dist(c.levels, perNano)
	s.ITL = c.itl.dist(c.levels, perMicro)
	s.ArrivalGap = s.ITL
	if c.apart {
		s.ArrivalGap = c.arrivalGap.dist(c.levels, perMicro)
	}
	s.E2E = c.e2e.dist(c.levels, perMicro)
	s.E2EIntended = c.e2eIntended.dist(c.levels, perMicro)
	s.InputTokens = c.input.dist(c.levels, ms)
	s.OutputTokens = c.output.dist(c.levels, ms)
	if c.gaps > 0 {
		s.MarkedGapShare = float64(c.marked) / float64(c.gaps)
	}
	if c.reads > 0 {
		s.BurstShare = min(1, float64(c.burstReads)/float64(c.reads))
	}
	if c.burstReads > 0 {
		s.BurstChunksMean = float64(c.burstChunks) / float64(c.burstReads)
	}
	s.Addresses = maps.Clone(c.addresses)
	c.rates(&s)
	if e := c.engine; e != nil {
		s.Engine = &assay.EngineStage{
			TPOT: e.tpot.dist(c.levels, perNano), Prompt: e.prompt.dist(c.levels, perMicro), Load: e.load.dist(c.levels, perMicro),
		}
		if e.theirs > 0 {
			ratio := e.ours / e.theirs
			s.Engine.OursOverTheirs = &ratio
		}
	}
	s.BacklogGrows = c.backlog.grows(c.plan)
	if c.warmupE2E.N() > 0 {
		s.WarmupE2EMS = c.warmupE2E.Mean() / 1e6
	}
	s.Objectives, s.Kept = c.hold(&s)
	for k := range s.Objectives {
		s.Objectives[k].Trials = c.trialOf(k, &s)
	}
	return s
}

func (c *Collector) rates(s *assay.StageSummary) {
	if s.Ended == 0 {
		s.Ended = max(c.latest, c.started)
	}
	whole := float64(c.lastToken-c.firstSend-c.down) / 1e9
	if c.firstSend != 0 && whole > 0 {
		s.WholeRequestsPerSecond = c.whole.ok / whole
		s.WholeOutputTokensPerSecond = c.whole.tokens / whole
	}
	of, seconds := c.whole, whole
	if c.noWindow != "" {
		s.RatesOf = assay.RatesOfWhole
	} else {
		counted := c.steady
		if c.plan.Kind == assay.LoadBatch {
			counted.to = c.loading.line.edge(counted.to) // the last batch's last token is in it
		}
		of, seconds = c.loading.line.sum(counted), float64(c.steady.to-c.steady.from)/1e9
		s.Little = c.little(of, seconds)
	}
	if seconds > 0 && c.firstSend != 0 {
		s.RequestsPerSecond = of.ok / seconds
		s.OutputTokensPerSecond = of.tokens / seconds
		s.TotalTokensPerSecond = (of.tokens + of.input) / seconds
		s.GoodputPerSecond = of.good / seconds
	}
	// What one stream sees while it is answered.
	if s.TPOT.N > 0 && s.TPOT.Mean > 0 {
		s.TokensPerUser = 1e3 / s.TPOT.Mean
	}
}

func (c *Collector) tokensFrom() string {
	switch {
	case c.fromUsage > 0 && c.fromChunks > 0:
		return "mixed"
	case c.fromUsage > 0:
		return "usage"
	case c.fromChunks > 0:
		return "chunks"
	}
	return ""
}

// Warnings are the doubts about the stage so far.
func (c *Collector) Warnings() []assay.Warning {
	s := c.Summary()
	return c.warnings(&s)
}

func (c *Collector) warnings(s *assay.StageSummary) []assay.Warning {
	var out []assay.Warning
	warn := func(kind, format string, args ...any) {
		out = append(out, assay.Warning{Kind: kind, Stage: c.plan.Name, Text: fmt.Sprintf(format, args...)})
	}
	if c.chunkTokens > 0 {
		if off := float64(c.usageTokens)/float64(c.chunkTokens) - 1; off > 0.02 || off < -0.02 {
			warn("token_count_disagrees", "the engine counted %d output tokens and its chunks showed %d (%+.1f %%): per-token figures follow its count, and what no chunk showed is taken to have come with the finish chunk",
				c.usageTokens, c.chunkTokens, off*100)
		}
	}
	if s.TokensFrom == "mixed" {
		warn("tokens_mixed", "output tokens of %d requests were counted by the engine, and of %d by chunks", c.fromUsage, c.fromChunks)
	}
	if c.littleIsOff(s.Little) {
		warn("little", "Little's law is off by %.1f %%: %.2f requests in flight by the gauge, %.2f by the requests' own marks", *s.Little.Off*100, *s.Little.Gauge, *s.Little.Product)
	}
	if s.MarkedGapShare > 0.01 {
		warn("marked_gaps", "the exact gaps are unknown for %.1f %% of the tokens, which the client read together; the percentiles of itl leave them out", s.MarkedGapShare*100)
	}
	if c.stepped > 0 {
		warn("clock_step", "%d requests were under way when the wall clock was stepped; they are left out of the latencies", c.stepped)
	}
	if c.disordered > 0 {
		warn("time_order", "%d times are negative or longer than a month; they are left out", c.disordered)
	}
	if c.lateSent > 0 {
		warn("held_by_cap", "%d of %d requests were sent more than a millisecond after their time, because %d were already in flight: ttft leaves this waiting out, ttft_intended has it", c.lateSent, c.requests, c.plan.Concurrency)
	}
	if s.NeverSent > 0 {
		warn("never_sent", "%d of %d scheduled requests were never sent: the load that was asked for was not reached", s.NeverSent, c.requests)
	}
	if s.Censored > 0 {
		warn("censored", "%d of %d requests were still under way when the stage's grace ended; their latencies, longer than the others', are missing", s.Censored, c.requests)
	}
	if c.backlog.grows(c.plan) {
		warn("backlog_grows", "the engine did not keep up: %d requests were waiting or under way in the middle of the stage and %d at its end, so latencies would have gone on rising", c.backlog.middle, c.backlog.end)
	}
	if c.askedLength > 0 && float64(c.otherLength) > 0.01*float64(c.askedLength) {
		warn("output_length", "%d of %d answers do not have the number of tokens that was asked for", c.otherLength, c.askedLength)
	}
	return out
}
