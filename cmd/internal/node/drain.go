package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
)

// pollEvery is how often a node is looked at that is waited for.
const pollEvery = time.Second

// await waits until nothing runs any more on nodes whose drain was noted. What it
// sees goes into their outcomes.
func (f *actFlags) await(ctx context.Context, c *remote.Client, all []outcome, progress io.Writer) error {
	limit := f.timeout
	switch {
	case limit != 0:
	case f.within != 0:
		limit = f.within + time.Minute
	default:
		limit = time.Hour
	}
	var waiting []*outcome
	for i := range all {
		if all[i].After != nil {
			waiting = append(waiting, &all[i])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var errs []error
	for round := 0; ; round++ {
		var left []*outcome
		for _, o := range waiting {
			over, err := drained(o)
			if !over {
				left = append(left, o)
			}
			errs = append(errs, err)
		}
		if waiting = left; len(waiting) == 0 {
			return errors.Join(errs...)
		}
		if round == 0 {
			fmt.Fprintf(progress, "waiting for %d to be drained, %s at most\n", len(waiting), limit)
		}
		select {
		case <-ctx.Done():
			return errors.Join(append(errs, cli.Unknown(fmt.Errorf("%d are still draining after %s, the first of them %s: the drain goes on, and `assay node list --intent draining` shows it", len(waiting), limit, waiting[0].name)))...)
		case <-time.After(pollEvery):
		}
		for _, o := range waiting {
			// A server that does not answer for a moment does not end the wait.
			if d, err := get(ctx, c, o.Node); err == nil {
				o.After = &d
			}
		}
	}
}

// drained says whether a drain is over; an error: it was taken back.
func drained(o *outcome) (over bool, err error) {
	switch intent := factsOf(*o.After, o.replica).intent; intent {
	case api.IntentDraining:
		return false, nil
	case api.IntentDrained, api.IntentRetired:
		o.Why = "it is " + string(intent)
		return true, nil
	default:
		return true, fmt.Errorf("node %s: somebody took the drain back: its intent is %s", o.name, intent)
	}
}
