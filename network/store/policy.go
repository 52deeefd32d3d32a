package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Policy is a policy as it was applied. Its bytes are the file's.
type Policy struct {
	Version int64 // from 1, each applied one is one more
	Bytes   []byte
	By      string
	At      time.Time
}

// Policy is the one in force, or one of an earlier version if that is not 0.
func (s *Store) Policy(ctx context.Context, version int64) (p Policy, err error) {
	err = s.view(ctx, "read the policy", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT version, bytes, applied_by, at FROM policies WHERE version = $1 OR $1 = 0 ORDER BY version DESC LIMIT 1", version).Scan(&p.Version, &p.Bytes, &p.By, at(&p.At))
	})
	return p, err
}

// PolicyVersion is the version of the policy in force; 0: none was applied.
func (s *Store) PolicyVersion(ctx context.Context) (version int64, err error) {
	err = s.view(ctx, "read the policy's version", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM policies").Scan(&version)
	})
	return version, err
}

// ApplyPolicy makes bytes the policy in force. The same bytes as before change
// nothing. ErrConflict: another one was applied at the same time.
func (s *Store) ApplyPolicy(ctx context.Context, p Policy, t Trail) (version int64, applied bool, err error) {
	err = s.tx(ctx, "apply a policy", func(q database.Query) error {
		var hash string
		err := q.QueryRowContext(ctx, "SELECT version, sha256 FROM policies ORDER BY version DESC LIMIT 1").Scan(&version, &hash)
		if err != nil && !errors.Is(found(err), ErrNotFound) {
			return err
		}
		if applied = err != nil || hash != Hash(p.Bytes); !applied {
			return nil
		}
		if err != nil {
			version = 0
		}
		version++
		if _, err := q.ExecContext(ctx, "INSERT INTO policies (version, bytes, sha256, applied_by, at) VALUES ($1, $2, $3, $4, $5)", version, p.Bytes, Hash(p.Bytes), p.By, micros(p.At)); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
	if database.Taken(err) {
		err = ErrConflict
	}
	return version, applied, err
}

// Breaker is the one row that bounds how many are quarantined at once.
type Breaker struct {
	Version int64
	Body    json.RawMessage // control.Breaker
	Updated time.Time
}

// Breaker is the breaker now. It is the network's, and no owner's.
func (s *Store) Breaker(ctx context.Context) (b Breaker, err error) {
	err = s.view(ctx, "read the breaker", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT version, body, updated_at FROM breaker").Scan(&b.Version, (*[]byte)(&b.Body), at(&b.Updated))
	})
	return b, err
}

// SetBreaker compares and sets the breaker apart from a decision: a person lets it
// go, or mass silence trips it.
func (s *Store) SetBreaker(ctx context.Context, from int64, body json.RawMessage, when time.Time, t Trail) error {
	if body == nil {
		return fmt.Errorf("set the breaker: it has no body")
	}
	return s.tx(ctx, "set the breaker", func(q database.Query) error {
		if err := s.setBreaker(ctx, q, from, body, when); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}

// Counted is how many were admitted once and are not retired, and how many of them
// are quarantined or re-verifying.
type Counted struct{ Members, Out int }

// RecountBreaker counts nodes and replicas and sets the breaker to what next makes
// of it; nil: it stays. No decision is carried out meanwhile, since each needs the
// breaker's row.
func (s *Store) RecountBreaker(ctx context.Context, when time.Time, next func(b Breaker, nodes, replicas Counted) (json.RawMessage, error)) error {
	return s.tx(ctx, "count for the breaker", func(q database.Query) error {
		var b Breaker
		if err := q.QueryRowContext(ctx, "SELECT version, body, updated_at FROM breaker"+s.db.ForUpdate()).Scan(&b.Version, (*[]byte)(&b.Body), at(&b.Updated)); err != nil {
			return err
		}
		// The member is written by our own encoder, and in a text its quotes would be
		// escaped.
		const member = ` LIKE '%"member":true%'`
		count := func(c *Counted, table, of, where string) error {
			return q.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(CASE WHEN "+of+".admission IN ('quarantined', 're-verifying') THEN 1 ELSE 0 END), 0) FROM "+table+
				" WHERE n.intent <> 'retired' AND "+of+".state"+member+where).Scan(&c.Members, &c.Out)
		}
		var nodes, replicas Counted
		if err := count(&nodes, "nodes n", "n", ""); err != nil {
			return err
		}
		if err := count(&replicas, "replicas r JOIN nodes n ON n.id = r.node", "r", " AND r.intent <> 'retired' AND r.removed_at IS NULL"); err != nil {
			return err
		}
		body, err := next(b, nodes, replicas)
		if err != nil || body == nil {
			return err
		}
		return s.setBreaker(ctx, q, b.Version, body, when)
	})
}

// setBreaker compares the breaker's version and sets its body; without one it only
// makes sure that it stays as it is until the transaction ends.
func (s *Store) setBreaker(ctx context.Context, q database.Query, from int64, body json.RawMessage, when time.Time) error {
	if body == nil {
		var one int
		err := found(q.QueryRowContext(ctx, "SELECT 1 FROM breaker WHERE version = $1"+s.db.ForShare(), from).Scan(&one))
		if errors.Is(err, ErrNotFound) {
			return ErrConflict
		}
		return err
	}
	r, err := q.ExecContext(ctx, "UPDATE breaker SET version = version + 1, body = $2, updated_at = $3 WHERE version = $1", from, string(body), micros(when))
	return changed(r, err, ErrConflict)
}
