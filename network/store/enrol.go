package store

import (
	"context"
	"errors"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Why an enrolment token takes nobody in.
var (
	ErrTokenUnknown = errors.New("the enrolment token is not known, or was taken back")
	ErrTokenExpired = errors.New("the enrolment token has expired: ask for a new one")
	ErrTokenUsed    = errors.New("the enrolment token was used by another key: ask for a new one")
)

// EnrolmentToken takes in one node.
type EnrolmentToken struct {
	ID      string
	Hash    string // of the secret, see Hash
	Owner   string
	By      string // the actor who made it
	Created time.Time
	Expires time.Time
	Revoked time.Time
	Used    time.Time
	UsedBy  string // the node
	UsedKey string
}

const enrolmentColumns = "t.id, t.hash, t.owner, t.created_by, t.created_at, t.expires_at, t.revoked_at, t.used_at, t.used_by_node, t.used_by_key FROM enrolment_tokens t"

func scanEnrolmentToken(r row) (t EnrolmentToken, err error) {
	err = r.Scan(&t.ID, &t.Hash, &t.Owner, &t.By, at(&t.Created), at(&t.Expires), at(&t.Revoked), at(&t.Used), &t.UsedBy, &t.UsedKey)
	return t, err
}

// currentEpoch is a condition: the row was made since the last restore.
const currentEpoch = "epoch = (SELECT epoch FROM installation)"

// CreateEnrolmentToken keeps a new token, and makes its owner if need be. The
// owner must be within the scope.
func (s *Store) CreateEnrolmentToken(ctx context.Context, scope Scope, t EnrolmentToken, trail Trail) error {
	if !scope.Allows(t.Owner) {
		return ErrNotFound
	}
	return s.tx(ctx, "create an enrolment token", func(q database.Query) error {
		if err := ensureOwner(ctx, q, t.Owner, t.Created); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, `INSERT INTO enrolment_tokens (id, hash, owner, created_by, created_at, expires_at, used_by_key, used_by_node, epoch)
			VALUES ($1, $2, $3, $4, $5, $6, '', '', (SELECT epoch FROM installation))`, t.ID, t.Hash, t.Owner, t.By, micros(t.Created), micros(t.Expires)); err != nil {
			return err
		}
		return s.leave(ctx, q, trail)
	})
}

// EnrolmentTokens lists tokens, newest first.
func (s *Store) EnrolmentTokens(ctx context.Context, scope Scope, p Page) (tokens []EnrolmentToken, err error) {
	var a args
	query := "SELECT " + enrolmentColumns + " WHERE t." + currentEpoch + " AND " + scope.where(s.db, "t.owner", &a) + p.newest("t.id", &a)
	err = s.view(ctx, "list enrolment tokens", func(q database.Query) error {
		tokens, err = all(ctx, q, scanEnrolmentToken, query, a...)
		return err
	})
	return tokens, err
}

// RevokeEnrolmentToken takes a token back. A node that it took in stays.
func (s *Store) RevokeEnrolmentToken(ctx context.Context, scope Scope, id string, when time.Time, trail Trail) error {
	return s.tx(ctx, "take back enrolment token "+id, func(q database.Query) error {
		a := args{id, micros(when)}
		where := scope.where(s.db, "owner", &a)
		r, err := q.ExecContext(ctx, "UPDATE enrolment_tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 AND "+where, a...)
		if err := changed(r, err, ErrNotFound); err != nil {
			return err
		}
		return s.leave(ctx, q, trail)
	})
}

// EnrolmentToken looks at the token with a hash on behalf of a key: which owner it
// is for, and the node that it took in before by the same key. Whoever has the
// secret may know that.
func (s *Store) EnrolmentToken(ctx context.Context, hash, keyID string, now time.Time) (t EnrolmentToken, err error) {
	err = s.view(ctx, "look at an enrolment token", func(q database.Query) error {
		t, err = usableToken(ctx, q, "", hash, keyID, now)
		return err
	})
	return t, err
}

// usableToken is the token with a hash, if it may be used by the key now.
func usableToken(ctx context.Context, q database.Query, lock, hash, keyID string, now time.Time) (EnrolmentToken, error) {
	t, err := scanEnrolmentToken(q.QueryRowContext(ctx, "SELECT "+enrolmentColumns+" WHERE t.hash = $1 AND t."+currentEpoch+lock, hash))
	switch err = found(err); {
	case errors.Is(err, ErrNotFound) || err == nil && !t.Revoked.IsZero():
		return EnrolmentToken{}, ErrTokenUnknown
	case err != nil:
		return EnrolmentToken{}, err
	case !now.Before(t.Expires):
		return EnrolmentToken{}, ErrTokenExpired
	case t.UsedKey != "" && t.UsedKey != keyID:
		return EnrolmentToken{}, ErrTokenUsed
	}
	return t, nil
}

// Enrolment is a node that is to be taken in. The statement in Key certifies its
// key for the node's id and the token's owner: look at the token first.
type Enrolment struct {
	TokenHash string
	Node      Node // ID, Name, Hostname, Facts, Settings; the owner is the token's
	Key       NodeKey
	At        time.Time
	Trail     Trail
}

// Enrolled is what became of it.
type Enrolled struct {
	Node, Owner string
	Statement   []byte // what certifies the key: of the first time, byte for byte
	Again       bool   // the same token and key were here before
}

// Enrol takes a node in, once for a token: the same token with the same key gets
// the same answer until it expires, so that a lost reply burns nothing.
func (s *Store) Enrol(ctx context.Context, e Enrolment) (out Enrolled, err error) {
	err = s.repeat(ctx, "enrol", func(q database.Query) error {
		t, err := usableToken(ctx, q, s.db.ForUpdate(), e.TokenHash, e.Key.ID, e.At)
		if err != nil {
			return err
		}
		if t.UsedKey != "" {
			out = Enrolled{Node: t.UsedBy, Owner: t.Owner, Again: true}
			return q.QueryRowContext(ctx, "SELECT statement FROM node_keys WHERE id = $1 AND node = $2", e.Key.ID, t.UsedBy).Scan(&out.Statement)
		}
		n := e.Node
		n.Owner, n.Created = t.Owner, e.At
		if err := insertNode(ctx, q, n); err != nil {
			return err
		}
		k := e.Key
		k.Node, k.Created = n.ID, e.At
		if err := insertKey(ctx, q, k); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE enrolment_tokens SET used_at = $2, used_by_key = $3, used_by_node = $4 WHERE id = $1", t.ID, micros(e.At), k.ID, n.ID); err != nil {
			return err
		}
		out = Enrolled{Node: n.ID, Owner: t.Owner, Statement: k.Statement}
		return s.leave(ctx, q, e.Trail)
	})
	if database.Taken(err) {
		err = ErrTaken // a key or a node's id that is another's
	}
	return out, err
}

// ensureOwner makes an owner where there is none of that name.
func ensureOwner(ctx context.Context, q database.Query, name string, when time.Time) error {
	_, err := q.ExecContext(ctx, "INSERT INTO owners (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, micros(when))
	return err
}
