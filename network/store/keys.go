package store

import (
	"context"
	"errors"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// NodeKey is a key that a node signs with, and the statement that certifies it.
type NodeKey struct {
	ID        string // SHA-256 of the public key
	Node      string
	PublicKey []byte
	Statement []byte // the envelope, byte for byte
	NotBefore time.Time
	NotAfter  time.Time
	Revoked   time.Time
	Created   time.Time
}

const keyColumns = "k.id, k.node, k.public_key, k.statement, k.not_before, k.not_after, k.revoked_at, k.created_at FROM node_keys k"

func scanKey(r row) (k NodeKey, err error) {
	err = r.Scan(&k.ID, &k.Node, &k.PublicKey, &k.Statement, at(&k.NotBefore), at(&k.NotAfter), at(&k.Revoked), at(&k.Created))
	return k, err
}

func insertKey(ctx context.Context, q database.Query, k NodeKey) error {
	_, err := q.ExecContext(ctx, "INSERT INTO node_keys (id, node, public_key, statement, not_before, not_after, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		k.ID, k.Node, k.PublicKey, k.Statement, micros(k.NotBefore), micros(k.NotAfter), micros(k.Created))
	return err
}

// NodeKey is the key with an id, revoked or not. Signatures are checked with it,
// on behalf of whoever sent them.
func (s *Store) NodeKey(ctx context.Context, id string) (k NodeKey, err error) {
	err = s.view(ctx, "key "+id, func(q database.Query) error {
		k, err = scanKey(q.QueryRowContext(ctx, "SELECT "+keyColumns+" WHERE k.id = $1", id))
		return err
	})
	return k, err
}

// NodeKeys lists the keys of a node, oldest first.
func (s *Store) NodeKeys(ctx context.Context, scope Scope, node string) (keys []NodeKey, err error) {
	a := args{node}
	query := "SELECT " + keyColumns + " JOIN nodes n ON n.id = k.node WHERE k.node = $1 AND " + scope.where(s.db, "n.owner", &a) + " ORDER BY k.created_at, k.id"
	err = s.view(ctx, "list the keys of node "+node, func(q database.Query) error {
		keys, err = all(ctx, q, scanKey, query, a...)
		return err
	})
	return keys, err
}

// AddNodeKey certifies one more key of a node. The same key again with the same
// node changes nothing, and its first statement is given back.
func (s *Store) AddNodeKey(ctx context.Context, k NodeKey, t Trail) (statement []byte, err error) {
	err = s.repeat(ctx, "add a key of node "+k.Node, func(q database.Query) error {
		if err := s.lockNode(ctx, q, k.Node); err != nil {
			return err
		}
		old, err := scanKey(q.QueryRowContext(ctx, "SELECT "+keyColumns+" WHERE k.id = $1", k.ID))
		switch err = found(err); {
		case err == nil && (old.Node != k.Node || !old.Revoked.IsZero()):
			return ErrTaken
		case err == nil:
			statement = old.Statement
			return nil
		case !errors.Is(err, ErrNotFound):
			return err
		}
		statement = k.Statement
		if err := insertKey(ctx, q, k); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
	if database.Taken(err) {
		err = ErrTaken
	}
	return statement, err
}

// RevokeNodeKey refuses a key from now on, and ends the log-ins that were made
// with it.
func (s *Store) RevokeNodeKey(ctx context.Context, scope Scope, node, id string, when time.Time, t Trail) error {
	return s.tx(ctx, "revoke key "+id, func(q database.Query) error {
		a := args{id, node, micros(when)}
		where := scope.where(s.db, "n.owner", &a)
		r, err := q.ExecContext(ctx, "UPDATE node_keys SET revoked_at = coalesce(revoked_at, $3) WHERE id = $1 AND node IN (SELECT n.id FROM nodes n WHERE n.id = $2 AND "+where+")", a...)
		if err := changed(r, err, ErrNotFound); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE tokens SET revoked_at = $2 WHERE node_key = $1 AND revoked_at IS NULL", id, micros(when)); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}
