package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Beat is a node's heart-beat.
type Beat struct {
	Node    string
	Seen    time.Time
	Version string // of the agent
	Running int64  // requests that are not ours; -1: unknown
	Body    json.RawMessage
}

// EngineDown says whether the agent told with its last heart-beat that the engine
// of a replica does not answer it. Where nothing was told it is not known to.
func EngineDown(body json.RawMessage, replica string) bool {
	var told struct {
		Replicas []struct {
			Name string `json:"name"`
			Up   *bool  `json:"up"`
		} `json:"replicas"`
	}
	if json.Unmarshal(body, &told) != nil {
		return false
	}
	for _, r := range told.Replicas {
		if r.Name == replica {
			return r.Up != nil && !*r.Up
		}
	}
	return false
}

// Beats writes many heart-beats at once. Of a node's the latest stays, whatever
// the order in which they are written.
func (s *Store) Beats(ctx context.Context, beats []Beat) error {
	beats = latest(beats)
	if len(beats) == 0 {
		return nil
	}
	const what = "write heart-beats"
	if s.db.Dialect() == database.Postgres {
		return s.one(ctx, what, func(q database.Query) error { return beatsPostgres(ctx, q, beats) })
	}
	return s.repeat(ctx, what, func(q database.Query) error { return beatsSQLite(ctx, q, beats) })
}

// latest keeps one beat for each node, since one statement can change a row only
// once, and sorts them: two processes that change the same rows in one order
// cannot wait for each other.
func latest(beats []Beat) []Beat {
	beats = slices.Clone(beats)
	slices.SortStableFunc(beats, func(a, b Beat) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), b.Seen.Compare(a.Seen))
	})
	return slices.CompactFunc(beats, func(a, b Beat) bool { return a.Node == b.Node })
}

const upsertBeat = ` ON CONFLICT (node) DO UPDATE SET seen_at = excluded.seen_at, version = excluded.version, running = excluded.running, body = excluded.body
	WHERE excluded.seen_at > beats.seen_at`

// beatsPostgres is one statement with five arrays, whatever the number of rows.
func beatsPostgres(ctx context.Context, q database.Query, beats []Beat) error {
	n := len(beats)
	nodes, seen, versions, running, bodies := make([]string, n), make([]int64, n), make([]string, n), make([]int64, n), make([]string, n)
	for i, b := range beats {
		nodes[i], seen[i], versions[i], running[i], bodies[i] = b.Node, database.Micros(b.Seen), b.Version, b.Running, raw(b.Body)
	}
	_, err := q.ExecContext(ctx, "INSERT INTO beats (node, seen_at, version, running, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[])"+upsertBeat,
		database.Binary(nodes, seen, versions, running, bodies)...)
	return err
}

func beatsSQLite(ctx context.Context, q database.Query, beats []Beat) error {
	for _, b := range beats {
		if _, err := q.ExecContext(ctx, "INSERT INTO beats (node, seen_at, version, running, body) VALUES ($1, $2, $3, $4, $5)"+upsertBeat,
			b.Node, micros(b.Seen), b.Version, b.Running, raw(b.Body)); err != nil {
			return err
		}
	}
	return nil
}

// Quiet lists nodes that are seen by their row and whose last heart-beat is older
// than since: whether they are silent is for control to say. It is read by the
// server itself, for all owners.
func (s *Store) Quiet(ctx context.Context, since time.Time, limit int) (nodes []Node, err error) {
	err = s.view(ctx, "list quiet nodes", func(q database.Query) error {
		nodes, err = all(ctx, q, scanNode, "SELECT "+nodeColumns+" WHERE n.contact = 'seen' AND n.intent <> 'retired' AND coalesce(b.seen_at, n.created_at) < $1 ORDER BY n.id LIMIT $2", micros(since), limit)
		return err
	})
	return nodes, err
}

// Returned lists nodes that are silent by their row and have a heart-beat since.
func (s *Store) Returned(ctx context.Context, since time.Time, limit int) (nodes []Node, err error) {
	err = s.view(ctx, "list nodes that returned", func(q database.Query) error {
		nodes, err = all(ctx, q, scanNode, "SELECT "+nodeColumns+" WHERE n.contact <> 'seen' AND n.intent <> 'retired' AND b.seen_at >= $1 ORDER BY n.id LIMIT $2", micros(since), limit)
		return err
	})
	return nodes, err
}
