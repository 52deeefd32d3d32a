package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// MaxShare bounds what is kept of a node's run for the joint result.
const MaxShare = 1 << 20

// Measurement is one load on chosen nodes, together or in turn.
type Measurement struct {
	ID       string // a ULID
	Created  time.Time
	By       string // who asked
	Reason   string
	Mode     string
	Profile  string
	Scenario string
	Start    time.Time     // when the load begins; zero: each node in its turn
	Timeout  time.Duration // of each node

	Version   int64 // is compared and set
	Cancelled time.Time
	Ended     time.Time
	Result    json.RawMessage // once it has ended
	Nodes     []MeasuredNode  // in the order in which they were named
}

// MeasuredNode is a node of a measurement.
type MeasuredNode struct {
	Node, Owner, Hostname string
	State                 string
	Cause                 string
	Command               string // what asked it; empty: nothing has yet
	Asked, Started, Ended time.Time
	Report                string
	Figures               json.RawMessage // what is shown of its run
	Share                 json.RawMessage // what its run gives to the joint result

	// What is known of the command, and of the node.
	Order    Command
	LastSeen time.Time
}

// CreateMeasurement keeps a measurement that is to be made; nobody is asked yet.
// ErrNotFound: a node is not there or not within the scope; ErrConflict: one is
// retired, or in another measurement that has not ended.
func (s *Store) CreateMeasurement(ctx context.Context, scope Scope, m Measurement, t Trail) error {
	return s.tx(ctx, "create a measurement", func(q database.Query) error {
		// One order for all processes: they cannot wait for each other.
		for _, n := range slices.SortedFunc(slices.Values(m.Nodes), func(a, b MeasuredNode) int { return strings.Compare(a.Node, b.Node) }) {
			if err := s.free(ctx, q, scope, n.Node); err != nil {
				return fmt.Errorf("node %s: %w", n.Node, err)
			}
		}
		_, err := q.ExecContext(ctx, `INSERT INTO measurements (id, created_at, created_by, reason, mode, profile, scenario, start_at, timeout, version, cancelled_at, ended_at, result)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, NULL, NULL, '{}')`,
			m.ID, micros(m.Created), m.By, m.Reason, m.Mode, m.Profile, m.Scenario, micros(m.Start), m.Timeout.Microseconds())
		if err != nil {
			return err
		}
		for i, n := range m.Nodes {
			if _, err := q.ExecContext(ctx, `INSERT INTO measurement_nodes (measurement, place, node, state, cause, command, asked_at, started_at, ended_at, report, figures, share)
				VALUES ($1, $2, $3, $4, '', '', NULL, NULL, NULL, '', '{}', '{}')`, m.ID, i, n.Node, n.State); err != nil {
				return err
			}
		}
		return s.leave(ctx, q, t)
	})
}

