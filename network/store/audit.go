package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// AuditEntry is something that a known principal did, or was refused.
type AuditEntry struct {
	ID      string // a ULID
	At      time.Time
	Actor   string // person:ID, token:ID, node:ID or server:ID
	Action  string
	Target  string
	Node    string // if it is about one
	Owner   string // whose it is about; empty: only those see it who see all
	Outcome string
	Detail  string

	// Stated: a statement about it is in the trail already, as a transition's is. It
	// is not stored.
	Stated bool
}

// Recorder makes the record that states an audit entry to the ledger.
type Recorder func(ctx context.Context, e AuditEntry) (Record, error)

// RecordedBy is the same registry, whose audit entries go to the ledger too: each
// with its record, in the transaction that writes it.
func (s *Store) RecordedBy(r Recorder) *Store { return &Store{s.db, r} }

// Records says whether audit entries go to the ledger.
func (s *Store) Records() bool { return s.record != nil }

// recorded adds the records of a trail's audit entries. It is the one place where
// they are made, so that no change can be written without the other: whoever adds
// an operation has nothing to remember. They come first: what somebody did, and then
// what followed.
func (s *Store) recorded(ctx context.Context, t Trail) (Trail, error) {
	if s.record == nil {
		return t, nil
	}
	var records []Record
	for _, e := range t.Audit {
		if e.Stated {
			continue
		}
		r, err := s.record(ctx, e)
		if err != nil {
			return Trail{}, fmt.Errorf("record the audit entry %s: %w", e.ID, err)
		}
		records = append(records, r)
	}
	t.Outbox = append(records, t.Outbox...)
	return t, nil
}

// AddAudit adds entries to the audit log. What also changes something takes them
// in its Trail.
func (s *Store) AddAudit(ctx context.Context, t Trail) error {
	return s.tx(ctx, "write to the audit log", func(q database.Query) error { return s.leave(ctx, q, t) })
}

func insertAudit(ctx context.Context, q database.Query, entries []AuditEntry) error {
	for _, e := range entries {
		if _, err := q.ExecContext(ctx, "INSERT INTO audit (id, at, actor, action, target, node, owner, outcome, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			e.ID, micros(e.At), e.Actor, e.Action, e.Target, e.Node, e.Owner, e.Outcome, e.Detail); err != nil {
			return err
		}
	}
	return nil
}

// Audit lists the audit log, newest first, or a node's part of it.
func (s *Store) Audit(ctx context.Context, scope Scope, node string, p Page) (entries []AuditEntry, err error) {
	var a args
	query := "SELECT id, at, actor, action, target, node, owner, outcome, detail FROM audit WHERE " + scope.where(s.db, "owner", &a)
	if node != "" {
		query += " AND node = " + a.add(node)
	}
	query += p.newest("id", &a)
	err = s.view(ctx, "read the audit log", func(q database.Query) error {
		entries, err = all(ctx, q, func(r row) (e AuditEntry, err error) {
			return e, r.Scan(&e.ID, at(&e.At), &e.Actor, &e.Action, &e.Target, &e.Node, &e.Owner, &e.Outcome, &e.Detail)
		}, query, a...)
		return err
	})
	return entries, err
}

// Rejections is how many requests of nobody known were refused in a minute.
type Rejections struct {
	Minute time.Time
	Kind   string
	Count  int64
}

// AddRejections adds to the counts. Nobody can grow a log from outside by them:
// there is a row for a minute and a kind, and the kinds are ours.
func (s *Store) AddRejections(ctx context.Context, counts []Rejections) error {
	counts = slices.Clone(counts)
	// One order for all processes: they cannot wait for each other.
	slices.SortFunc(counts, func(a, b Rejections) int { return cmp.Or(a.Minute.Compare(b.Minute), cmp.Compare(a.Kind, b.Kind)) })
	return s.tx(ctx, "count rejections", func(q database.Query) error {
		for _, c := range counts {
			if _, err := q.ExecContext(ctx, `INSERT INTO rejections (minute, kind, count) VALUES ($1, $2, $3)
				ON CONFLICT (minute, kind) DO UPDATE SET count = rejections.count + excluded.count`, micros(c.Minute.Truncate(time.Minute)), c.Kind, c.Count); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rejections lists the counts, newest first. They are nobody's, and only those see
// them who see all.
func (s *Store) Rejections(ctx context.Context, scope Scope, p Page) (counts []Rejections, err error) {
	if !scope.All {
		return nil, nil
	}
	err = s.view(ctx, "list rejections", func(q database.Query) error {
		counts, err = all(ctx, q, func(r row) (c Rejections, err error) {
			return c, r.Scan(at(&c.Minute), &c.Kind, &c.Count)
		}, "SELECT minute, kind, count FROM rejections ORDER BY minute DESC, kind LIMIT $1", p.limit())
		return err
	})
	return counts, err
}
