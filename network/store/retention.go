package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Retention is how long what is kept.
type Retention struct {
	Reports time.Duration // what no decision cites
	// Decisions and transitions; what they cite is kept as long.
	Decisions time.Duration
	Audit     time.Duration
	// Statements is how long the bytes of a published record are kept. Its id and
	// hash are kept as long as decisions.
	Statements time.Duration
}

// DefaultRetention keeps reports for three months, decisions and the audit log for
// two years, and published bytes for a month.
func DefaultRetention() Retention {
	const day = 24 * time.Hour
	return Retention{Reports: 92 * day, Decisions: 731 * day, Audit: 731 * day, Statements: 31 * day}
}

// check refuses a retention that would take away what a decision cites, or bytes
// that may still come back.
func (r Retention) check() error {
	if r.Reports <= 0 || r.Decisions <= 0 || r.Audit <= 0 || r.Statements <= 0 {
		return errors.New("every retention must be longer than nothing")
	}
	return nil
}

// Retain removes what is older than its retention: whole months on PostgreSQL,
// rows on SQLite. What a decision cites stays until the decision goes.
func (s *Store) Retain(ctx context.Context, keep Retention, now time.Time) error {
	if err := keep.check(); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	for table, before := range map[string]time.Time{
		"reports": now.Add(-keep.Reports), "transitions": now.Add(-keep.Decisions), "decisions": now.Add(-keep.Decisions), "audit": now.Add(-keep.Audit),
	} {
		if err := s.dropOld(ctx, table, before); err != nil {
			return fmt.Errorf("retention of %s: %w", table, err)
		}
	}
	return s.repeat(ctx, "retention", func(q database.Query) error { return s.sweep(ctx, q, keep, now) })
}

func (s *Store) dropOld(ctx context.Context, table string, before time.Time) error {
	if s.db.Dialect() == database.Postgres {
		return s.dropPartitions(ctx, table, before)
	}
	before = month(before, 0) // whole months, as PostgreSQL does
	return s.db.Repeat(ctx, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "DELETE FROM "+table+" WHERE at < $1", micros(before))
		return err
	})
}

// sweep removes the rows of tables without partitions.
func (s *Store) sweep(ctx context.Context, q database.Query, keep Retention, now time.Time) error {
	reports, decisions := month(now.Add(-keep.Reports), 0), month(now.Add(-keep.Decisions), 0)
	for _, st := range []struct {
		sql string
		at  time.Time
	}{
		// First what decisions that are gone have cited, then what only they needed.
		{"DELETE FROM citations WHERE decision_at < $1", decisions},
		{"DELETE FROM cited_reports WHERE at < $1 AND NOT EXISTS (SELECT 1 FROM citations c WHERE c.report = cited_reports.id)", reports},
		{"DELETE FROM evidence_refs WHERE report_at < $1 AND NOT EXISTS (SELECT 1 FROM cited_reports c WHERE c.id = evidence_refs.report)", reports},
		{"DELETE FROM report_keys WHERE at < $1", minTime(reports, decisions)},
		// A baseline that was replaced before the oldest decision is cited by none.
		{"DELETE FROM baselines WHERE EXISTS (SELECT 1 FROM baselines b WHERE b.peer = baselines.peer AND b.version = baselines.version + 1 AND b.at < $1)", decisions},
		{"UPDATE outbox SET bytes = " + s.empty() + " WHERE published_at < $1 AND length(bytes) > 0", now.Add(-keep.Statements)},
		{"DELETE FROM outbox WHERE published_at < $1", minTime(decisions, now.Add(-keep.Statements))},
		{"DELETE FROM rejections WHERE minute < $1", now.Add(-keep.Audit)},
		{"DELETE FROM tokens WHERE expires_at < $1", now.Add(-31 * 24 * time.Hour)},
		{"DELETE FROM enrolment_tokens WHERE expires_at < $1", now.Add(-31 * 24 * time.Hour)},
		{"DELETE FROM nonces WHERE expires_at < $1", now},
		{"DELETE FROM points WHERE at < $1", reports},
		{"DELETE FROM run_nonces WHERE at < $1", decisions},
		{"DELETE FROM anomalies WHERE at < $1", decisions},
		{"DELETE FROM findings WHERE at < $1", decisions},
		{"DELETE FROM demand WHERE at < $1", decisions},
		{"DELETE FROM measurement_nodes WHERE measurement IN (SELECT id FROM measurements WHERE created_at < $1 AND ended_at IS NOT NULL)", reports},
		{"DELETE FROM measurements WHERE created_at < $1 AND ended_at IS NOT NULL", reports},
		{"DELETE FROM commands WHERE created_at < $1 AND expires_at < $1", reports},
	} {
		if _, err := q.ExecContext(ctx, st.sql, micros(st.at)); err != nil {
			return err
		}
	}
	return nil
}

// empty is no bytes.
func (s *Store) empty() string {
	if s.db.Dialect() == database.SQLite {
		return "x''"
	}
	return "''::bytea"
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
