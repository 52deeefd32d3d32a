package store

import (
	"context"
	"errors"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Person finds the random id of a person by issuer and subject of the sign-in, or
// gives it the proposed one.
func (s *Store) Person(ctx context.Context, issuer, subject, proposed string, when time.Time) (id string, err error) {
	find := func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT person FROM identities WHERE issuer = $1 AND subject = $2", issuer, subject).Scan(&id)
	}
	err = s.view(ctx, "find a person", find)
	if !errors.Is(err, ErrNotFound) {
		return id, err
	}
	err = s.repeat(ctx, "keep a person", func(q database.Query) error {
		if _, err := q.ExecContext(ctx, "INSERT INTO people (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING", proposed, micros(when)); err != nil {
			return err
		}
		// Another process may be faster: then its id is the person's, and ours nobody's.
		if _, err := q.ExecContext(ctx, "INSERT INTO identities (issuer, subject, person) VALUES ($1, $2, $3) ON CONFLICT (issuer, subject) DO NOTHING", issuer, subject, proposed); err != nil {
			return err
		}
		if err := find(q); err != nil {
			return err
		}
		_, err := q.ExecContext(ctx, "DELETE FROM people WHERE id = $1 AND id <> $2", proposed, id)
		return err
	})
	return id, err
}

// ErasePerson forgets who a person is and ends the person's sessions. What the
// person did stays in the audit log under an id that leads nowhere.
func (s *Store) ErasePerson(ctx context.Context, id string, when time.Time, t Trail) error {
	return s.tx(ctx, "erase person "+id, func(q database.Query) error {
		r, err := q.ExecContext(ctx, "DELETE FROM identities WHERE person = $1", id)
		if err := changed(r, err, ErrNotFound); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE tokens SET revoked_at = $2 WHERE person = $1 AND revoked_at IS NULL", id, micros(when)); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}

// CreateNonce keeps the hash of a nonce that one log-in of a node may sign.
func (s *Store) CreateNonce(ctx context.Context, hash, node string, expires time.Time) error {
	return s.one(ctx, "keep a nonce", func(q database.Query) error {
		_, err := q.ExecContext(ctx, "INSERT INTO nonces (hash, node, expires_at) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING", hash, node, micros(expires))
		return err
	})
}

// UseNonce uses a nonce up. ErrNotFound: it was used, has expired, or is another
// node's.
func (s *Store) UseNonce(ctx context.Context, hash, node string, now time.Time) error {
	return s.tx(ctx, "use a nonce", func(q database.Query) error {
		r, err := q.ExecContext(ctx, "DELETE FROM nonces WHERE hash = $1 AND node = $2 AND expires_at > $3", hash, node, micros(now))
		return changed(r, err, ErrNotFound)
	})
}
