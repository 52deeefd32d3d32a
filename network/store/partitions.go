package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// partitioned are the tables that PostgreSQL keeps in a partition for each month.
var partitioned = []string{"reports", "transitions", "decisions", "audit"}

// monthsAhead is how many months after this one have their partitions already.
const monthsAhead = 3

// month is the first moment of a month, UTC.
func month(t time.Time, plus int) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month()+time.Month(plus), 1, 0, 0, 0, 0, time.UTC)
}

// partition is the name of a table's partition for the month that begins then.
func partition(table string, begin time.Time) string { return table + "_" + begin.Format("200601") }

// MakePartitions makes those of the month before now, so that what was begun then
// has a place, of this one and of the next three. It is called at start and once a
// day; SQLite has none.
func (s *Store) MakePartitions(ctx context.Context, now time.Time) error {
	if s.db.Dialect() != database.Postgres {
		return nil
	}
	for _, table := range partitioned {
		for i := -1; i <= monthsAhead; i++ {
			if err := s.makePartition(ctx, table, month(now, i)); err != nil {
				return fmt.Errorf("make the partitions of %s: %w", table, err)
			}
		}
	}
	return nil
}

// makePartition looks first: making one locks the table for a moment, and another
// process may be making it.
func (s *Store) makePartition(ctx context.Context, table string, begin time.Time) error {
	name, there := partition(table, begin), false
	err := s.db.View(ctx, func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT to_regclass($1::text) IS NOT NULL", name).Scan(&there)
	})
	if err != nil || there {
		return err
	}
	err = s.db.Tx(ctx, func(q database.Query) error {
		if _, err := q.ExecContext(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil { // nobody waits behind us for long
			return err
		}
		_, err := q.ExecContext(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)",
			name, table, database.Micros(begin), database.Micros(month(begin, 1))))
		return err
	})
	if database.ThereAlready(err) {
		return nil
	}
	return err
}

// dropPartitions drops those whose every row is older.
func (s *Store) dropPartitions(ctx context.Context, table string, before time.Time) error {
	var names []string
	err := s.db.View(ctx, func(q database.Query) (err error) {
		names, err = all(ctx, q, func(r row) (n string, err error) { return n, r.Scan(&n) },
			"SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass($1::text) ORDER BY 1", table)
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		begin, err := time.Parse("200601", strings.TrimPrefix(name, table+"_"))
		if err != nil || month(begin, 1).After(before) {
			continue // somebody else's, or still needed
		}
		if err := s.db.Tx(ctx, func(q database.Query) error {
			if _, err := q.ExecContext(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil {
				return err
			}
			_, err := q.ExecContext(ctx, "DROP TABLE IF EXISTS "+name)
			return err
		}); err != nil {
			return fmt.Errorf("drop %s: %w", strconv.Quote(name), err)
		}
	}
	return nil
}
