package database

import (
	"context"
	"database/sql"
	"time"
)

// Time is a time as it is stored: NULL for none.
func Time(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return Micros(t)
}

// At reads a stored time; NULL is the zero time.
func At(t *time.Time) sql.Scanner { return instant{t} }

type instant struct{ to *time.Time }

func (i instant) Scan(from any) error {
	var n sql.NullInt64
	if err := n.Scan(from); err != nil {
		return err
	}
	*i.to = time.Time{}
	if n.Valid {
		*i.to = time.UnixMicro(n.Int64).UTC()
	}
	return nil
}

// Row is what has columns to scan.
type Row interface{ Scan(to ...any) error }

// All collects the rows of a query.
func All[T any](ctx context.Context, q Query, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
