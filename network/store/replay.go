package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Replayed is a record that was published and may be younger than the backup that
// a database comes from, with what it says of the other tables.
type Replayed struct {
	Record
	Transition *Transition // that it states
	Audit      *AuditEntry // that it states: all but the detail
	Node       *Node       // whose key it certifies, as it is made where it is missing
	Key        *NodeKey    // that it certifies
	Revoked    string      // id of a key that is revoked since
}

// LastReceived is when the newest record for the ledger came; zero: there is none.
func (s *Store) LastReceived(ctx context.Context) (last time.Time, err error) {
	err = s.view(ctx, "find the newest record", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT max(received_at) FROM outbox WHERE topic = $1", TopicLedger).Scan(at(&last))
	})
	return last, err
}

// Replay brings back what is missing of records that were published, in one
// transaction. What is here stays as it is, and counts as published from now on. It
// says how many were missing, and the ids that are here with other bytes.
func (s *Store) Replay(ctx context.Context, records []Replayed, when time.Time) (missing int, differ []string, err error) {
	do := func(q database.Query) error {
		missing, differ = 0, nil
		all, ids := make([]Record, len(records)), make([]string, len(records))
		for i, r := range records {
			r.Topic = TopicLedger
			all[i], ids[i] = r.Record, r.ID
		}
		fresh, err := s.insertRecords(ctx, q, all)
		if err != nil {
			return err
		}
		missing = len(fresh)
		for i := range records {
			r := &records[i]
			r.Topic = TopicLedger
			if !fresh[r.ID] {
				switch o, err := compare(ctx, q, r.Record); {
				case err != nil:
					return err
				case o == Refused:
					differ = append(differ, r.ID)
				}
				continue
			}
			delete(fresh, r.ID) // Kafka may have it twice
			if err := s.bringBack(ctx, q, r); err != nil {
				return fmt.Errorf("record %s: %w", r.ID, err)
			}
		}
		_, err = q.ExecContext(ctx, "UPDATE outbox SET published_at = $2 WHERE published_at IS NULL AND "+s.db.Any("id", 1), s.db.List(ids), micros(when))
		return err
	}
	err = s.repeat(ctx, "replay records", do)
	if database.NoPartition(err) && len(records) > 0 {
		// They are of months that the backup has no place for.
		for _, r := range records {
			if err := s.MakePartitions(ctx, r.Received); err != nil {
				return 0, nil, err
			}
		}
		err = s.repeat(ctx, "replay records", do)
	}
	return missing, differ, err
}

// bringBack writes what a record that was missing says.
func (s *Store) bringBack(ctx context.Context, q database.Query, r *Replayed) error {
	if r.Key != nil && r.Node != nil {
		if err := bringBackKey(ctx, q, *r.Node, *r.Key); err != nil {
			return err
		}
	}
	if r.Transition != nil {
		if err := insertTransition(ctx, q, *r.Transition); err != nil {
			return err
		}
	}
	if r.Audit != nil {
		e := *r.Audit
		err := q.QueryRowContext(ctx, "SELECT owner FROM nodes WHERE id = $1", e.Node).Scan(&e.Owner)
		if err != nil && !errors.Is(found(err), ErrNotFound) {
			return err
		}
		if err := insertAudit(ctx, q, []AuditEntry{e}); err != nil {
			return err
		}
	}
	if r.Revoked != "" {
		if _, err := q.ExecContext(ctx, "UPDATE node_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1", r.Revoked, micros(r.Received)); err != nil {
			return err
		}
	}
	return nil
}

// bringBackKey makes a key's row, and its node's, where there is none.
func bringBackKey(ctx context.Context, q database.Query, n Node, k NodeKey) error {
	if err := ensureOwner(ctx, q, n.Owner, n.Created); err != nil {
		return err
	}
	var nodes, keys int
	if err := q.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM nodes WHERE id = $1), (SELECT count(*) FROM node_keys WHERE id = $2)", n.ID, k.ID).Scan(&nodes, &keys); err != nil {
		return err
	}
	if nodes == 0 {
		if err := insertNode(ctx, q, n); err != nil {
			return err
		}
	}
	if keys > 0 {
		return nil
	}
	return insertKey(ctx, q, k)
}

// RestoreFacts compares and sets the state of a node, or of a replica of it, as the
// ledger has it, and when it is looked at next. It leaves no decision: those that
// led there were made before.
func (s *Store) RestoreFacts(ctx context.Context, node, replica string, from int64, next Facts, due []Due, when time.Time) error {
	return s.tx(ctx, "restore the state of node "+node, func(q database.Query) error {
		if err := s.lockNode(ctx, q, node); err != nil {
			return err
		}
		if err := setFacts(ctx, q, Decision{Node: node, Replica: replica, From: from, Next: next, At: when}); err != nil {
			return err
		}
		return setDue(ctx, q, due)
	})
}
