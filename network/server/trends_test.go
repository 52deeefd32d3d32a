package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// A node's history, its anomalies and what it holds are there for whoever sees its
// owner, and for nobody else.
func TestTrendsAreShown(t *testing.T) {
	n := sqlite(t)
	m := n.enrol("mine")
	mine, theirs := n.token(api.NewTokenRoleViewer, "mine"), n.token(api.NewTokenRoleViewer, "theirs")
	rng := rand.New(rand.NewPCG(1, 44))
	now := time.Now().UTC().Truncate(time.Microsecond)
	var p store.Point
	for i := range 80 {
		v := 1000.0
		if i >= 65 {
			v = 900
		}
		p = store.Point{
			Report: newID(now), Node: m.id, At: now.Add(time.Duration(i-80) * 6 * time.Hour), Peer: "p", Model: "m", Config: "vllm 1", Traits: map[string]string{},
			Figures: json.RawMessage(fmt.Sprintf(`{"output_tokens_per_second":{"value":%g},"ttft_p99_ms":{"value":5,"low":4,"high":6}}`, v*(1+0.01*rng.NormFloat64()))),
			Levels:  json.RawMessage(`[{"streams":8,"requests_per_second":2,"output_tokens_per_second":900,"values":{"ttft_p99":150}},{"streams":16,"requests_per_second":3,"output_tokens_per_second":1200,"values":{"ttft_p99":700}}]`),
		}
		if err := n.store.PutPoint(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	var h api.History
	n.ask(http.StatusOK, "GET", "/api/v1/nodes/"+m.id+"/history", mine, nil, &h)
	if len(h.Points) != 80 || len(h.Changes) != 1 || h.Changes[0].Shift > -0.08 || h.Unknown == "" || h.Peers.Unknown == "" || h.Configuration != "vllm 1" {
		t.Errorf("history: %d points, changes %+v, unknown %q, peers %+v", len(h.Points), h.Changes, h.Unknown, h.Peers)
	}
	n.ask(http.StatusOK, "GET", "/api/v1/nodes/"+m.id+"/history?metric=ttft_p99_ms&days=5", mine, nil, &h)
	if len(h.Points) != 19 && len(h.Points) != 20 || h.Points[0].Low == nil || *h.Points[0].Low != 4 {
		t.Errorf("five days: %d points %+v", len(h.Points), h.Points)
	}
	n.ask(http.StatusBadRequest, "GET", "/api/v1/nodes/"+m.id+"/history?metric=speed", mine, nil, nil)
	n.ask(http.StatusNotFound, "GET", "/api/v1/nodes/"+m.id+"/history", theirs, nil, nil)

	a := store.Anomaly{ID: newID(now), At: now, Node: m.id, Kind: "performance_drop", Metric: "output_tokens_per_second", Subject: "node " + m.id, Report: p.Report, Body: json.RawMessage(`{"shift":-0.1,"text":"slow","reports":["r"]}`)}
	if err := n.store.AddAudit(t.Context(), store.Trail{Anomalies: []store.Anomaly{a}}); err != nil {
		t.Fatal(err)
	}
	var list []api.Anomaly
	n.ask(http.StatusOK, "GET", "/api/v1/anomalies?node="+m.id+"&kind=performance_drop&limit=1", mine, nil, &list)
	if len(list) != 1 || list[0].Text != "slow" || list[0].Shift != -0.1 || len(list[0].Reports) != 1 {
		t.Errorf("anomalies %+v", list)
	}
	n.ask(http.StatusOK, "GET", "/api/v1/anomalies", theirs, nil, &list)
	if len(list) != 0 {
		t.Errorf("somebody else sees %+v", list)
	}
	n.capacity(m.id, p, mine, theirs)
}

// capacity looks at what a node holds once it is in rotation.
func (n *network) capacity(node string, p store.Point, mine, theirs string) {
	n.t.Helper()
	var c api.Capacity
	n.ask(http.StatusOK, "GET", "/api/v1/capacity", mine, nil, &c)
	if c.Nodes != 0 || c.Streams != nil || !strings.Contains(c.Forecast.Unknown, "42 are needed") {
		n.t.Errorf("a node that is pending holds nothing: %+v", c)
	}
	row, err := n.store.Node(n.t.Context(), store.Scope{All: true}, node)
	if err != nil {
		n.t.Fatal(err)
	}
	next := store.Facts{Admission: "admitted", Intent: "serve", Contact: "seen", Version: row.Version + 1, State: row.State}
	b, err := n.store.Breaker(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	now := time.Now()
	if err := n.store.Decide(n.t.Context(), store.Decision{ID: newID(now), At: now, Node: node, From: row.Version, Next: next, BreakerFrom: b.Version, Report: &store.Report{ID: p.Report, At: p.At, Node: node}, Event: json.RawMessage("{}")}); err != nil {
		n.t.Fatal(err)
	}
	for query, want := range map[string]float64{"": 16, "?slo=ttft_p99%3C200ms": 8, "?slo=ttft_p99%3C100ms": 0} {
		n.ask(http.StatusOK, "GET", "/api/v1/capacity"+query, mine, nil, &c)
		if c.Nodes != 1 || c.Measured != 1 || c.Streams == nil || *c.Streams != want {
			n.t.Errorf("capacity%s: %+v", query, c)
		}
	}
	n.ask(http.StatusOK, "GET", "/api/v1/capacity?slo=tpot_p50%3C10ms", mine, nil, &c)
	if c.UnknownNodes != 1 || c.Streams != nil {
		n.t.Errorf("what nobody measured is unknown: %+v", c)
	}
	n.ask(http.StatusOK, "GET", "/api/v1/capacity?model=other", mine, nil, &c)
	if c.Nodes != 0 {
		n.t.Errorf("another model: %+v", c)
	}
	n.ask(http.StatusOK, "GET", "/api/v1/capacity", theirs, nil, &c)
	if c.Nodes != 0 {
		n.t.Errorf("somebody else's: %+v", c)
	}
	n.ask(http.StatusBadRequest, "GET", "/api/v1/capacity?slo=fast", mine, nil, nil)
}
