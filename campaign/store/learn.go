package store

import (
	"context"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

// fade is what a try still counts after the next one: about the last ten matter.
const fade = 0.9

// Learn notes whether a location gave what it offered.
func (s *Store) Learn(ctx context.Context, provider, location string, good bool) error {
	g, b := 0.0, 1.0
	if good {
		g, b = 1, 0
	}
	return s.tx(ctx, "learn about a location of "+provider, func(q database.Query) error {
		_, err := q.ExecContext(ctx, `INSERT INTO locations (provider, location, good, bad, updated_at) VALUES ($1, $2, $3, $4, `+s.db.Now()+`)
			ON CONFLICT (provider, location) DO UPDATE SET good = locations.good * $5 + excluded.good, bad = locations.bad * $5 + excluded.bad, updated_at = excluded.updated_at`,
			provider, foreign.Line(location, maxText), g, b, fade)
		return err
	})
}

// Confidence is how likely each location of a provider gives what it offers, from 0 to
// 1; one that nobody has tried is not in it, and stands at a half.
func (s *Store) Confidence(ctx context.Context, provider string) (confidence map[string]float64, err error) {
	type tried struct {
		location  string
		good, bad float64
	}
	err = s.view(ctx, "read the confidence in locations of "+provider, func(q database.Query) error {
		rows, err := database.All(ctx, q, func(r database.Row) (t tried, err error) {
			return t, r.Scan(&t.location, &t.good, &t.bad)
		}, "SELECT location, good, bad FROM locations WHERE provider = $1", provider)
		confidence = make(map[string]float64, len(rows))
		for _, t := range rows {
			confidence[t.location] = (t.good + 1) / (t.good + t.bad + 2)
		}
		return err
	})
	return confidence, err
}

// MarkMachine has a machine never rented again, and says why.
func (s *Store) MarkMachine(ctx context.Context, provider, machine, reason string) error {
	return s.one(ctx, "mark a machine of "+provider, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "INSERT INTO bad_machines (provider, machine, reason, marked_at) VALUES ($1, $2, $3, "+s.db.Now()+") ON CONFLICT (provider, machine) DO NOTHING",
			provider, machine, foreign.Line(reason, maxText))
		return err
	})
}

// BadMachines gives the machines of a provider that are not rented again, and why.
func (s *Store) BadMachines(ctx context.Context, provider string) (bad map[string]string, err error) {
	err = s.view(ctx, "read the bad machines of "+provider, func(q database.Query) error {
		type machine struct{ name, reason string }
		rows, err := database.All(ctx, q, func(r database.Row) (m machine, err error) {
			return m, r.Scan(&m.name, &m.reason)
		}, "SELECT machine, reason FROM bad_machines WHERE provider = $1", provider)
		bad = make(map[string]string, len(rows))
		for _, m := range rows {
			bad[m.name] = m.reason
		}
		return err
	})
	return bad, err
}
