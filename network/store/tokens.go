package store

import (
	"context"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// TokenKind is what a token is for.
type TokenKind string

// Kinds of tokens.
const (
	TokenAPI     TokenKind = "api"     // a program's, made by an admin
	TokenSession TokenKind = "session" // a person's who signed in
	TokenLogin   TokenKind = "login"   // a node's, made by its key
)

// Token lets its bearer in, as far as its role and scope go.
type Token struct {
	ID      string
	Hash    string // of the secret, see Hash
	Kind    TokenKind
	Name    string
	Role    string
	Scope   Scope
	Person  string // of a session
	Node    string // of a log-in, with the key that made it
	NodeKey string
	By      string // the actor who made it
	Created time.Time
	Expires time.Time
	Revoked time.Time
}

const tokenColumns = "t.id, t.hash, t.kind, t.name, t.role, t.scope, t.person, t.node, t.node_key, t.created_by, t.created_at, t.expires_at, t.revoked_at FROM tokens t"

func scanToken(r row) (t Token, err error) {
	err = r.Scan(&t.ID, &t.Hash, &t.Kind, &t.Name, &t.Role, parsed(&t.Scope), &t.Person, &t.Node, &t.NodeKey, &t.By, at(&t.Created), at(&t.Expires), at(&t.Revoked))
	return t, err
}

// CreateToken keeps a new token.
func (s *Store) CreateToken(ctx context.Context, t Token, trail Trail) error {
	return s.tx(ctx, "create a token", func(q database.Query) error {
		if _, err := q.ExecContext(ctx, `INSERT INTO tokens (id, hash, kind, name, role, scope, person, node, node_key, created_by, created_at, expires_at, epoch)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, (SELECT epoch FROM installation))`,
			t.ID, t.Hash, string(t.Kind), t.Name, t.Role, document(t.Scope), t.Person, t.Node, t.NodeKey, t.By, micros(t.Created), micros(t.Expires)); err != nil {
			return err
		}
		return s.leave(ctx, q, trail)
	})
}

// TokenByHash is the token that is good now: not expired, not revoked, of this
// epoch, and of a log-in whose key is not revoked. It authenticates, and so has
// no scope yet.
func (s *Store) TokenByHash(ctx context.Context, hash string, now time.Time) (t Token, err error) {
	err = s.view(ctx, "look at a token", func(q database.Query) error {
		t, err = scanToken(q.QueryRowContext(ctx, "SELECT "+tokenColumns+" WHERE t.hash = $1 AND t.expires_at > $2 AND t.revoked_at IS NULL AND t."+currentEpoch+
			" AND NOT EXISTS (SELECT 1 FROM node_keys k WHERE k.id = t.node_key AND k.revoked_at IS NOT NULL)", hash, micros(now)))
		return err
	})
	return t, err
}

// Tokens lists API tokens, newest first: those whose scope lies within the
// reader's.
func (s *Store) Tokens(ctx context.Context, scope Scope, p Page) (tokens []Token, err error) {
	err = s.view(ctx, "list tokens", func(q database.Query) error {
		tokens = nil
		for p := p; ; {
			a := args{string(TokenAPI)}
			some, err := all(ctx, q, scanToken, "SELECT "+tokenColumns+" WHERE t.kind = $1 AND t."+currentEpoch+p.newest("t.id", &a), a...)
			if err != nil {
				return err
			}
			for _, t := range some {
				if p.Before = t.ID; scope.covers(t.Scope) && len(tokens) < p.limit() {
					tokens = append(tokens, t)
				}
			}
			if len(some) < p.limit() || len(tokens) == p.limit() {
				return nil
			}
		}
	})
	return tokens, err
}

// covers says whether another scope lies within this one.
func (s Scope) covers(other Scope) bool {
	if s.All {
		return true
	}
	for _, o := range other.Owners {
		if !s.Allows(o) {
			return false
		}
	}
	return !other.All && len(other.Owners) > 0
}

// RevokeToken takes a token back, whose scope must lie within the reader's.
func (s *Store) RevokeToken(ctx context.Context, scope Scope, id string, when time.Time, trail Trail) error {
	return s.tx(ctx, "take back token "+id, func(q database.Query) error {
		t, err := scanToken(q.QueryRowContext(ctx, "SELECT "+tokenColumns+" WHERE t.id = $1", id))
		if err != nil {
			return found(err)
		}
		if !scope.covers(t.Scope) {
			return ErrNotFound
		}
		if _, err := q.ExecContext(ctx, "UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1", id, micros(when)); err != nil {
			return err
		}
		return s.leave(ctx, q, trail)
	})
}

// MarkRestored is called once after the database was restored from a backup: every
// token, log-in and enrolment token of before is void, and so is every nonce and
// lease. What was revoked since the backup would otherwise be good again.
func (s *Store) MarkRestored(ctx context.Context, t Trail) (epoch int64, err error) {
	err = s.tx(ctx, "mark the database as restored", func(q database.Query) error {
		if err := q.QueryRowContext(ctx, "UPDATE installation SET epoch = epoch + 1 RETURNING epoch").Scan(&epoch); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "DELETE FROM nonces"); err != nil {
			return err
		}
		// What was found about nodes since the backup is lost, and looked for again.
		if _, err := q.ExecContext(ctx, "UPDATE nodes SET examined_sha256 = ''"); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE leases SET until = 0, fence = fence + 1"); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
	return epoch, err
}
