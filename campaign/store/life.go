package store

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

// maxText bounds what providers and errors say in a row.
const maxText = 500

// Call commits that create is about to be called, once for each intent. ErrLease: it
// was called before, or the intent has ended meanwhile, and it must not be called.
// ErrHeld: the provider is not to be used.
func (s *Store) Call(ctx context.Context, label string) error {
	return s.tx(ctx, "call create for "+label, func(q database.Query) error {
		i, err := s.intent(ctx, q, label, true)
		if err != nil {
			return err
		}
		if err := s.held(ctx, q, i.Provider); err != nil {
			return err
		}
		n, err := affected(q.ExecContext(ctx, `UPDATE intents SET state = 'creating', called_at = `+s.db.Now()+`, longest_at = `+s.db.Now()+` + life
			WHERE label = $1 AND state = 'intended' AND lease_at > `+s.db.Now(), label))
		if err == nil && n == 0 {
			return fmt.Errorf("%w: it is %s", ErrLease, i.State)
		}
		return err
	})
}

// Uncall notes that create was not called after all, since no request was sent: it may
// be called again.
func (s *Store) Uncall(ctx context.Context, label string) error {
	return s.one(ctx, "note that create was not called for "+label, func(q database.Query) error {
		n, err := affected(q.ExecContext(ctx, `UPDATE intents SET state = 'intended', called_at = NULL
			WHERE label = $1 AND state = 'creating' AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.label = $1)`, label))
		if err == nil && n == 0 {
			return ErrLease
		}
		return err
	})
}

// Renew prolongs a lease to now + d, and not beyond the longest life. ErrLease: it
// has ended, and reap may have begun to destroy.
func (s *Store) Renew(ctx context.Context, label string, d time.Duration) (until time.Time, err error) {
	err = s.tx(ctx, "renew the lease of "+label, func(q database.Query) error {
		i, err := s.intent(ctx, q, label, true)
		if err != nil {
			return err
		}
		now, err := s.now(ctx, q)
		if err != nil {
			return err
		}
		if i.State != Intended && i.State != Creating && i.State != Live || !i.Lease.After(now) {
			return fmt.Errorf("%w: it is %s, and its lease ended at %s", ErrLease, i.State, i.Lease.Format(time.RFC3339))
		}
		until = now.Add(d)
		if until.After(i.Longest) {
			until = i.Longest
		}
		_, err = q.ExecContext(ctx, "UPDATE intents SET lease_at = $1 WHERE label = $2", database.Time(until), label)
		return err
	})
	return until, err
}

// Declined notes that the provider answered create with a plain no. It is only a
// word: the label is looked for all the same.
func (s *Store) Declined(ctx context.Context, label string) error {
	return s.one(ctx, "note the answer to create for "+label, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE intents SET declined = 1 WHERE label = $1 AND state = 'creating'", label)
		return err
	})
}

// End begins the end of an intent. One for which create was never called, or not
// sent, has its end at once.
func (s *Store) End(ctx context.Context, label, why string, sent bool) error {
	return s.repeat(ctx, "end "+label, func(q database.Query) error {
		i, err := s.intent(ctx, q, label, true)
		if err != nil {
			return err
		}
		if i.State == Intended || i.State == Creating && !sent && len(i.Instances) == 0 {
			return s.close(ctx, q, i, ProofNotCalled, 0)
		}
		return s.beginEnd(ctx, q, label, why)
	})
}

func (s *Store) beginEnd(ctx context.Context, q database.Query, label, why string) error {
	_, err := q.ExecContext(ctx, "UPDATE intents SET state = 'ending', why = $1, ending_at = "+s.db.Now()+" WHERE label = $2 AND state IN ('intended', 'creating', 'live')", foreign.Line(why, maxText), label)
	return err
}

// Expire begins the end of every intent of a provider whose lease has ended, and says
// of how many.
func (s *Store) Expire(ctx context.Context, provider string) (n int, err error) {
	err = s.repeat(ctx, "end what has no lease at "+provider, func(q database.Query) error {
		n = 0
		expired, err := s.intents(ctx, q, "provider = $1 AND state IN ('intended', 'creating', 'live') AND lease_at <= "+s.db.Now()+" ORDER BY label"+s.db.ForUpdate(), provider)
		for _, i := range expired {
			n++
			if i.State == Intended {
				err = s.close(ctx, q, i, ProofNotCalled, 0)
			} else {
				err = s.beginEnd(ctx, q, i.Label, "its lease ended at "+i.Lease.Format(time.RFC3339))
			}
			if err != nil {
				return err
			}
		}
		return err
	})
	return n, err
}

// Confirm ends an intent by the word of an operator, who has looked. It is charged
// until now, or until it was last known to be there.
func (s *Store) Confirm(ctx context.Context, label string) (i Intent, err error) {
	err = s.tx(ctx, "confirm the end of "+label, func(q database.Query) error {
		i, err = s.intent(ctx, q, label, true)
		if err != nil {
			return err
		}
		switch i.State {
		case Ended:
			return nil
		case Ending, Unproved:
			now, err := s.now(ctx, q)
			if err != nil {
				return err
			}
			if _, err := q.ExecContext(ctx, "UPDATE instances SET ended_at = $1, proof = $2, refused_at = NULL WHERE label = $3 AND ended_at IS NULL", database.Time(now), ProofOperator, label); err != nil {
				return err
			}
			return s.close(ctx, q, i, ProofOperator, i.cost(now))
		}
		return fmt.Errorf("it is %s, and nobody has ended it: its lease lasts until %s", i.State, i.Lease.Format(time.RFC3339))
	})
	if err != nil {
		return Intent{}, err
	}
	return s.Intent(ctx, label)
}

// cost is what an intent's instances have cost, as far as we can tell: from the call
// of create until they were first missed, or now; and all that was reserved beside
// time. One that never was seen cost nothing.
func (i Intent) cost(now time.Time) int64 {
	var nano int64
	for _, n := range i.Instances {
		from, to := i.Called, now
		if from.IsZero() || n.First.Before(from) {
			from = n.First
		}
		if !n.Gone.IsZero() {
			to = n.Gone
		}
		nano += int64(float64(i.Hour.Nano)*to.Sub(from).Hours()) + i.Extra.Nano
	}
	return nano
}

// close ends an intent and settles its money. spent is what it has cost in all: of one
// that was taken up again a part was charged before.
func (s *Store) close(ctx context.Context, q database.Query, i Intent, proof string, spent int64) error {
	if i.State == Ended {
		return nil
	}
	if err := s.settle(ctx, q, i, i.Reserved.Nano, spent-i.Spent.Nano); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, "UPDATE intents SET state = 'ended', ended_at = "+s.db.Now()+", proof = $1, spent = $2 WHERE label = $3", proof, spent, i.Label)
	return err
}
