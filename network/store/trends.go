package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Point is what one judged report says in figures.
type Point struct {
	Report  string
	Node    string
	At      time.Time
	Peer    string // as of the report
	Model   string
	Config  string            // what it was measured with: another one begins another series
	Traits  map[string]string // what a batch of nodes may share
	Figures json.RawMessage   // by metric
	Levels  json.RawMessage   // what the node did at each load
}

const pointNames = "p.report, p.node, p.at, p.peer, p.model, p.config, p.traits, p.figures, p.levels"

func scanPoint(r row) (p Point, err error) {
	err = r.Scan(&p.Report, &p.Node, at(&p.At), &p.Peer, &p.Model, &p.Config, parsed(&p.Traits), (*[]byte)(&p.Figures), (*[]byte)(&p.Levels))
	return p, err
}

// PutPoint keeps what a report says, once.
func (s *Store) PutPoint(ctx context.Context, p Point) error {
	return s.repeat(ctx, "keep the figures of report "+p.Report, func(q database.Query) error {
		_, err := q.ExecContext(ctx, `INSERT INTO points (report, node, at, peer, model, config, traits, figures, levels)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (report) DO NOTHING`,
			p.Report, p.Node, micros(p.At), p.Peer, p.Model, p.Config, document(p.Traits), raw(p.Figures), raw(p.Levels))
		return err
	})
}

// MaxHistory is how many points a history has at most: three months of hourly
// reports.
const MaxHistory = 2200

// Points is the history of a node since a time, the newest first.
func (s *Store) Points(ctx context.Context, scope Scope, node string, since time.Time) (points []Point, err error) {
	a := args{node, micros(since)}
	query := "SELECT " + pointNames + " FROM points p JOIN nodes n ON n.id = p.node WHERE p.node = $1 AND p.at >= $2 AND " + scope.where(s.db, "n.owner", &a) +
		" ORDER BY p.at DESC, p.report DESC LIMIT " + a.add(MaxHistory)
	err = s.view(ctx, "read the history of node "+node, func(q database.Query) error {
		points, err = all(ctx, q, scanPoint, query, a...)
		return err
	})
	return points, err
}

// PeerPoints are the figures of the last reports of nodes in rotation that are
// comparable, other than one node, for the server itself.
func (s *Store) PeerPoints(ctx context.Context, peer, without string, limit int) (points []Point, err error) {
	err = s.view(ctx, "list figures of peers", func(q database.Query) error {
		points, err = all(ctx, q, scanPoint, "SELECT "+pointNames+` FROM nodes n JOIN points p ON p.report = n.last_report
			WHERE n.admission IN ('admitted', 'degraded') AND n.intent <> 'retired' AND n.id <> $1 AND p.peer = $2 ORDER BY p.report DESC LIMIT $3`, without, peer, limit)
		return err
	})
	return points, err
}

// Holding is a node in rotation, and the figures of its last report.
type Holding struct {
	Node string
	Facts
	Point Point // the zero Point: it has none
}

// maxHoldings bounds how many nodes are looked at for one question.
const maxHoldings = 100_000

// Holdings lists the nodes that are not retired with their last figures.
func (s *Store) Holdings(ctx context.Context, scope Scope) (nodes []Holding, err error) {
	a := args{}
	query := `SELECT n.id, n.admission, n.intent, n.contact, coalesce(p.report, ''), coalesce(p.model, ''), coalesce(p.levels, '[]')
		FROM nodes n LEFT JOIN points p ON p.report = n.last_report AND n.last_report <> '' WHERE n.intent <> 'retired' AND ` + scope.where(s.db, "n.owner", &a) + " ORDER BY n.id LIMIT " + a.add(maxHoldings)
	err = s.view(ctx, "list what nodes hold", func(q database.Query) error {
		nodes, err = all(ctx, q, func(r row) (h Holding, err error) {
			err = r.Scan(&h.Node, &h.Admission, &h.Intent, &h.Contact, &h.Point.Report, &h.Point.Model, (*[]byte)(&h.Point.Levels))
			return h, err
		}, query, a...)
		return err
	})
	return nodes, err
}

// Anomaly is something that was found in a node's history.
type Anomaly struct {
	ID      string // a ULID
	At      time.Time
	Node    string
	Kind    string
	Metric  string
	Subject string // what it is about: the node, or a group of nodes
	Report  string // that showed it
	Body    json.RawMessage
}

