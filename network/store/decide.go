package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Transition is one fact of a node or a replica that changed.
type Transition struct {
	ID            string // a ULID, also of the record that has its statement
	At            time.Time
	Node          string
	Replica       string // its name; empty: the node itself
	Decision      string
	Fact          string
	From, To      string
	Event         string
	Actor         string
	Reasons       []string
	Evidence      []string
	PolicyVersion int64
	NodeVersion   int64  // after it
	Statement     []byte // as the server signed it, byte for byte
}

// Decision is what was made of an event: the next state of a node or of one of its
// replicas, and all that comes of it.
type Decision struct {
	ID      string // a ULID
	At      time.Time
	Node    string
	Replica string // its name; empty: the node itself

	// From is the version of the state that it was decided on, and Next the state
	// after it, whose version is larger.
	From int64
	Next Facts
	// BreakerFrom is the version of the breaker that it was decided on, and Breaker
	// its next body; nil: it does not change.
	BreakerFrom int64
	Breaker     json.RawMessage
	// Report is what the node's score is of from now on; nil: that does not change.
	Report *Report

	Event    json.RawMessage // control.Event, so that history can be run again
	Actor    string
	Why      string
	Cites    []string // reports that it rests on: they outlive it
	Baseline string
	// Accept is what the node is compared with from now on, unless there is one under
	// that key; nil: that does not change.
	Accept *Baseline

	Transitions []Transition
	Commands    []Command
	Due         []Due
	Trail       Trail
}

// Decide carries a decision out, whole or not at all. ErrConflict: the node or the
// breaker is not any more what it was decided on.
func (s *Store) Decide(ctx context.Context, d Decision) error {
	if d.Next.Version <= d.From {
		return fmt.Errorf("decide on node %s: the next version %d is not after %d", d.Node, d.Next.Version, d.From)
	}
	return s.tx(ctx, "decide on node "+d.Node, func(q database.Query) error {
		if err := s.lockNode(ctx, q, d.Node); err != nil {
			return err
		}
		if err := setFacts(ctx, q, d); err != nil {
			return err
		}
		if err := s.setBreaker(ctx, q, d.BreakerFrom, d.Breaker, d.At); err != nil {
			return err
		}
		if err := insertDecision(ctx, q, d); err != nil {
			return err
		}
		for _, t := range d.Transitions {
			t.Node, t.Replica, t.Decision = d.Node, d.Replica, d.ID
			if err := insertTransition(ctx, q, t); err != nil {
				return err
			}
		}
		if err := cite(ctx, q, d); err != nil {
			return err
		}
		if err := acceptBaseline(ctx, q, d.Accept); err != nil {
			return err
		}
		for _, c := range d.Commands {
			c.Node = d.Node
			if err := insertCommand(ctx, q, c); err != nil {
				return err
			}
		}
		if err := setDue(ctx, q, d.Due); err != nil {
			return err
		}
		return s.leave(ctx, q, d.Trail)
	})
}

// setFacts compares and sets the state of the node or the replica.
func setFacts(ctx context.Context, q database.Query, d Decision) error {
	n := d.Next
	set := "admission = $2, intent = $3, contact = $4, version = $5, policy_version = $6, state = $7, reasons = $8"
	a := args{d.Node, n.Admission, n.Intent, n.Contact, n.Version, n.PolicyVersion, raw(n.State), list(n.Reasons), d.From}
	if d.Replica != "" {
		r, err := q.ExecContext(ctx, "UPDATE replicas SET "+set+" WHERE node = $1 AND version = $9 AND name = "+a.add(d.Replica), a...)
		return changed(r, err, ErrConflict)
	}
	set += ", updated_at = " + a.add(micros(d.At))
	if r := d.Report; r != nil {
		set += ", score = " + a.add(r.Score) + ", score_low = " + a.add(r.ScoreLow) + ", last_report = " + a.add(r.ID) + ", last_report_at = " + a.add(micros(r.At))
	}
	r, err := q.ExecContext(ctx, "UPDATE nodes SET "+set+" WHERE id = $1 AND version = $9", a...)
	return changed(r, err, ErrConflict)
}

