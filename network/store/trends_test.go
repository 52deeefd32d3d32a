package store

import (
	"encoding/json"
	"testing"
	"time"
)

// A node's history is its own, an anomaly of a report is kept once together with
// what was decided on it, and demand is sampled once a moment.
func testTrends(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, other, at := enrolled(t, s, "ada"), enrolled(t, s, "bob"), now()
	ada, bob := Scope{Owners: []string{"ada"}}, Scope{Owners: []string{"bob"}}
	point := func(node string, when time.Time) Point {
		return Point{
			Report: id(), Node: node, At: when, Peer: "one", Model: "m", Config: "v1", Traits: map[string]string{"vbios": "1.2"},
			Figures: json.RawMessage(`{"a":1}`), Levels: json.RawMessage(`[]`),
		}
	}
	old, first, second := point(node, at.AddDate(0, 0, -200)), point(node, at.Add(-time.Hour)), point(node, at)
	for _, p := range []Point{old, first, second, second, point(other, at)} {
		must(t, s.PutPoint(ctx, p))
	}
	equal(t, "history", got[[]Point](t)(s.Points(ctx, ada, node, at.Add(-2*time.Hour))), []Point{second, first})
	equal(t, "somebody else's", len(got[[]Point](t)(s.Points(ctx, bob, node, at.Add(-2*time.Hour)))), 0)
	equal(t, "holdings", len(got[[]Holding](t)(s.Holdings(ctx, ada))), 1)

	found := Anomaly{ID: id(), At: at, Node: node, Kind: "performance_drop", Metric: "m", Subject: "node " + node, Report: second.Report, Body: json.RawMessage(`{"text":"slow"}`)}
	entry := AuditEntry{ID: id(), At: at, Actor: "server:s", Action: "anomaly", Node: node, Owner: "ada", Outcome: "done"}
	must(t, s.AddAudit(ctx, Trail{Anomalies: []Anomaly{found}, Audit: []AuditEntry{entry}}))
	again := found
	again.ID, entry.ID = id(), id()
	want(t, s.AddAudit(ctx, Trail{Anomalies: []Anomaly{again}, Audit: []AuditEntry{entry}}), ErrTaken)
	equal(t, "entries", len(got[[]AuditEntry](t)(s.Audit(ctx, ada, node, Page{}))), 1)
	equal(t, "anomalies", got[[]Anomaly](t)(s.Anomalies(ctx, ada, "", "", Page{})), []Anomaly{found})
	equal(t, "of another kind", len(got[[]Anomaly](t)(s.Anomalies(ctx, ada, node, "bad_batch", Page{}))), 0)
	equal(t, "of somebody else", len(got[[]Anomaly](t)(s.Anomalies(ctx, bob, "", "", Page{}))), 0)
	equal(t, "told", got[bool](t)(s.ToldSince(ctx, found.Subject, found.Kind, "m", at.Add(-time.Minute))), true)
	equal(t, "told since", got[bool](t)(s.ToldSince(ctx, found.Subject, found.Kind, "m", at.Add(time.Minute))), false)

	must(t, s.Beats(ctx, []Beat{{Node: node, Seen: at, Running: 7}, {Node: other, Seen: at, Running: -1}}))
	quarter := at.Truncate(15 * time.Minute)
	must(t, s.SampleDemand(ctx, quarter, at.Add(-time.Minute)))
	must(t, s.Beats(ctx, []Beat{{Node: node, Seen: at.Add(time.Second), Running: 9}}))
	must(t, s.SampleDemand(ctx, quarter, at.Add(-time.Minute)))
	equal(t, "demand", got[[]Demand](t)(s.Demands(ctx, everybody, "", at.Add(-time.Hour))), []Demand{{At: quarter, Running: 7, Nodes: 2, Unknown: 1}})
	equal(t, "one owner's", got[[]Demand](t)(s.Demands(ctx, ada, "", at.Add(-time.Hour))), []Demand{{At: quarter, Running: 7, Nodes: 1}})
	equal(t, "another model's", len(got[[]Demand](t)(s.Demands(ctx, ada, "x", at.Add(-time.Hour)))), 0)

	must(t, s.Retain(ctx, DefaultRetention(), at))
	equal(t, "kept", got[[]Point](t)(s.Points(ctx, ada, node, time.Unix(1, 0))), []Point{second, first})
}
