package summary

import (
	"math"

	"github.com/assay-bench/assay"
)

// path is what is known of the way between the client and the engine, by which
// the difference of two figures is judged. Times are in milliseconds.
type path struct {
	inFlight   float64  // requests under way, in the mean
	handshake  float64  // least time that opening a connection took
	afterFirst float64  // the engine's mean from the first token to the last
	later      float64  // tokens after the first, or steps, in the mean of requests
	queue      float64  // mean wait in the engine that the figure leaves out
	first      *float64 // by how much our TTFT is longer than the engine's
}

// allowance is the one rule of what transport explains: how much less and how
// much more than the engine's a figure of ours may be. docs/formats/run.md has
// it in words.
func allowance(what string, theirs float64, p path) (low, high float64) {
	// HTTP, validation and the wait for the engine's front end, which serves one
	// request after another, and the network's own time.
	front := p.handshake + max(10, 0.25*theirs, 2+0.6*p.inFlight)
	switch what {
	case "requests", "input_tokens", "output_tokens":
		return 0, 0
	case "ttft":
		return -1, front
	case "prompt":
		// Our TTFT against the prompt's own time: the engine's queue is in ours,
		// and nobody says how long it was.
		return -1, math.Inf(1)
	case "e2e":
		if p.first == nil {
			return -1, front
		}
		// What transport adds to the first token it adds to the last.
		room := max(1, 0.02*p.afterFirst)
		return *p.first - room, *p.first + room
	case "after_first":
		room := max(0.5, 0.02*theirs)
		return -room, room
	case "eval":
		// By its answers, which leave out what the engine does between tokens.
		room := max(0.5/max(1, p.later), 0.03*theirs)
		return -room, room
	case "tpot", "gap":
		room := max(0.5/max(1, p.later), 0.02*theirs)
		return -room, room
	case "token_time":
		// The engine's has the prompt's time in it, and not its own queue.
		return -0.02 * theirs, 0.02*theirs + (front+p.queue)/max(1, p.later)
	}
	return 0, 0
}

// compare sets a figure of ours beside the engine's.
func compare(what, from string, ours, theirs float64, p path) assay.Compared {
	c := assay.Compared{What: what, From: from, Unit: "ms"}
	switch what {
	case "requests":
		c.Unit = "1"
	case "input_tokens", "output_tokens":
		c.Unit = "tokens"
	}
	if !finite(ours) || !finite(theirs) {
		c.Note = "one of both is not known"
		return c
	}
	off := ours - theirs
	rule := what
	if what == "tpot" && from == "answers" {
		rule = "eval"
	}
	low, high := allowance(rule, theirs, p)
	c.Ours, c.Theirs, c.Off, c.Low, c.High = &ours, &theirs, &off, &low, &high
	if math.IsInf(high, 1) {
		c.High = nil
	}
	c.Verdict = assay.Pass
	if off < low || off > high {
		c.Verdict = assay.Fail
	}
	return c
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
