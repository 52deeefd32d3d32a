package store

import (
	"context"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Evidence is an object in the object storage.
type Evidence struct {
	SHA256    string
	Size      int64
	Created   time.Time
	Confirmed time.Time // zero: nobody has seen it there
}

func scanEvidence(r row) (e Evidence, err error) {
	err = r.Scan(&e.SHA256, &e.Size, at(&e.Created), at(&e.Confirmed))
	return e, err
}

// UnneededEvidence lists objects that no report names any more and that were first
// named before a time. They may be deleted from the storage, and then forgotten.
func (s *Store) UnneededEvidence(ctx context.Context, before time.Time, limit int) (objects []Evidence, err error) {
	err = s.view(ctx, "list evidence that nobody needs", func(q database.Query) error {
		objects, err = all(ctx, q, scanEvidence, `SELECT e.sha256, e.size, e.created_at, e.confirmed_at FROM evidence e
			WHERE e.created_at < $1 AND NOT EXISTS (SELECT 1 FROM evidence_refs f WHERE f.sha256 = e.sha256) ORDER BY e.created_at LIMIT $2`, micros(before), limit)
		return err
	})
	return objects, err
}

// ForgetEvidence forgets an object before it is deleted. ErrConflict: a report
// names it again, and it must stay.
func (s *Store) ForgetEvidence(ctx context.Context, sha256 string) error {
	return s.tx(ctx, "forget evidence "+sha256, func(q database.Query) error {
		r, err := q.ExecContext(ctx, "DELETE FROM evidence WHERE sha256 = $1 AND NOT EXISTS (SELECT 1 FROM evidence_refs f WHERE f.sha256 = $1)", sha256)
		return changed(r, err, ErrConflict)
	})
}

// Baseline is what nodes of a kind are compared with.
type Baseline struct {
	Peer    string // GPU, model and engine
	Version int64
	At      time.Time
	Source  string // a median of peers, an operator
	Body    []byte // JSON
}

// PutBaseline adds the next version of a baseline and gives its number. Earlier
// ones stay while a decision may cite them.
func (s *Store) PutBaseline(ctx context.Context, b Baseline, t Trail) (version int64, err error) {
	err = s.tx(ctx, "keep a baseline", func(q database.Query) error {
		if err := q.QueryRowContext(ctx, `INSERT INTO baselines (peer, version, at, source, body)
			VALUES ($1, (SELECT coalesce(max(version), 0) + 1 FROM baselines WHERE peer = $1), $2, $3, $4) RETURNING version`,
			b.Peer, micros(b.At), b.Source, raw(b.Body)).Scan(&version); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
	if database.Taken(err) {
		err = ErrConflict
	}
	return version, err
}

// acceptBaseline keeps the first baseline under a key.
func acceptBaseline(ctx context.Context, q database.Query, b *Baseline) error {
	if b == nil {
		return nil
	}
	_, err := q.ExecContext(ctx, "INSERT INTO baselines (peer, version, at, source, body) VALUES ($1, 1, $2, $3, $4) ON CONFLICT (peer, version) DO NOTHING",
		b.Peer, micros(b.At), b.Source, raw(b.Body))
	return err
}

// Baseline is the latest version of a baseline. It is the network's, and no
// owner's.
func (s *Store) Baseline(ctx context.Context, peer string) (b Baseline, err error) {
	err = s.view(ctx, "baseline "+peer, func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT peer, version, at, source, body FROM baselines WHERE peer = $1 ORDER BY version DESC LIMIT 1", peer).
			Scan(&b.Peer, &b.Version, at(&b.At), &b.Source, &b.Body)
	})
	return b, err
}
