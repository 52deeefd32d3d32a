package store

import (
	"context"
	"fmt"
	"slices"
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
		there, err := s.partitions(ctx, table)
		if err != nil {
			return fmt.Errorf("list the partitions of %s: %w", table, err)
		}
		var missing []time.Time
		for i := -1; i <= monthsAhead; i++ {
			if begin := month(now, i); !slices.Contains(there, partition(table, begin)) {
				missing = append(missing, begin)
			}
		}
		if err := s.makePartitions(ctx, table, missing); err != nil {
			return fmt.Errorf("make the partitions of %s: %w", table, err)
		}
	}
	return nil
}

// partitions lists the names of a table's partitions.
func (s *Store) partitions(ctx context.Context, table string) (names []string, err error) {
	err = s.db.View(ctx, func(q database.Query) error {
		names, err = all(ctx, q, func(r row) (n string, err error) { return n, r.Scan(&n) },
			"SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass($1::text) ORDER BY 1", table)
		return err
	})
	return names, err
}

// makePartitions makes partitions, unless another process is making them. That
// locks the table for a moment.
func (s *Store) makePartitions(ctx context.Context, table string, begins []time.Time) error {
	if len(begins) == 0 {
		return nil
	}
	err := s.changeTables(ctx, func(q database.Query) error {
		for _, begin := range begins {
			if _, err := q.ExecContext(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)",
				partition(table, begin), table, database.Micros(begin), database.Micros(month(begin, 1)))); err != nil {
				return err
			}
		}
		return nil
	})
	if database.ThereAlready(err) && len(begins) > 1 { // all or none: the others may be missing
		for _, begin := range begins {
			if err := s.makePartitions(ctx, table, []time.Time{begin}); err != nil {
				return err
			}
		}
		return nil
	}
	if database.ThereAlready(err) {
		return nil
	}
	return err
}

// changeTables runs a transaction that needs a table for itself. It does not wait
// for it long, since everybody else would wait behind it; Tx tries again.
func (s *Store) changeTables(ctx context.Context, do func(database.Query) error) error {
	return s.db.Tx(ctx, func(q database.Query) error {
		if _, err := q.ExecContext(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil {
			return err
		}
		return do(q)
	})
}

// dropPartitions drops those whose every row is older.
func (s *Store) dropPartitions(ctx context.Context, table string, before time.Time) error {
	names, err := s.partitions(ctx, table)
	if err != nil {
		return err
	}
	for _, name := range names {
		begin, err := time.Parse("200601", strings.TrimPrefix(name, table+"_"))
		if err != nil || month(begin, 1).After(before) {
			continue // somebody else's, or still needed
		}
		if err := s.changeTables(ctx, func(q database.Query) error {
			_, err := q.ExecContext(ctx, "DROP TABLE IF EXISTS "+name)
			return err
		}); err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
	}
	return nil
}
