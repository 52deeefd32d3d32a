package hammer

import (
	"context"
	"strings"

	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/load"
)

// requestIDs is what the ids of the run's requests begin with.
func (r *run) requestIDs() string {
	if r.cfg.RequestIDs != "" {
		return r.cfg.RequestIDs
	}
	return strings.ToLower(r.id[len(r.id)-8:]) + "-"
}

// supply chooses where the prompts come from, and starts making them.
func (r *run) supply(ctx context.Context, ruler ruler, before *journal.Resumed) error {
	if r.cfg.Data.Kind == "random" {
		words := newRandom(r.cfg.Data, ruler, r.cfg.Seed, r.id)
		r.source = words
		if r.trace != nil {
			r.source = newTraced(words, r.trace, r.cfg.Load.TraceBlock)
		}
	} else {
		set, err := r.dataset(ctx, ruler)
		if err != nil {
			return err
		}
		r.source = set
	}
	first, ahead := 0, r.cfg.ahead()
	if before != nil {
		// Numbers that were under way when the run broke off are not used
		// again: a late answer to one must not be taken for another.
		jump := 1 << 16
		if set, ok := r.source.(listed); ok {
			// A dataset goes on where it was: whole rounds are jumped.
			n := len(set.all)
			jump = (jump + n - 1) / n * n
		}
		first = max(before.NextPrompt(), r.past.ids) + jump
	}
	r.next.Store(int64(first))
	if r.trace != nil {
		first, ahead = r.firstLine(before), r.linesAhead()
	}
	r.feed = newFeed(r.source, first, ahead)
	return nil
}

// firstLine is the number of the first prompt that a replay needs.
func (r *run) firstLine(before *journal.Resumed) int {
	if before == nil || len(before.Stages) == 0 {
		return 0
	}
	under := before.Stages[len(before.Stages)-1].Plan
	n := max(0, under.Run-1) * len(r.trace)
	for _, s := range r.past.stages[under.Name] {
		if s != load.SentDone {
			break
		}
		n++
	}
	return n
}
