package summary

import (
	"math"
	"strings"

	"github.com/assay-bench/assay"
)

// oursOf sums what we saw of a stage's requests, warm-ups and all, as the engine
// counts them. Times are in nanoseconds.
type oursOf struct {
	ok      int64 // answered in full
	cut     int64 // sent, perhaps counted by the engine, and not ended by it
	ended   int64 // of these, ended by the engine's side
	stepped int64 // across a step of the clock: their times are none
	uncount int64 // answered, and tokens not counted by the engine

	input, cached, output int64

	ttft, e2e, afterFirst float64
	tpot                  float64 // ns; a request of one token adds 0, as vLLM has it
	perToken              float64 // E2E ÷ tokens
	gaps                  int64
	silent                int64 // chunks of a choice that brought no token
	later, held           int64 // tokens after the first; of these, in the first arrival
	handshake             float64

	said said
}

// said sums what the engine said in its answers, beside ours of the same
// requests.
type said struct {
	n, far         int64 // requests that told their generation; of these, too far off
	ours, theirs   float64
	farthest       float64 // ours − theirs
	evalN          int64
	evalOurs, eval float64
	evalLater      float64
	promptN        int64
	promptOurs     float64
	prompt         float64 // prompt and load
}

func (o *oursOf) add(r *assay.Request) {
	if r.Connect != 0 {
		if took := float64(r.Connect - max(r.Scheduled, r.Eligible)); took >= 0 && (o.handshake == 0 || took < o.handshake) {
			o.handshake = took
		}
	}
	if !r.OK() {
		if counted(r) {
			o.cut++
		}
		switch r.Error {
		case assay.FailEmpty, assay.FailTruncated, assay.FailStreamError:
			o.ended++
		}
		return
	}
	o.ok++
	ttft, ok1 := r.TTFT()
	e2e, ok2 := r.E2E()
	if r.ClockStep || !ok1 || !ok2 || !plausible(ttft) || !plausible(e2e) || e2e < ttft {
		o.stepped++
		return
	}
	if r.TokensFrom != "usage" {
		o.uncount++
	}
	tokens := tokenCount(r.OutputTokens)
	o.input, o.cached, o.output = o.input+tokenCount(r.InputTokens), o.cached+tokenCount(r.CachedTokens), o.output+tokens
	o.ttft, o.e2e, o.afterFirst = o.ttft+float64(ttft), o.e2e+float64(e2e), o.afterFirst+float64(e2e-ttft)
	if tpot, ok := r.TPOT(); ok {
		o.tpot += tpot
	}
	if tokens > 0 {
		o.perToken += float64(e2e) / float64(tokens)
		o.later += tokens - 1
		if !r.FirstMerged { // else it was the client that read them together
			o.held += max(0, int64(r.FirstTokens())-1)
		}
	}
	o.gaps += int64(len(r.Gaps))
	o.silent += int64(strings.Count(r.Other, "e"))
	if r.Engine != nil {
		o.said.add(r, float64(ttft), float64(e2e-ttft))
	}
}

// counted reports whether an engine may have a request that failed in its sums.
func counted(r *assay.Request) bool {
	switch r.Error {
	case assay.FailRefused, assay.FailHTTP4xx, assay.FailHTTP429, assay.FailHTTP5xx, assay.FailNeverSent:
		return false
	}
	return r.Sent != 0
}

func (s *said) add(r *assay.Request, ttft, afterFirst float64) {
	e := r.Engine
	if e.Generation > 0 && plausible(e.Generation) {
		theirs := float64(e.Generation)
		s.n++
		s.ours, s.theirs = s.ours+afterFirst, s.theirs+theirs
		off := afterFirst - theirs
		if math.Abs(off) > max(1e6, 0.02*theirs) {
			s.far++
		}
		if math.Abs(off) > math.Abs(s.farthest) {
			s.farthest = off
		}
	}
	if tpot, ok := r.TPOT(); ok && e.Eval > 0 && plausible(e.Eval) && e.EvalIntervals > 0 {
		s.evalN++
		s.evalOurs, s.eval = s.evalOurs+tpot, s.eval+float64(e.Eval)/float64(e.EvalIntervals)
		s.evalLater += float64(r.OutputTokens - r.FirstTokens())
	}
	if e.Prompt > 0 && plausible(e.Prompt) && e.Load >= 0 && plausible(e.Load) {
		s.promptN++
		s.promptOurs, s.prompt = s.promptOurs+ttft, s.prompt+float64(e.Prompt+e.Load)
	}
}
