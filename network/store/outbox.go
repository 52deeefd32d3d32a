package store

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Topics of the outbox.
const (
	TopicLedger  = "ledger"  // statements and events: to Kafka, in each node's order
	TopicWebhook = "webhook" // to Target, retried
)

// Record is something that must leave: its bytes are kept as they came.
type Record struct {
	ID       string // a ULID; unique for ever
	Topic    string
	Node     string // the key: a node's records leave in order
	Kind     string // ledger.Kind, or a webhook's
	Target   string // a webhook's name in the policy or the configuration
	Bytes    []byte
	Received time.Time

	// Kept by the table.
	Seq       int64
	Published time.Time
	Attempts  int64
	Next      time.Time // no attempt before
	Problem   string    // of the last attempt
}

// Outcome is what became of a delivered record.
type Outcome string

// Outcomes.
const (
	Taken     Outcome = "taken"
	Duplicate Outcome = "duplicate" // the same bytes are here already
	Refused   Outcome = "refused"   // other bytes, or another node's, are here under this id
)

// Deliver takes records of a node for the ledger, all in one transaction: when it
// returns without an error their bytes and the rows to publish are durable. There
// is an outcome for each, in their order.
func (s *Store) Deliver(ctx context.Context, node string, records []Record, received time.Time) (outcomes []Outcome, err error) {
	err = s.repeat(ctx, "deliver records of node "+node, func(q database.Query) error {
		outcomes = make([]Outcome, len(records))
		if err := s.lockNode(ctx, q, node); err != nil {
			return err
		}
		mine := make([]Record, len(records))
		for i, r := range records {
			r.Topic, r.Node, r.Received = TopicLedger, node, received
			mine[i] = r
		}
		fresh, err := s.insertRecords(ctx, q, mine)
		if err != nil {
			return err
		}
		for i, r := range mine {
			if fresh[r.ID] {
				outcomes[i] = Taken
				delete(fresh, r.ID) // the same id later in this batch is another record
				continue
			}
			if outcomes[i], err = compare(ctx, q, r); err != nil {
				return err
			}
		}
		return nil
	})
	return outcomes, err
}

// compare says whether what is there under a record's id is that record.
func compare(ctx context.Context, q database.Query, r Record) (Outcome, error) {
	var node, hash, topic string
	if err := q.QueryRowContext(ctx, "SELECT node, sha256, topic FROM outbox WHERE id = $1", r.ID).Scan(&node, &hash, &topic); err != nil {
		return "", err
	}
	if node == r.Node && hash == Hash(r.Bytes) && topic == r.Topic {
		return Duplicate, nil
	}
	return Refused, nil
}

// insertRecords inserts those whose id is not there, in their order, and says
// which they were.
func (s *Store) insertRecords(ctx context.Context, q database.Query, records []Record) (fresh map[string]bool, err error) {
	const columns = "INSERT INTO outbox (id, topic, node, kind, target, bytes, sha256, received_at, next_attempt, attempts, claimed_by, claimed_until, problem)"
	const end = " ON CONFLICT (id) DO NOTHING RETURNING id"
	fresh = map[string]bool{}
	scan := func(r row) (id string, err error) {
		err = r.Scan(&id)
		fresh[id] = true
		return id, err
	}
	if s.db.Dialect() == database.SQLite || len(records) == 1 {
		for _, r := range records {
			if _, err := all(ctx, q, scan, columns+" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, '', 0, '')"+end,
				r.ID, r.Topic, r.Node, r.Kind, r.Target, r.Bytes, Hash(r.Bytes), micros(r.Received), nextOf(r)); err != nil {
				return nil, err
			}
		}
		return fresh, nil
	}
	n := len(records)
	ids, topics, nodes, kinds, targets, hashes := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	bytes, received, next := make([][]byte, n), make([]int64, n), make([]int64, n)
	for i, r := range records {
		ids[i], topics[i], nodes[i], kinds[i], targets[i], hashes[i] = r.ID, r.Topic, r.Node, r.Kind, r.Target, Hash(r.Bytes)
		bytes[i], received[i], next[i] = r.Bytes, database.Micros(r.Received), nextOf(r)
	}
	// The sort stands before the numbering of rows, so that seq follows the order.
	_, err = all(ctx, q, scan, columns+` SELECT id, topic, node, kind, target, bytes, sha256, received_at, next_attempt, 0, '', 0, ''
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::bigint[], $9::bigint[])
		WITH ORDINALITY AS r (id, topic, node, kind, target, bytes, sha256, received_at, next_attempt, i) ORDER BY i`+end,
		database.Binary(ids, topics, nodes, kinds, targets, bytes, hashes, received, next)...)
	return fresh, err
}

func nextOf(r Record) int64 {
	if r.Next.IsZero() {
		return 0
	}
	return database.Micros(r.Next)
}

// leave writes what a change leaves behind. An id that is there with other bytes
// fails the whole.
func (s *Store) leave(ctx context.Context, q database.Query, t Trail) error {
	if err := insertAnomalies(ctx, q, t.Anomalies); err != nil {
		return err
	}
	t, err := s.recorded(ctx, t)
	if err != nil {
		return err
	}
	if len(t.Outbox) > 0 {
		fresh, err := s.insertRecords(ctx, q, t.Outbox)
		if err != nil {
			return err
		}
		for _, r := range t.Outbox {
			if fresh[r.ID] {
				continue
			}
			switch o, err := compare(ctx, q, r); {
			case err != nil:
				return err
			case o == Refused:
				return fmt.Errorf("record %s: %w", r.ID, ErrTaken)
			}
		}
	}
	return insertAudit(ctx, q, t.Audit)
}

