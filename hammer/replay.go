package hammer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/load"
)

// replayed is what a run on record has sent of its trace.
type replayed struct {
	stages map[string][]load.Sent
	ids    int // one more than the highest number in a request's id
}

// readReplayed reads which lines of the trace each stage has sent. The number of
// a request's prompt is its line (see [traced]).
func (r *run) readReplayed(dir string, before *journal.Resumed) error {
	planned, _ := r.plan.Next(nil)
	for _, p := range before.Stages {
		if p.Plan.Requests != planned.Requests {
			return fmt.Errorf("the trace %s has %d requests, and had %d when the run began; bring back the file as it was, or start a new run", r.cfg.Load.Trace, planned.Requests, p.Plan.Requests)
		}
	}
	rd, err := journal.Open(dir)
	if err != nil {
		return err
	}
	r.past.stages = map[string][]load.Sent{}
	prefix := r.requestIDs()
	for q, err := range rd.Requests() {
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(q.ID, prefix)); err == nil {
			r.past.ids = max(r.past.ids, n+1)
		}
		if q.Warmup || q.Prompt < 0 || q.Prompt >= r.lines() {
			continue
		}
		sent := r.past.stages[q.Stage]
		if sent == nil {
			sent = make([]load.Sent, len(r.trace))
			r.past.stages[q.Stage] = sent
		}
		became := load.SentDone
		if q.Error == assay.FailCancelled {
			became = load.SentAgain
		}
		line := q.Prompt % len(r.trace)
		sent[line] = max(sent[line], became)
	}
	return nil
}

// replay is how a stage sends the trace, or the rest of it.
func (r *run) replay(stage string) load.ReplayOptions {
	sent := r.past.stages[stage]
	if sent == nil {
		return load.ReplayOptions{}
	}
	return load.ReplayOptions{Sent: func(n int) load.Sent { return sent[n] }}
}

// lines is the number of prompts that all rounds of the trace have.
func (r *run) lines() int { return r.cfg.NumRuns * len(r.trace) }

// lineOf is the number of the prompt for a line of the trace, in the round that
// is under way. A warm-up, the n-th request of the run, is no line of it and has
// a number beyond them all.
func (r *run) lineOf(n int, a *load.Arrival) int {
	if a == nil {
		return r.lines() + n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.stage.Run-1)*len(r.trace) + a.N
}

// promptOf gives what a request asks.
func (r *run) promptOf(req *assay.Request) prompt {
	if r.trace != nil && req.Prompt >= r.lines() {
		return r.source.at(req.Prompt) // a warm-up; the feed is at the trace's lines
	}
	return r.feed.take(req.Prompt)
}

// maxAhead bounds the bytes of prompts that are made ahead.
const maxAhead = 64 << 20

// linesAhead is how many of the trace's prompts are made before they are needed.
func (r *run) linesAhead() int {
	tokens := 0
	for _, a := range r.trace {
		tokens = max(tokens, a.Input)
	}
	return max(16, min(256, maxAhead/(8*max(1, tokens+r.cfg.Data.PrefixTokens))))
}
