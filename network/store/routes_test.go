package store

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
)

// Routes are the replicas that are there, have an address and whose node is not
// retired, with the summary of its last report.
func testRoutes(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, retired, at := enrolled(t, s, "ada"), enrolled(t, s, "bob"), now()
	fresh := Facts{Admission: "pending", Intent: "serve", Contact: "seen", State: json.RawMessage(`{}`)}
	replica := func(name, url string) Replica {
		return Replica{ID: id(), Name: name, Engine: "vllm", Model: "m", ServingURL: url, Facts: fresh}
	}
	a, quiet, gone := replica("a", "http://10.0.0.1:8000"), replica("quiet", ""), replica("gone", "http://10.0.0.1:8001")
	must(t, s.PutInventory(ctx, Inventory{Node: node, Hostname: "h", At: at, Replicas: []Replica{a, quiet, gone}}))
	must(t, s.PutInventory(ctx, Inventory{Node: node, Hostname: "h", At: at.Add(time.Second), Replicas: []Replica{a, quiet}}))
	must(t, s.PutInventory(ctx, Inventory{Node: retired, At: at, Replicas: []Replica{replica("a", "http://10.0.0.2:8000")}}))
	must(t, s.Decide(ctx, decision(t, s, retired, func(f *Facts) { f.Intent = "retired" })))

	score := 0.5
	r := announced(t, s, node, at)
	unscored := announced(t, s, node, at)
	r.Scored, r.Verdict, r.Score, r.ScoreLow, r.Summary = at, "pass", &score, &score, json.RawMessage(`{"a":1}`)
	must(t, s.ScoreReport(ctx, r))
	d := decision(t, s, node, func(f *Facts) { f.Admission = "admitted" })
	d.Report = &r
	must(t, s.Decide(ctx, d))

	all := got[[]Route](t)(s.Routes(ctx))
	if len(all) != 1 {
		t.Fatalf("%d routes: %+v", len(all), all)
	}
	n := got[Node](t)(s.Node(ctx, everybody, node))
	n.Reasons = nil
	equal(t, "the route", all[0], Route{
		ID: a.ID, Node: node, Replica: "a", Owner: "ada", Hostname: "h", Engine: "vllm", Model: "m", ServingURL: "http://10.0.0.1:8000",
		NodeFacts: n.Facts, ReplicaFacts: fresh, ScoreLow: &score, LastReport: r.ID, LastReportAt: at, Proofs: control.Proofs{},
	})
	for i, told := range []struct {
		body string
		down bool
	}{{`{"replicas":[{"name":"quiet","up":true},{"name":"a","up":false}]}`, true}, {`{"replicas":[{"name":"a","up":true}]}`, false}, {`{"replicas":[{"name":"a"}]}`, false}, {`{}`, false}} {
		must(t, s.Beats(ctx, []Beat{{Node: node, Seen: at.Add(time.Duration(i+1) * time.Second), Version: "1", Body: json.RawMessage(told.body)}}))
		equal(t, "down by "+told.body, got[[]Route](t)(s.Routes(ctx))[0].EngineDown, told.down)
	}
	summaries := got[map[string]json.RawMessage](t)(s.Summaries(ctx, []string{r.ID, unscored.ID, id()}))
	equal(t, "summaries", summaries, map[string]json.RawMessage{r.ID: r.Summary})
}