// free says whether a node can be measured, and makes it stay so until the
// transaction ends.
func (s *Store) free(ctx context.Context, q database.Query, scope Scope, node string) error {
	a := args{node}
	var intent string
	if err := q.QueryRowContext(ctx, "SELECT n.intent FROM nodes n WHERE n.id = $1 AND "+scope.where(s.db, "n.owner", &a)+s.db.ForUpdate(), a...).Scan(&intent); err != nil {
		return found(err)
	}
	if intent == "retired" {
		return fmt.Errorf("it is retired: %w", ErrConflict)
	}
	var other string
	err := q.QueryRowContext(ctx, "SELECT measurement FROM measurement_nodes WHERE node = $1 AND ended_at IS NULL", node).Scan(&other)
	switch err = found(err); {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("it is in measurement %s: %w", other, ErrConflict)
}

const measurementColumns = "m.id, m.created_at, m.created_by, m.reason, m.mode, m.profile, m.scenario, m.start_at, m.timeout, m.version, m.cancelled_at, m.ended_at, m.result FROM measurements m"

func scanMeasurement(r row) (m Measurement, err error) {
	var timeout int64
	err = r.Scan(&m.ID, at(&m.Created), &m.By, &m.Reason, &m.Mode, &m.Profile, &m.Scenario, at(&m.Start), &timeout, &m.Version, at(&m.Cancelled), at(&m.Ended), (*[]byte)(&m.Result))
	m.Timeout = time.Duration(timeout) * time.Microsecond
	return m, err
}

// seen is the condition that all nodes of a measurement are within a scope: its
// result is of all of them.
func (s *Store) seen(scope Scope, a *args) string {
	return "NOT EXISTS (SELECT 1 FROM measurement_nodes x JOIN nodes n ON n.id = x.node WHERE x.measurement = m.id AND NOT (" + scope.where(s.db, "n.owner", a) + "))"
}

// Measurement is one measurement with its nodes, without their shares.
func (s *Store) Measurement(ctx context.Context, scope Scope, id string) (m Measurement, err error) {
	a := args{id}
	query := "SELECT " + measurementColumns + " WHERE m.id = $1 AND " + s.seen(scope, &a)
	err = s.view(ctx, "measurement "+id, func(q database.Query) error {
		if m, err = scanMeasurement(q.QueryRowContext(ctx, query, a...)); err != nil {
			return err
		}
		m.Nodes, err = measuredNodes(ctx, q, id, false)
		return err
	})
	return m, err
}

// Measurements lists measurements all of whose nodes are within the scope, newest
// first, with their nodes and without their shares.
func (s *Store) Measurements(ctx context.Context, scope Scope, p Page) (list []Measurement, err error) {
	var a args
	query := "SELECT " + measurementColumns + " WHERE " + s.seen(scope, &a) + p.newest("m.id", &a)
	return s.measurements(ctx, query, a, false)
}

// OpenMeasurements lists those that have not ended, oldest first, with shares.
func (s *Store) OpenMeasurements(ctx context.Context, limit int) ([]Measurement, error) {
	return s.measurements(ctx, "SELECT "+measurementColumns+" WHERE m.ended_at IS NULL ORDER BY m.id LIMIT $1", args{limit}, true)
}

func (s *Store) measurements(ctx context.Context, query string, a args, shares bool) (list []Measurement, err error) {
	err = s.view(ctx, "list measurements", func(q database.Query) error {
		if list, err = all(ctx, q, scanMeasurement, query, a...); err != nil {
			return err
		}
		for i := range list {
			if list[i].Nodes, err = measuredNodes(ctx, q, list[i].ID, shares); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func measuredNodes(ctx context.Context, q database.Query, id string, shares bool) ([]MeasuredNode, error) {
	share := "'{}'"
	if shares {
		share = "x.share"
	}
	return all(ctx, q, func(r row) (n MeasuredNode, err error) {
		c := &n.Order
		return n, r.Scan(&n.Node, &n.Owner, &n.Hostname, &n.State, &n.Cause, &n.Command, at(&n.Asked), at(&n.Started), at(&n.Ended), &n.Report, (*[]byte)(&n.Figures), (*[]byte)(&n.Share),
			at(&c.Expires), at(&c.Acked), at(&c.Ended), &c.Outcome, &c.Detail, &c.Run, at(&n.LastSeen))
	}, `SELECT x.node, n.owner, n.hostname, x.state, x.cause, x.command, x.asked_at, x.started_at, x.ended_at, x.report, x.figures, `+share+`,
		c.expires_at, c.acked_at, c.ended_at, coalesce(c.outcome, ''), coalesce(c.detail, ''), coalesce(c.run, ''), b.seen_at
		FROM measurement_nodes x JOIN nodes n ON n.id = x.node LEFT JOIN commands c ON c.id = x.command LEFT JOIN beats b ON b.node = x.node
		WHERE x.measurement = $1 ORDER BY x.place`, id)
}

// CancelMeasurement notes that a measurement is to end. ErrConflict: it has ended,
// or is about to.
func (s *Store) CancelMeasurement(ctx context.Context, scope Scope, id string, when time.Time, t Trail) error {
	return s.tx(ctx, "cancel measurement "+id, func(q database.Query) error {
		a := args{id}
		m, err := scanMeasurement(q.QueryRowContext(ctx, "SELECT "+measurementColumns+" WHERE m.id = $1 AND "+s.seen(scope, &a)+s.db.ForUpdate(), a...))
		if err != nil {
			return found(err)
		}
		if !m.Ended.IsZero() || !m.Cancelled.IsZero() {
			return ErrConflict
		}
		if _, err := q.ExecContext(ctx, "UPDATE measurements SET cancelled_at = $2, version = version + 1 WHERE id = $1", id, micros(when)); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}

// Step is what the server does next for a measurement.
type Step struct {
	Next     Measurement // its version is that which the step was made from
	Changed  []int       // places of the nodes that changed
	Commands []Command
	Withdraw []string // commands that no agent shall fetch any more
	Trail    Trail
}

// StepMeasurement carries a step out, whole or not at all. ErrConflict: somebody
// was first, or the person has cancelled it.
func (s *Store) StepMeasurement(ctx context.Context, st Step) error {
	m := st.Next
	return s.tx(ctx, "go on with measurement "+m.ID, func(q database.Query) error {
		r, err := q.ExecContext(ctx, "UPDATE measurements SET version = version + 1, ended_at = $3, result = $4 WHERE id = $1 AND version = $2 AND ended_at IS NULL", m.ID, m.Version, micros(m.Ended), raw(m.Result))
		if err := changed(r, err, ErrConflict); err != nil {
			return err
		}
		for _, i := range st.Changed {
			n := m.Nodes[i]
			if _, err := q.ExecContext(ctx, `UPDATE measurement_nodes SET state = $3, cause = $4, command = $5, asked_at = $6, started_at = $7, ended_at = $8 WHERE measurement = $1 AND place = $2`,
				m.ID, i, n.State, n.Cause, n.Command, micros(n.Asked), micros(n.Started), micros(n.Ended)); err != nil {
				return err
			}
		}
		for _, id := range st.Withdraw {
			if _, err := q.ExecContext(ctx, "UPDATE commands SET expires_at = created_at WHERE id = $1 AND acked_at IS NULL", id); err != nil {
				return err
			}
		}
		for _, c := range st.Commands {
			if err := insertCommand(ctx, q, c); err != nil {
				return err
			}
		}
		return s.leave(ctx, q, st.Trail)
	})
}

// MeasurementOf is the measurement that a node was asked for by a command.
// ErrNotFound: it was for none.
func (s *Store) MeasurementOf(ctx context.Context, node, command string) (id string, n MeasuredNode, err error) {
	err = s.view(ctx, "the measurement of a command", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT measurement, asked_at, ended_at FROM measurement_nodes WHERE command = $1 AND command <> '' AND node = $2", command, node).
			Scan(&id, at(&n.Asked), at(&n.Ended))
	})
	return id, n, err
}

// KeepShare keeps what a node's run gives to a measurement, once, or the cause that
// it gives nothing. ErrConflict: the node has ended there, or has given it already.
func (s *Store) KeepShare(ctx context.Context, measurement, node, report, cause string, figures, share json.RawMessage) error {
	if len(share)+len(figures) > MaxShare {
		return fmt.Errorf("the share of node %s has %d bytes; %d are kept", node, len(share)+len(figures), MaxShare)
	}
	return s.tx(ctx, "keep what node "+node+" measured", func(q database.Query) error {
		r, err := q.ExecContext(ctx, "UPDATE measurement_nodes SET report = $3, cause = $4, figures = $5, share = $6 WHERE measurement = $1 AND node = $2 AND ended_at IS NULL AND report = ''",
			measurement, node, report, cause, raw(figures), raw(share))
		return changed(r, err, ErrConflict)
	})
}