// cite copies the reports that a decision rests on, so that no partition that is
// dropped takes them away.
func cite(ctx context.Context, q database.Query, d Decision) error {
	for _, id := range d.Cites {
		if _, err := q.ExecContext(ctx, "INSERT INTO cited_reports ("+reportNames+") SELECT "+reportColumns("r")+
			" FROM report_keys k JOIN reports r ON r.id = k.id AND r.at = k.at WHERE k.id = $1 ON CONFLICT (id) DO NOTHING", id); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "INSERT INTO citations (decision, decision_at, report) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", d.ID, micros(d.At), id); err != nil {
			return err
		}
	}
	return nil
}

func insertDecision(ctx context.Context, q database.Query, d Decision) error {
	_, err := q.ExecContext(ctx, `INSERT INTO decisions (id, at, node, replica, event, actor, why, cites, baseline, policy_version, node_version, breaker_version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		d.ID, micros(d.At), d.Node, d.Replica, raw(d.Event), d.Actor, d.Why, list(d.Cites), d.Baseline, d.Next.PolicyVersion, d.Next.Version, d.BreakerFrom)
	return err
}

func insertTransition(ctx context.Context, q database.Query, t Transition) error {
	statement := t.Statement
	if statement == nil {
		statement = []byte{}
	}
	_, err := q.ExecContext(ctx, `INSERT INTO transitions (id, at, node, replica, decision, fact, from_value, to_value, event, actor, reasons, evidence, policy_version, node_version, statement)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		t.ID, micros(t.At), t.Node, t.Replica, t.Decision, t.Fact, t.From, t.To, t.Event, t.Actor, list(t.Reasons), list(t.Evidence), t.PolicyVersion, t.NodeVersion, statement)
	return err
}

const transitionColumns = "t.id, t.at, t.node, t.replica, t.decision, t.fact, t.from_value, t.to_value, t.event, t.actor, t.reasons, t.evidence, t.policy_version, t.node_version, t.statement FROM transitions t JOIN nodes n ON n.id = t.node"

func scanTransition(r row) (t Transition, err error) {
	err = r.Scan(&t.ID, at(&t.At), &t.Node, &t.Replica, &t.Decision, &t.Fact, &t.From, &t.To, &t.Event, &t.Actor, parsed(&t.Reasons), parsed(&t.Evidence), &t.PolicyVersion, &t.NodeVersion, &t.Statement)
	return t, err
}

// Transitions lists the transitions of a node and its replicas, newest first.
func (s *Store) Transitions(ctx context.Context, scope Scope, node string, p Page) (transitions []Transition, err error) {
	a := args{node}
	query := "SELECT " + transitionColumns + " WHERE t.node = $1 AND " + scope.where(s.db, "n.owner", &a) + p.newest("t.id", &a)
	err = s.view(ctx, "list the transitions of node "+node, func(q database.Query) error {
		transitions, err = all(ctx, q, scanTransition, query, a...)
		return err
	})
	return transitions, err
}

// Transition is one transition of a node.
func (s *Store) Transition(ctx context.Context, scope Scope, node, id string) (t Transition, err error) {
	a := args{node, id}
	query := "SELECT " + transitionColumns + " WHERE t.node = $1 AND t.id = $2 AND " + scope.where(s.db, "n.owner", &a)
	err = s.view(ctx, "transition "+id, func(q database.Query) error {
		t, err = scanTransition(q.QueryRowContext(ctx, query, a...))
		return err
	})
	return t, err
}

// History lists decisions since a time in the order in which they were made, after
// the one that Page names: a policy is tried on their events. Only what is said of
// the decision itself is filled in.
func (s *Store) History(ctx context.Context, scope Scope, since time.Time, p Page) (decisions []Decision, err error) {
	a := args{micros(since), p.After}
	query := `SELECT d.id, d.at, d.node, d.replica, d.event, d.actor, d.why, d.cites, d.baseline, d.policy_version, d.node_version, d.breaker_version
		FROM decisions d JOIN nodes n ON n.id = d.node WHERE d.at >= $1 AND d.id > $2 AND ` + scope.where(s.db, "n.owner", &a) + " ORDER BY d.id LIMIT " + a.add(p.limit())
	err = s.view(ctx, "list decisions", func(q database.Query) error {
		decisions, err = all(ctx, q, func(r row) (d Decision, err error) {
			return d, r.Scan(&d.ID, at(&d.At), &d.Node, &d.Replica, (*[]byte)(&d.Event), &d.Actor, &d.Why, parsed(&d.Cites), &d.Baseline, &d.Next.PolicyVersion, &d.Next.Version, &d.BreakerFrom)
		}, query, a...)
		return err
	})
	return decisions, err
}