// insertAnomalies keeps anomalies. ErrTaken: a report has shown one before, and what
// it leads to has been decided.
func insertAnomalies(ctx context.Context, q database.Query, list []Anomaly) error {
	for _, n := range list {
		r, err := q.ExecContext(ctx, "INSERT INTO anomalies (id, at, node, kind, metric, subject, report, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (report, kind, metric, subject) DO NOTHING",
			n.ID, micros(n.At), n.Node, n.Kind, n.Metric, n.Subject, n.Report, raw(n.Body))
		if err := changed(r, err, ErrTaken); err != nil {
			return err
		}
	}
	return nil
}

// ToldSince says whether an anomaly of a kind was found since a time, about the same
// subject and metric.
func (s *Store) ToldSince(ctx context.Context, subject, kind, metric string, since time.Time) (told bool, err error) {
	err = s.view(ctx, "look for an anomaly of "+subject, func(q database.Query) error {
		var n int
		err := q.QueryRowContext(ctx, "SELECT count(*) FROM anomalies WHERE subject = $1 AND kind = $2 AND metric = $3 AND at >= $4", subject, kind, metric, micros(since)).Scan(&n)
		told = n > 0
		return err
	})
	return told, err
}

// Anomalies lists what was found, newest first: of all nodes within the scope, or of
// one, and of all kinds or one.
func (s *Store) Anomalies(ctx context.Context, scope Scope, node, kind string, p Page) (list []Anomaly, err error) {
	a := args{}
	query := "SELECT a.id, a.at, a.node, a.kind, a.metric, a.subject, a.report, a.body FROM anomalies a JOIN nodes n ON n.id = a.node WHERE " + scope.where(s.db, "n.owner", &a)
	if node != "" {
		query += " AND a.node = " + a.add(node)
	}
	if kind != "" {
		query += " AND a.kind = " + a.add(kind)
	}
	query += p.newest("a.id", &a)
	err = s.view(ctx, "list anomalies", func(q database.Query) error {
		list, err = all(ctx, q, func(r row) (n Anomaly, err error) {
			return n, r.Scan(&n.ID, at(&n.At), &n.Node, &n.Kind, &n.Metric, &n.Subject, &n.Report, (*[]byte)(&n.Body))
		}, query, a...)
		return err
	})
	return list, err
}

// Demand is how many requests were under way at a moment, of a model.
type Demand struct {
	At      time.Time
	Running int64
	Nodes   int64 // that were heard
	Unknown int64 // of them, those that do not tell
}

// SampleDemand keeps how many requests the nodes that were heard since a time work
// on, under the moment at; what is there already stays.
func (s *Store) SampleDemand(ctx context.Context, when, since time.Time) error {
	return s.repeat(ctx, "keep the demand", func(q database.Query) error {
		_, err := q.ExecContext(ctx, `INSERT INTO demand (at, owner, model, running, nodes, unknown)
			SELECT CAST($1 AS BIGINT), n.owner, coalesce((SELECT CASE WHEN count(DISTINCT r.model) = 1 THEN min(r.model) ELSE '' END FROM replicas r WHERE r.node = n.id AND r.removed_at IS NULL), ''),
				sum(CASE WHEN b.running > 0 THEN b.running ELSE 0 END), count(*), sum(CASE WHEN b.running < 0 THEN 1 ELSE 0 END)
			FROM nodes n JOIN beats b ON b.node = n.id WHERE b.seen_at >= $2 AND n.intent <> 'retired' GROUP BY 2, 3
			ON CONFLICT (at, owner, model) DO NOTHING`, micros(when), micros(since))
		return err
	})
}

// Demands lists the demand since a time by moment, summed over the owners within the
// scope, of one model or of all.
func (s *Store) Demands(ctx context.Context, scope Scope, model string, since time.Time) (list []Demand, err error) {
	a := args{micros(since)}
	query := "SELECT at, CAST(sum(running) AS BIGINT), CAST(sum(nodes) AS BIGINT), CAST(sum(unknown) AS BIGINT) FROM demand WHERE at >= $1 AND " + scope.where(s.db, "owner", &a)
	if model != "" {
		query += " AND model = " + a.add(model)
	}
	err = s.view(ctx, "read the demand", func(q database.Query) error {
		list, err = all(ctx, q, func(r row) (d Demand, err error) {
			return d, r.Scan(at(&d.At), &d.Running, &d.Nodes, &d.Unknown)
		}, query+" GROUP BY at ORDER BY at", a...)
		return err
	})
	return list, err
}
