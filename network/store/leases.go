package store

import (
	"context"
	"errors"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Lease is the right to do a piece of work that only one process may do.
type Lease struct {
	Name   string
	Holder string // unique for each start of a process
	// Fence grows with each new holder: what a paused one still does with its own
	// number is refused.
	Fence int64
	Until time.Time // by the database's clock
}

// Acquire takes or prolongs a lease by the database's clock. ErrLease: somebody
// else has it.
func (s *Store) Acquire(ctx context.Context, name, holder string, hold time.Duration) (l Lease, err error) {
	l = Lease{Name: name, Holder: holder}
	now := s.db.Now()
	err = s.one(ctx, "acquire lease "+name, func(q database.Query) error {
		err := q.QueryRowContext(ctx, `INSERT INTO leases (name, holder, until, fence) VALUES ($1, $2, `+now+` + $3, 1)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until,
				fence = leases.fence + CASE WHEN leases.holder = excluded.holder AND leases.until > `+now+` THEN 0 ELSE 1 END
			WHERE leases.holder = excluded.holder OR leases.until <= `+now+`
			RETURNING fence, until`, name, holder, hold.Microseconds()).Scan(&l.Fence, at(&l.Until))
		if errors.Is(found(err), ErrNotFound) {
			return ErrLease
		}
		return err
	})
	return l, err
}

// Release lets go of a lease before it ends.
func (s *Store) Release(ctx context.Context, l Lease) error {
	return s.one(ctx, "release lease "+l.Name, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE leases SET until = 0 WHERE name = $1 AND holder = $2 AND fence = $3", l.Name, l.Holder, l.Fence)
		return err
	})
}

// held is nil if a lease is held, and makes it stay so until the transaction
// ends.
func (s *Store) held(ctx context.Context, q database.Query, l Lease) error {
	var one int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM leases WHERE name = $1 AND holder = $2 AND fence = $3 AND until > "+s.db.Now()+s.db.ForShare(), l.Name, l.Holder, l.Fence).Scan(&one)
	if errors.Is(found(err), ErrNotFound) {
		return ErrLease
	}
	return err
}

// Due is a timer: something is to be done for a subject at a time. There is one of
// a kind for a subject.
type Due struct {
	Kind    string // as the server names it: a re-verification, a drain's deadline
	Subject string // mostly a node's id
	At      time.Time
}

// SetDue sets a timer, or sets it anew; the zero time removes it.
func (s *Store) SetDue(ctx context.Context, due ...Due) error {
	return s.repeat(ctx, "set timers", func(q database.Query) error { return setDue(ctx, q, due) })
}

func setDue(ctx context.Context, q database.Query, due []Due) error {
	for _, d := range due {
		var err error
		if d.At.IsZero() {
			_, err = q.ExecContext(ctx, "DELETE FROM due WHERE kind = $1 AND subject = $2", d.Kind, d.Subject)
		} else {
			_, err = q.ExecContext(ctx, `INSERT INTO due (kind, subject, at, claimed_by, claimed_until) VALUES ($1, $2, $3, '', 0)
				ON CONFLICT (kind, subject) DO UPDATE SET at = excluded.at, claimed_by = '', claimed_until = 0`, d.Kind, d.Subject, micros(d.At))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ClaimDue takes timers of a kind that have run out, for a while: nobody else gets
// them until then. What was done is set anew or removed by DoneDue, or in the
// decision that came of it.
func (s *Store) ClaimDue(ctx context.Context, kind, holder string, now time.Time, hold time.Duration, limit int) (due []Due, err error) {
	clock := s.db.Now()
	err = s.tx(ctx, "claim timers", func(q database.Query) error {
		due, err = all(ctx, q, func(r row) (d Due, err error) {
			return d, r.Scan(&d.Kind, &d.Subject, at(&d.At))
		}, `UPDATE due SET claimed_by = $1, claimed_until = `+clock+` + $2
			WHERE kind = $3 AND subject IN (SELECT subject FROM due WHERE kind = $3 AND at <= $4 AND claimed_until <= `+clock+`
				ORDER BY at, subject LIMIT $5`+s.db.SkipLocked()+`) RETURNING kind, subject, at`,
			holder, hold.Microseconds(), kind, micros(now), limit)
		return err
	})
	return due, err
}

// DoneDue removes a timer that was claimed, unless it was set anew meanwhile.
func (s *Store) DoneDue(ctx context.Context, d Due, holder string) error {
	return s.one(ctx, "end a timer", func(q database.Query) error {
		_, err := q.ExecContext(ctx, "DELETE FROM due WHERE kind = $1 AND subject = $2 AND at = $3 AND claimed_by = $4", d.Kind, d.Subject, micros(d.At), holder)
		return err
	})
}
