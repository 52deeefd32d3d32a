package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/network/control"
)

// Finding is a verdict of the server about a node, or one of its replicas, that
// rests on what the server saw itself.
type Finding struct {
	ID         string // a ULID
	At         time.Time
	Node       string
	Replica    string // its name; empty: the node itself
	ServingURL string // that a replica's is about; empty: none
	Check      string
	Verdict    string // pass, fail or unknown
	Text       string
	Figures    map[string]float64 // what it rests on
}

// findingBody is what no query looks at.
type findingBody struct {
	Text    string             `json:"text"`
	URL     string             `json:"url,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`
}

// AddFinding keeps a finding; it is then the last of its check.
func (s *Store) AddFinding(ctx context.Context, f Finding) error {
	return s.tx(ctx, "keep a finding about node "+f.Node, func(q database.Query) error {
		if err := s.lockNode(ctx, q, f.Node); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "INSERT INTO findings (id, at, node, replica, kind, verdict, body) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			f.ID, micros(f.At), f.Node, f.Replica, f.Check, f.Verdict, document(findingBody{f.Text, f.ServingURL, f.Figures})); err != nil {
			return err
		}
		if f.Replica == "" {
			return nil
		}
		proofs := control.Proofs{}
		if err := q.QueryRowContext(ctx, "SELECT trust FROM replicas WHERE node = $1 AND name = $2", f.Node, f.Replica).Scan(parsed(&proofs)); err != nil {
			return found(err)
		}
		proofs[f.Check] = proofs[f.Check].Next(f.Verdict, f.At, f.ServingURL)
		_, err := q.ExecContext(ctx, "UPDATE replicas SET trust = $3 WHERE node = $1 AND name = $2", f.Node, f.Replica, document(proofs))
		return err
	})
}

// Findings lists what was found about a node, newest first.
func (s *Store) Findings(ctx context.Context, scope Scope, node string, p Page) (list []Finding, err error) {
	a := args{node}
	query := "SELECT f.id, f.at, f.node, f.replica, f.kind, f.verdict, f.body FROM findings f JOIN nodes n ON n.id = f.node WHERE f.node = $1 AND " + scope.where(s.db, "n.owner", &a) + p.newest("f.id", &a)
	err = s.view(ctx, "list findings about node "+node, func(q database.Query) error {
		list, err = all(ctx, q, func(r row) (f Finding, err error) {
			var b findingBody
			err = r.Scan(&f.ID, at(&f.At), &f.Node, &f.Replica, &f.Check, &f.Verdict, parsed(&b))
			f.Text, f.ServingURL, f.Figures = b.Text, b.URL, b.Figures
			return f, err
		}, query, a...)
		return err
	})
	return list, err
}

// FoundSince counts the findings of one check about a node since a time, for the
// server itself.
func (s *Store) FoundSince(ctx context.Context, node, check string, since time.Time) (n int, err error) {
	err = s.view(ctx, "count findings about node "+node, func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT count(*) FROM findings WHERE node = $1 AND kind = $2 AND at >= $3", node, check, micros(since)).Scan(&n)
	})
	return n, err
}

// Count is what the agent of a replica said last that the engine has counted.
type Count struct {
	Node, Replica string
	Seen          time.Time // when the heart-beat came
	At            time.Time // when it was read, by our clock
	Tokens        int64     // -1: the engine does not count
	Running       int       // requests of others; -1: unknown
	Checking      bool      // the agent measures its engine itself
}

// maxCountAge is how old a reading may be that a heart-beat brings.
const maxCountAge = time.Hour

// Counts lists what the engines of these nodes have counted, for the server itself.
func (s *Store) Counts(ctx context.Context, nodes []string) (counts []Count, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	type beat struct {
		node string
		seen time.Time
		body json.RawMessage
	}
	err = s.view(ctx, "read what engines have counted", func(q database.Query) error {
		list, err := all(ctx, q, func(r row) (b beat, err error) {
			return b, r.Scan(&b.node, at(&b.seen), (*[]byte)(&b.body))
		}, "SELECT node, seen_at, body FROM beats WHERE "+s.db.Any("node", 1), s.db.List(nodes))
		counts = nil
		for _, b := range list {
			counts = append(counts, countsOf(b.node, b.seen, b.body)...)
		}
		return err
	})
	return counts, err
}

// countsOf reads a heart-beat, which a node wrote: what cannot be is unknown.
func countsOf(node string, seen time.Time, body json.RawMessage) (out []Count) {
	var b struct {
		Known    *bool  `json:"running_known"`
		Checking string `json:"checking"`
		Replicas []struct {
			Name    string  `json:"name"`
			Running int     `json:"running"`
			Tokens  *int64  `json:"output_tokens"`
			Ago     float64 `json:"counted_seconds_ago"`
		} `json:"replicas"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil
	}
	for _, r := range b.Replicas {
		c := Count{Node: node, Replica: r.Name, Seen: seen, At: seen, Tokens: -1, Running: r.Running, Checking: b.Checking != ""}
		if b.Known != nil && !*b.Known {
			c.Running = -1
		}
		if ago := time.Duration(r.Ago * float64(time.Second)); r.Tokens != nil && *r.Tokens >= 0 && r.Ago >= 0 && r.Ago <= maxCountAge.Seconds() {
			c.Tokens, c.At = *r.Tokens, seen.Add(-ago)
		}
		out = append(out, c)
	}
	return out
}
