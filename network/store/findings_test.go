package store

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
)

// A finding is seen by whom its node is, and the last of each check stands with the
// replica, together with the URL that it is about.
func testFindings(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, at := enrolled(t, s, "ada"), now()
	ada, bob := Scope{Owners: []string{"ada"}}, Scope{Owners: []string{"bob"}}
	r := Replica{ID: id(), Name: "a", Engine: "vllm", Model: "m", ServingURL: "http://10.0.0.1:8000", Facts: Facts{Admission: "pending", Intent: "serve", Contact: "seen", State: json.RawMessage(`{}`)}}
	must(t, s.PutInventory(ctx, Inventory{Node: node, At: at, Replicas: []Replica{r}}))
	finding := func(check, verdict string, when time.Time) Finding {
		return Finding{ID: id(), At: when, Node: node, Replica: "a", ServingURL: r.ServingURL, Check: check, Verdict: verdict, Text: "why", Figures: map[string]float64{"windows": 24}}
	}
	first, second, third := finding("address", "unknown", at), finding("address", "pass", at.Add(time.Second)), finding("reach", "fail", at.Add(2*time.Second))
	for _, f := range []Finding{first, second, third} {
		must(t, s.AddFinding(ctx, f))
	}
	equal(t, "findings", got[[]Finding](t)(s.Findings(ctx, ada, node, Page{})), []Finding{third, second, first})
	equal(t, "the last", got[[]Finding](t)(s.Findings(ctx, ada, node, Page{Limit: 1})), []Finding{third})
	equal(t, "somebody else's", len(got[[]Finding](t)(s.Findings(ctx, bob, node, Page{}))), 0)
	equal(t, "proofs", got[[]Route](t)(s.Routes(ctx))[0].Proofs, control.Proofs{
		"address": {Verdict: "pass", At: second.At, URL: r.ServingURL, Passed: second.At}, "reach": {Verdict: "fail", At: third.At, URL: r.ServingURL, Failed: third.At},
	})
	equal(t, "of one check", got[int](t)(s.FoundSince(ctx, node, "address", at)), 2)
	equal(t, "of one check since the second", got[int](t)(s.FoundSince(ctx, node, "address", second.At)), 1)
	// What is unknown afterwards does not take the pass away.
	must(t, s.AddFinding(ctx, finding("address", "unknown", at.Add(4*time.Second))))
	if p := got[[]Route](t)(s.Routes(ctx))[0].Proofs["address"]; p.Verdict != "unknown" || !p.Passed.Equal(second.At) {
		t.Errorf("after an unknown look: %+v", p)
	}
	// An inventory that is sent again takes nothing of it away.
	must(t, s.PutInventory(ctx, Inventory{Node: node, At: at.Add(3 * time.Second), Replicas: []Replica{r}}))
	equal(t, "proofs after it", len(got[[]Route](t)(s.Routes(ctx))[0].Proofs), 2)
	nobody := finding("address", "pass", at)
	nobody.Replica = "b"
	want(t, s.AddFinding(ctx, nobody), ErrNotFound)
	equal(t, "of a replica that is not there", len(got[[]Finding](t)(s.Findings(ctx, ada, node, Page{}))), 4)
	must(t, s.Retain(ctx, DefaultRetention(), at.AddDate(3, 0, 0)))
	equal(t, "after three years", len(got[[]Finding](t)(s.Findings(ctx, ada, node, Page{}))), 0)
}

// A heart-beat is a node's word: what cannot be is unknown.
func TestCountsOf(t *testing.T) {
	at := now()
	for body, want := range map[string]Count{
		`{"replicas":[{"name":"a","running":3,"output_tokens":70,"counted_seconds_ago":2.5}]}`:             {Node: "n", Replica: "a", Seen: at, At: at.Add(-2500 * time.Millisecond), Tokens: 70, Running: 3},
		`{"running_known":false,"checking":"X","replicas":[{"name":"a","running":0}]}`:                     {Node: "n", Replica: "a", Seen: at, At: at, Tokens: -1, Running: -1, Checking: true},
		`{"replicas":[{"name":"a","running":0,"output_tokens":-1,"counted_seconds_ago":1}]}`:               {Node: "n", Replica: "a", Seen: at, At: at, Tokens: -1},
		`{"replicas":[{"name":"a","running":0,"output_tokens":5,"counted_seconds_ago":1e300}]}`:            {Node: "n", Replica: "a", Seen: at, At: at, Tokens: -1},
		`{"replicas":[{"name":"a","running":0,"output_tokens":5,"counted_seconds_ago":-100}]}`:             {Node: "n", Replica: "a", Seen: at, At: at, Tokens: -1},
		`{"replicas":[{"name":"a","running":0,"output_tokens":9223372036854775807}],"running_known":true}`: {Node: "n", Replica: "a", Seen: at, At: at, Tokens: 9223372036854775807},
	} {
		equal(t, body, countsOf("n", at, json.RawMessage(body)), []Count{want})
	}
	equal(t, "garbage", len(countsOf("n", at, json.RawMessage(`{"replicas":7}`))), 0)
}
