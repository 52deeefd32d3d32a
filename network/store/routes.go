package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/network/control"
)

// Route is a replica with what is known of its node: what routers go by.
type Route struct {
	ID         string // the replica's
	Node       string
	Replica    string
	Owner      string
	Hostname   string
	Engine     string
	Model      string
	ServingURL string

	NodeFacts    Facts // without reasons
	ReplicaFacts Facts // without reasons
	ScoreLow     *float64
	LastReport   string // its id; empty: none
	LastReportAt time.Time
	EngineDown   bool // by the last heart-beat
	Proofs       control.Proofs
}

// maxRoutes bounds what is read at once: ten times what one server is made for.
const maxRoutes = 100_000

func scanRoute(r row) (v Route, err error) {
	n, p := &v.NodeFacts, &v.ReplicaFacts
	var beat json.RawMessage
	err = r.Scan(&v.ID, &v.Node, &v.Replica, &v.Owner, &v.Hostname, &v.Engine, &v.Model, &v.ServingURL,
		&n.Admission, &n.Intent, &n.Contact, &n.Version, &n.PolicyVersion, (*[]byte)(&n.State),
		&p.Admission, &p.Intent, &p.Contact, &p.Version, &p.PolicyVersion, (*[]byte)(&p.State),
		&v.ScoreLow, &v.LastReport, at(&v.LastReportAt), (*[]byte)(&beat), parsed(&v.Proofs))
	v.EngineDown = EngineDown(beat, v.Replica)
	return v, err
}

// Routes lists the replicas that are there, have a serving URL and whose node is
// not retired, by id, for the server itself.
func (s *Store) Routes(ctx context.Context) (routes []Route, err error) {
	err = s.view(ctx, "list routes", func(q database.Query) error {
		routes, err = all(ctx, q, scanRoute, `SELECT r.id, r.node, r.name, n.owner, n.hostname, r.engine, r.model, r.serving_url,
			n.admission, n.intent, n.contact, n.version, n.policy_version, n.state,
			r.admission, r.intent, r.contact, r.version, r.policy_version, r.state,
			n.score_low, n.last_report, n.last_report_at, coalesce(b.body, '{}'), r.trust
			FROM replicas r JOIN nodes n ON n.id = r.node LEFT JOIN beats b ON b.node = n.id
			WHERE r.removed_at IS NULL AND r.serving_url <> '' AND n.intent <> 'retired' ORDER BY r.id LIMIT $1`, maxRoutes)
		return err
	})
	return routes, err
}

// Summaries reads what was made of reports, by their ids, for the server itself:
// at most a thousand at once.
func (s *Store) Summaries(ctx context.Context, reports []string) (map[string]json.RawMessage, error) {
	type one struct {
		id      string
		summary json.RawMessage
	}
	found := map[string]json.RawMessage{}
	err := s.view(ctx, "read what was made of reports", func(q database.Query) error {
		list, err := all(ctx, q, func(r row) (v one, err error) {
			return v, r.Scan(&v.id, (*[]byte)(&v.summary))
		}, "SELECT r.id, r.summary FROM report_keys k JOIN reports r ON r.id = k.id AND r.at = k.at WHERE r.scored_at IS NOT NULL AND "+s.db.Any("k.id", 1), s.db.List(reports[:min(len(reports), 1000)]))
		for _, v := range list {
			found[v.id] = v.summary
		}
		return err
	})
	return found, err
}
