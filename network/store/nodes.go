package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Facts are the three facts about a node or a replica as control writes them, and
// its whole state.
type Facts struct {
	Admission string
	Intent    string
	Contact   string
	// Version is that of the state; it is compared and set.
	Version       int64
	PolicyVersion int64
	State         json.RawMessage // control.Node
	Reasons       []string
}

// Node is a node's row, with its last heart-beat.
type Node struct {
	ID       string
	Owner    string
	Name     string
	Hostname string
	Facts
	Score        *float64 // of the last report; nil: unknown
	ScoreLow     *float64
	LastReport   string // its id; empty: none
	LastReportAt time.Time

	Inventory       json.RawMessage
	InventorySHA256 string // empty: none came yet
	Settings        json.RawMessage
	SettingsVersion int64

	Created, Updated time.Time

	// Of the last heart-beat.
	LastSeen     time.Time // zero: none came yet
	AgentVersion string
	Running      int64 // -1: unknown
	Beat         json.RawMessage
}

// NodeFilter narrows a list of nodes; what is empty does not.
type NodeFilter struct {
	Owner, Admission, Intent, Contact string
	Model                             string // of a replica that is there
}

const nodeColumns = `n.id, n.owner, n.name, n.hostname, n.admission, n.intent, n.contact, n.version, n.policy_version, n.state, n.reasons,
	n.score, n.score_low, n.last_report, n.last_report_at, n.inventory, n.inventory_sha256, n.settings, n.settings_version, n.created_at, n.updated_at,
	b.seen_at, coalesce(b.version, ''), coalesce(b.running, -1), coalesce(b.body, '{}')
	FROM nodes n LEFT JOIN beats b ON b.node = n.id`

func scanNode(r row) (n Node, err error) {
	err = r.Scan(&n.ID, &n.Owner, &n.Name, &n.Hostname, &n.Admission, &n.Intent, &n.Contact, &n.Version, &n.PolicyVersion, (*[]byte)(&n.State), parsed(&n.Reasons),
		&n.Score, &n.ScoreLow, &n.LastReport, at(&n.LastReportAt), (*[]byte)(&n.Inventory), &n.InventorySHA256, (*[]byte)(&n.Settings), &n.SettingsVersion, at(&n.Created), at(&n.Updated),
		at(&n.LastSeen), &n.AgentVersion, &n.Running, (*[]byte)(&n.Beat))
	return n, err
}

// Nodes lists nodes by id.
func (s *Store) Nodes(ctx context.Context, scope Scope, f NodeFilter, p Page) (nodes []Node, err error) {
	var a args
	where := scope.where(s.db, "n.owner", &a)
	for _, c := range [][2]string{{"owner", f.Owner}, {"admission", f.Admission}, {"intent", f.Intent}, {"contact", f.Contact}} {
		if c[1] != "" {
			where += " AND n." + c[0] + " = " + a.add(c[1])
		}
	}
	if f.Model != "" {
		where += " AND EXISTS (SELECT 1 FROM replicas r WHERE r.node = n.id AND r.removed_at IS NULL AND r.model = " + a.add(f.Model) + ")"
	}
	where += " AND n.id > " + a.add(p.After)
	query := "SELECT " + nodeColumns + " WHERE " + where + " ORDER BY n.id LIMIT " + a.add(p.limit())
	err = s.view(ctx, "list nodes", func(q database.Query) error {
		nodes, err = all(ctx, q, scanNode, query, a...)
		return err
	})
	return nodes, err
}

// Node is one node.
func (s *Store) Node(ctx context.Context, scope Scope, id string) (n Node, err error) {
	a := args{id}
	where := scope.where(s.db, "n.owner", &a)
	err = s.view(ctx, "node "+id, func(q database.Query) error {
		n, err = scanNode(q.QueryRowContext(ctx, "SELECT "+nodeColumns+" WHERE n.id = $1 AND "+where, a...))
		return err
	})
	return n, err
}

// NodeCount is how many nodes have an admission, an intent and a contact: what
// the breaker and metrics count.
type NodeCount struct {
	Admission, Intent, Contact string
	Nodes                      int64
}

// CountNodes counts nodes by their facts.
func (s *Store) CountNodes(ctx context.Context, scope Scope) (counts []NodeCount, err error) {
	var a args
	where := scope.where(s.db, "n.owner", &a)
	err = s.view(ctx, "count nodes", func(q database.Query) error {
		counts, err = all(ctx, q, func(r row) (c NodeCount, err error) {
			return c, r.Scan(&c.Admission, &c.Intent, &c.Contact, &c.Nodes)
		}, "SELECT n.admission, n.intent, n.contact, count(*) FROM nodes n WHERE "+where+" GROUP BY 1, 2, 3 ORDER BY 1, 2, 3", a...)
		return err
	})
	return counts, err
}

// insertNode puts a new node into the tables.
func insertNode(ctx context.Context, q database.Query, n Node) error {
	_, err := q.ExecContext(ctx, `INSERT INTO nodes (id, owner, name, hostname, admission, intent, contact, version, policy_version, state, reasons,
		score, score_low, last_report, last_report_at, inventory, inventory_sha256, settings, settings_version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, NULL, NULL, '', NULL, '{}', '', $12, $13, $14, $14)`,
		n.ID, n.Owner, n.Name, n.Hostname, n.Admission, n.Intent, n.Contact, n.Version, n.PolicyVersion, raw(n.State), list(n.Reasons),
		raw(n.Settings), n.SettingsVersion, micros(n.Created))
	return err
}

// lockNode makes everything that changes a node, or delivers in its name, wait
// for this transaction: its records get their places in the order in which they
// become visible.
func (s *Store) lockNode(ctx context.Context, q database.Query, id string) error {
	var one int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM nodes WHERE id = $1"+s.db.ForUpdate(), id).Scan(&one)
	if err != nil {
		return fmt.Errorf("node %s: %w", id, found(err))
	}
	return nil
}

// PutSettings sets what the server wants a node to measure. The version that it
// was made from is compared; the new one is one more.
func (s *Store) PutSettings(ctx context.Context, scope Scope, node string, from int64, settings json.RawMessage, when time.Time, t Trail) error {
	return s.tx(ctx, "set the settings of node "+node, func(q database.Query) error {
		a := args{node, from, raw(settings), micros(when)}
		where := scope.where(s.db, "owner", &a)
		r, err := q.ExecContext(ctx, "UPDATE nodes SET settings = $3, settings_version = settings_version + 1, updated_at = $4 WHERE id = $1 AND settings_version = $2 AND "+where, a...)
		if err := changed(r, err, ErrConflict); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}
