package store

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/database"
)

// slack is the part of an interval by which a call may leave late, and minSlack the
// least: no clock wakes somebody up sooner. A slot is longer by it, so that two calls
// are never closer than the interval: one that woke up later takes another slot.
const (
	slack    = 8
	minSlack = 3 * time.Millisecond
)

// maxQueue is how far ahead slots are given out. Whoever waits longer asks again, and
// a slot of a process that died is no great loss.
const maxQueue = 30 * time.Second

// Limits gives the [provider.Wait] that keeps a provider's limits together with all
// other processes on this database.
func (s *Store) Limits(t provider.Traits) provider.Wait {
	return func(ctx context.Context, c provider.Call) error {
		each, any := slot(t.MinInterval[c]), slot(t.MinAny)
		if each == 0 && any == 0 {
			return ctx.Err()
		}
		for lead := time.Duration(0); ; {
			asked := time.Now()
			_, wait, given, err := s.take(ctx, t.Name, c, each, any, lead)
			if took := time.Since(asked); err == nil && took > lead {
				lead = 2 * took // so that the next slot is not over before the answer is here
			}
			if err == nil {
				err = sleep(ctx, wait-time.Since(asked))
			}
			if err != nil {
				return fmt.Errorf("%w: wait for a turn to call %s of %s: %w", provider.ErrNotSent, c, t.Name, err)
			}
			if given && time.Since(asked)-wait <= tolerance(each, any) {
				return nil
			}
		}
	}
}

// slot is how long a call occupies its row.
func slot(interval time.Duration) time.Duration {
	if interval == 0 {
		return 0
	}
	return interval + max(interval/slack, minSlack)
}

// tolerance is how late a call may leave, by the shorter of its slots.
func tolerance(each, any time.Duration) time.Duration {
	least := each
	if any > 0 && (any < each || each == 0) {
		least = any
	}
	return max(least/(slack+1), minSlack)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// take takes the next free moment of a call that is not before lead, by one
// conditional UPDATE and the database's clock, and says how long it is until then. Where the queue is long it takes nothing, and says how long
// to wait before asking again.
func (s *Store) take(ctx context.Context, name string, c provider.Call, each, any, lead time.Duration) (at time.Time, wait time.Duration, given bool, err error) {
	column, err := callColumn(c)
	if err != nil {
		return at, 0, false, err
	}
	if err := s.provider(ctx, name); err != nil {
		return at, 0, false, err
	}
	now := s.db.Now()
	// The clock is read once: a microsecond later the two columns would differ by it.
	next := s.greatest("clock.moment + $5", "any_next", column)
	err = s.one(ctx, "take a turn", func(q database.Query) error {
		moments, err := database.All(ctx, q, func(r database.Row) (m [2]time.Time, err error) {
			return m, r.Scan(database.At(&m[0]), database.At(&m[1]))
		}, `UPDATE providers SET any_next = `+next+` + $1, `+column+` = `+next+` + $2 FROM (SELECT `+now+` AS moment) AS clock WHERE name = $3 AND `+next+` <= clock.moment + $4
			RETURNING `+column+` - $2, `+now, any.Microseconds(), each.Microseconds(), name, maxQueue.Microseconds(), lead.Microseconds())
		if given = len(moments) == 1; given {
			at, wait = moments[0][0], moments[0][0].Sub(moments[0][1])
		}
		return err
	})
	if !given {
		wait = maxQueue / 4
	}
	return at, wait, given, err
}

// Backoff lets nobody make a call for a while, since the provider says that they come
// too fast.
func (s *Store) Backoff(ctx context.Context, name string, c provider.Call, d time.Duration) error {
	column, err := callColumn(c)
	if err != nil {
		return err
	}
	if err := s.provider(ctx, name); err != nil {
		return err
	}
	return s.one(ctx, "wait with calls of "+name, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE providers SET "+column+" = "+s.greatest(column, s.db.Now()+" + $1")+" WHERE name = $2", d.Microseconds(), name)
		return err
	})
}

// callColumn is the column of a call. Calls are words of ours, and still only those
// that have a column get into a statement.
func callColumn(c provider.Call) (string, error) {
	for _, known := range provider.Calls() {
		if c == known {
			return string(c) + "_next", nil
		}
	}
	return "", fmt.Errorf("there is no limit for calls of %q", c)
}

func (s *Store) greatest(values ...string) string {
	f := "max("
	if s.db.Dialect() == database.Postgres {
		f = "greatest("
	}
	for k, v := range values {
		if k > 0 {
			f += ", "
		}
		f += v
	}
	return f + ")"
}

// provider makes a provider's row.
func (s *Store) provider(ctx context.Context, name string) error {
	var n int
	err := s.view(ctx, "read provider "+name, func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT count(*) FROM providers WHERE name = $1", name).Scan(&n)
	})
	if err != nil || n > 0 {
		return err
	}
	return s.one(ctx, "add provider "+name, func(q database.Query) error {
		_, err := q.ExecContext(ctx, `INSERT INTO providers (name, any_next, offers_next, create_next, list_next, destroy_next, get_next, balance_next, looked_at, distrust)
			VALUES ($1, 0, 0, 0, 0, 0, 0, 0, 0, '') ON CONFLICT (name) DO NOTHING`, name)
		return err
	})
}

// Looked is when the last look at a provider began that was noted; zero: there was
// none.
func (s *Store) Looked(ctx context.Context, name string) (at time.Time, err error) {
	err = s.view(ctx, "read when "+name+" was looked at", func(q database.Query) error {
		moments, err := database.All(ctx, q, func(r database.Row) (t time.Time, err error) { return t, r.Scan(database.At(&t)) }, "SELECT looked_at FROM providers WHERE name = $1", name)
		if len(moments) > 0 {
			at = moments[0]
		}
		return err
	})
	return at, err
}
