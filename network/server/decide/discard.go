package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// graceOfEvidence is how long an object stays that no report names: an upload of a
// report that is being announced may be under way.
const graceOfEvidence = 24 * time.Hour

// maxDiscard is how many objects one turn removes; the next one goes on.
const maxDiscard = 500

// discard removes objects that nobody needs any more from the storage. The registry
// forgets an object first, which it refuses while a report names it.
func (d *Decider) discard(ctx context.Context, now time.Time) error {
	if d.o.Discard == nil {
		return nil
	}
	objects, err := d.store.UnneededEvidence(ctx, now.Add(-graceOfEvidence), maxDiscard)
	if err != nil {
		return err
	}
	for _, o := range objects {
		err := d.store.ForgetEvidence(ctx, o.SHA256)
		if errors.Is(err, store.ErrConflict) {
			continue // a new report names it
		}
		if err == nil {
			err = d.o.Discard(ctx, evidence.Object{SHA256: o.SHA256, Size: o.Size})
		}
		if err != nil {
			return fmt.Errorf("remove evidence that nobody needs: %w", err)
		}
	}
	return nil
}
