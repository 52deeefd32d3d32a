package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// ErrForged says that a run directory is not what our binary writes, or says
// something else than its own evidence: use nothing of it.
var ErrForged = errors.New("the run is not what was measured")

// Want is what a run must have measured.
type Want struct{ Model string }

// Examine reads a whole run directory that a stranger filled. The summary is made
// again from the requests: the one that came with it must say the same, and the
// one that is given back is ours.
func Examine(dir string, w Want) (run *journal.Run, sum assay.Summary, err error) {
	defer func() { // whatever it holds, the campaign goes on
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: reading it failed in the program itself: %v", ErrForged, p)
		}
	}()
	if run, err = journal.Open(dir); err != nil {
		return nil, sum, forged(err)
	}
	if m := run.Manifest(); m.Engine.Model != w.Model && w.Model != "" {
		return nil, sum, fmt.Errorf("%w: it measured the model %q, not %q", ErrForged, foreign.Line(m.Engine.Model, 200), w.Model)
	}
	if sum, err = summary.Of(run); err != nil {
		return nil, sum, forged(err)
	}
	for _, err := range run.Checks() {
		if err != nil {
			return nil, sum, forged(err)
		}
	}
	switch sent, err := run.Summary(); {
	case errors.Is(err, journal.ErrNone): // it was interrupted
	case err != nil:
		return nil, sum, forged(err)
	case !same(sent, &sum):
		return nil, sum, fmt.Errorf("%w: its summary does not follow from its requests", ErrForged)
	}
	return run, sum, nil
}

func forged(err error) error { return fmt.Errorf("%w: %s", ErrForged, foreign.Line(err.Error(), 500)) }

// same compares two summaries as they are written.
func same(a, b *assay.Summary) bool {
	x, err1 := plain(a)
	y, err2 := plain(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(x, y)
}

func plain(s *assay.Summary) (out any, err error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(b, &out)
}