// Unpublished counts records of a topic that wait, up to a bound: beyond it nobody
// needs to know how many.
func (s *Store) Unpublished(ctx context.Context, topic string, bound int) (n int, err error) {
	err = s.view(ctx, "count unpublished records", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM outbox WHERE topic = $1 AND published_at IS NULL LIMIT $2) AS w", topic, bound).Scan(&n)
	})
	return n, err
}

// Waiting is what waits to leave.
type Waiting struct {
	Records int // up to a bound
	Oldest  time.Time
}

// Waiting counts records of a topic that wait, up to a bound, and says since when the
// oldest does.
func (s *Store) Waiting(ctx context.Context, topic string, bound int) (w Waiting, err error) {
	err = s.view(ctx, "look at what waits to leave", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT count(*), min(received_at) FROM (SELECT received_at FROM outbox WHERE topic = $1 AND published_at IS NULL ORDER BY seq LIMIT $2) AS w", topic, bound).Scan(&w.Records, at(&w.Oldest))
	})
	return w, err
}

const recordColumns = "seq, id, topic, node, kind, target, bytes, received_at, published_at, attempts, next_attempt, problem"

func scanRecord(r row) (v Record, err error) {
	err = r.Scan(&v.Seq, &v.ID, &v.Topic, &v.Node, &v.Kind, &v.Target, &v.Bytes, at(&v.Received), at(&v.Published), &v.Attempts, at(&v.Next), &v.Problem)
	return v, err
}

// NextToPublish lists records of the ledger that wait, in the order in which they
// must leave. Only the holder of a lease may ask: with two publishers a node's
// order would be lost.
func (s *Store) NextToPublish(ctx context.Context, l Lease, limit int) (records []Record, err error) {
	err = s.tx(ctx, "list records to publish", func(q database.Query) error {
		if err := s.held(ctx, q, l); err != nil {
			return err
		}
		records, err = all(ctx, q, scanRecord, "SELECT "+recordColumns+" FROM outbox WHERE topic = $1 AND published_at IS NULL ORDER BY seq LIMIT $2", TopicLedger, limit)
		return err
	})
	return records, err
}

// MarkPublished marks records as published. It is true whoever says it, and so
// needs no lease.
func (s *Store) MarkPublished(ctx context.Context, ids []string, when time.Time) error {
	return s.one(ctx, "mark records as published", func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE outbox SET published_at = $2, problem = '' WHERE published_at IS NULL AND "+s.db.Any("id", 1), s.db.List(ids), micros(when))
		return err
	})
}

// Statement is a record's bytes as they came, of a node within the scope. They
// may have been dropped by retention: then they are in the ledger, and this is
// ErrNotFound.
func (s *Store) Statement(ctx context.Context, scope Scope, node, id string) (r Record, err error) {
	a := args{id, node}
	query := "SELECT " + recordColumns + " FROM outbox WHERE id = $1 AND node = $2 AND topic = 'ledger' AND node IN (SELECT n.id FROM nodes n WHERE " + scope.where(s.db, "n.owner", &a) + ")"
	err = s.view(ctx, "statement "+id, func(q database.Query) error {
		r, err = scanRecord(q.QueryRowContext(ctx, query, a...))
		if err == nil && len(r.Bytes) == 0 {
			err = ErrNotFound
		}
		return err
	})
	return r, err
}

// ClaimWebhooks takes webhooks that are due for a while: nobody else gets them
// until then. Each claim counts as an attempt.
func (s *Store) ClaimWebhooks(ctx context.Context, holder string, hold time.Duration, limit int) (records []Record, err error) {
	now := s.db.Now()
	err = s.tx(ctx, "claim webhooks", func(q database.Query) error {
		records, err = all(ctx, q, scanRecord, `UPDATE outbox SET attempts = attempts + 1, claimed_by = $1, claimed_until = `+now+` + $2
			WHERE seq IN (SELECT seq FROM outbox WHERE topic = $3 AND published_at IS NULL AND next_attempt <= `+now+` AND claimed_until <= `+now+`
				ORDER BY next_attempt, seq LIMIT $4`+s.db.SkipLocked()+`) RETURNING `+recordColumns,
			holder, hold.Microseconds(), TopicWebhook, limit)
		return err
	})
	return records, err
}

// PostponeWebhook lets go of a claimed webhook until a later attempt. ErrLease: it
// is somebody else's by now.
func (s *Store) PostponeWebhook(ctx context.Context, id, holder string, next time.Time, problem string) error {
	return s.tx(ctx, "postpone webhook "+id, func(q database.Query) error {
		r, err := q.ExecContext(ctx, "UPDATE outbox SET next_attempt = $3, problem = $4, claimed_by = '', claimed_until = 0 WHERE id = $1 AND claimed_by = $2 AND published_at IS NULL", id, holder, micros(next), problem)
		return changed(r, err, ErrLease)
	})
}
