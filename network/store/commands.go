package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Command is something that an agent is asked to do.
type Command struct {
	ID      string // a ULID
	Node    string
	Kind    string
	Reason  string
	Created time.Time
	Expires time.Time
	Params  json.RawMessage // what it says besides; nil: nothing

	Acked   time.Time // zero: the agent has not answered
	Outcome string    // of the last answer
	Detail  string
	Run     string    // the run that came of it
	Ended   time.Time // zero: it has only started, or not even that
}

const commandColumns = "c.id, c.node, c.kind, c.reason, c.created_at, c.expires_at, c.acked_at, c.outcome, c.detail, c.run, c.ended_at, c.params FROM commands c"

func scanCommand(r row) (c Command, err error) {
	err = r.Scan(&c.ID, &c.Node, &c.Kind, &c.Reason, at(&c.Created), at(&c.Expires), at(&c.Acked), &c.Outcome, &c.Detail, &c.Run, at(&c.Ended), (*[]byte)(&c.Params))
	return c, err
}

func insertCommand(ctx context.Context, q database.Query, c Command) error {
	_, err := q.ExecContext(ctx, "INSERT INTO commands (id, node, kind, reason, created_at, expires_at, outcome, detail, run, params) VALUES ($1, $2, $3, $4, $5, $6, '', '', '', $7)",
		c.ID, c.Node, c.Kind, c.Reason, micros(c.Created), micros(c.Expires), raw(c.Params))
	return err
}

// AddCommand asks a node within the scope to do something.
func (s *Store) AddCommand(ctx context.Context, scope Scope, c Command, t Trail) error {
	return s.tx(ctx, "add a command", func(q database.Query) error {
		a := args{c.Node}
		var one int
		if err := q.QueryRowContext(ctx, "SELECT 1 FROM nodes n WHERE n.id = $1 AND "+scope.where(s.db, "n.owner", &a), a...).Scan(&one); err != nil {
			return found(err)
		}
		if err := insertCommand(ctx, q, c); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}

// WaitingCommands lists what nodes have not answered and what has not expired, in
// order: one query for all polls that wait at a server.
func (s *Store) WaitingCommands(ctx context.Context, nodes []string, now time.Time) (commands []Command, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	err = s.view(ctx, "list commands", func(q database.Query) error {
		commands, err = all(ctx, q, scanCommand, "SELECT "+commandColumns+" WHERE c.acked_at IS NULL AND c.expires_at > $2 AND "+s.db.Any("c.node", 1)+" ORDER BY c.id", s.db.List(nodes), micros(now))
		return err
	})
	return commands, err
}

// Command is one command of a node.
func (s *Store) Command(ctx context.Context, scope Scope, node, id string) (c Command, err error) {
	a := args{id, node}
	query := "SELECT " + commandColumns + " JOIN nodes n ON n.id = c.node WHERE c.id = $1 AND c.node = $2 AND " + scope.where(s.db, "n.owner", &a)
	err = s.view(ctx, "command "+id, func(q database.Query) error {
		c, err = scanCommand(q.QueryRowContext(ctx, query, a...))
		return err
	})
	return c, err
}

// AckCommand keeps a node's answer: that it has started, or how it ended. An end
// is final; ErrConflict: it has another one.
func (s *Store) AckCommand(ctx context.Context, c Command, ended bool, when time.Time) error {
	return s.repeat(ctx, "acknowledge command "+c.ID, func(q database.Query) error {
		old, err := scanCommand(q.QueryRowContext(ctx, "SELECT "+commandColumns+" WHERE c.id = $1 AND c.node = $2"+s.db.ForUpdate(), c.ID, c.Node))
		if err != nil {
			return found(err)
		}
		if !old.Ended.IsZero() {
			if ended && old.Outcome == c.Outcome && old.Run == c.Run {
				return nil // said twice
			}
			if !ended {
				return nil // came late
			}
			return errors.Join(ErrConflict, errors.New("the command has ended as "+old.Outcome))
		}
		var end time.Time
		if ended {
			end = when
		}
		_, err = q.ExecContext(ctx, "UPDATE commands SET acked_at = coalesce(acked_at, $3), outcome = $4, detail = $5, run = $6, ended_at = $7 WHERE id = $1 AND node = $2",
			c.ID, c.Node, micros(when), c.Outcome, c.Detail, c.Run, micros(end))
		return err
	})
}
