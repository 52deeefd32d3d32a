package store

import (
	"context"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// maxClaims bounds how many rows of one card are looked at; the oldest come first,
// so that nobody crowds out who was there before.
const maxClaims = 1000

// Claim is a card on a node, from when to when, with where the node stands.
type Claim struct {
	GPU
	Owner string
	Facts
}

// Claims lists where cards were shown, oldest first: by Card or by Board, on any
// node, for the server itself.
func (s *Store) Claims(ctx context.Context, cards, boards []string) (claims []Claim, err error) {
	err = s.view(ctx, "look where cards were seen", func(q database.Query) error {
		claims = nil
		for column, values := range map[string][]string{"card": cards, "board": boards} {
			if len(values) == 0 {
				continue
			}
			found, err := all(ctx, q, scanClaim, s.claimsQuery(column), s.db.List(values), maxClaims)
			if err != nil {
				return err
			}
			claims = append(claims, found...)
		}
		return nil
	})
	return claims, err
}

// claimsQuery says that what is looked for is not empty: only then its index is used.
func (s *Store) claimsQuery(column string) string {
	return "SELECT n.owner, n.admission, n.intent, n.version, n.state, n.reasons, " + gpuColumns +
		" JOIN nodes n ON n.id = g.node WHERE g." + column + " <> '' AND " + s.db.Any("g."+column, 1) + " ORDER BY g.first_seen, g.node LIMIT $2"
}

func scanClaim(r row) (c Claim, err error) {
	err = r.Scan(append([]any{&c.Owner, &c.Admission, &c.Intent, &c.Version, (*[]byte)(&c.State), parsed(&c.Reasons)}, c.columns()...)...)
	return c, err
}

// Unexamined lists nodes whose inventory was not looked at since it came, for the
// server itself.
func (s *Store) Unexamined(ctx context.Context, limit int) (nodes []string, err error) {
	err = s.view(ctx, "list inventories to look at", func(q database.Query) error {
		nodes, err = all(ctx, q, func(r row) (id string, err error) { return id, r.Scan(&id) },
			"SELECT id FROM nodes WHERE examined_sha256 <> inventory_sha256 AND intent <> 'retired' ORDER BY id LIMIT $1", limit)
		return err
	})
	return nodes, err
}

// Examination is the inventory of a node that was looked at last; equal to the
// inventory's: there is nothing new.
func (s *Store) Examination(ctx context.Context, node string) (sha256 string, err error) {
	err = s.view(ctx, "read what was looked at of node "+node, func(q database.Query) error {
		return found(q.QueryRowContext(ctx, "SELECT examined_sha256 FROM nodes WHERE id = $1", node).Scan(&sha256))
	})
	return sha256, err
}

// Examined notes that an inventory was looked at.
func (s *Store) Examined(ctx context.Context, node, sha256 string) error {
	return s.repeat(ctx, "note what was looked at of node "+node, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE nodes SET examined_sha256 = $2 WHERE id = $1", node, sha256)
		return err
	})
}

// RunNonce is the nonce of a run, with who brought it first.
type RunNonce struct {
	Nonce     string
	Node      string
	Report    string
	RunSHA256 string
	At        time.Time
}

// FirstUse keeps a nonce, and gives who brought it first.
func (s *Store) FirstUse(ctx context.Context, n RunNonce) (first RunNonce, err error) {
	err = s.repeat(ctx, "keep the nonce of report "+n.Report, func(q database.Query) error {
		if _, err := q.ExecContext(ctx, "INSERT INTO run_nonces (nonce, node, report, run_sha256, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (nonce) DO NOTHING",
			n.Nonce, n.Node, n.Report, n.RunSHA256, micros(n.At)); err != nil {
			return err
		}
		return q.QueryRowContext(ctx, "SELECT nonce, node, report, run_sha256, at FROM run_nonces WHERE nonce = $1", n.Nonce).Scan(&first.Nonce, &first.Node, &first.Report, &first.RunSHA256, at(&first.At))
	})
	return first, err
}

// LastCommands lists what a node was asked for, the newest first, for the server
// itself.
func (s *Store) LastCommands(ctx context.Context, node string, limit int) (ids []string, err error) {
	err = s.view(ctx, "list the commands of node "+node, func(q database.Query) error {
		ids, err = all(ctx, q, func(r row) (id string, err error) { return id, r.Scan(&id) },
			"SELECT id FROM commands WHERE node = $1 ORDER BY id DESC LIMIT $2", node, limit)
		return err
	})
	return ids, err
}
