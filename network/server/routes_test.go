package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// serving is a node with one replica that was admitted.
func (n *network) serving(owner, url string) *testNode {
	n.t.Helper()
	m := n.enrol(owner)
	n.ask(http.StatusNoContent, "PUT", m.path("/inventory"), m.token, api.Inventory{Hostname: "h\u202e", Gpus: []api.GPU{}, Replicas: []api.Replica{{Name: "default", Engine: "vllm", Model: "m", ServingUrl: &url}}}, nil)
	n.decided(m.id, control.Facts{Admission: control.Admitted, Intent: control.Serve, Contact: control.Seen})
	return m
}

// decided gives a node and its replica a state, as decisions would.
func (n *network) decided(id string, f control.Facts) {
	n.t.Helper()
	ctx, scope := n.t.Context(), store.Scope{All: true}
	row, err := n.store.Node(ctx, scope, id)
	if err != nil {
		n.t.Fatal(err)
	}
	replicas, err := n.store.Replicas(ctx, scope, id)
	if err != nil {
		n.t.Fatal(err)
	}
	versions := map[string]int64{"": row.Version}
	for _, r := range replicas {
		versions[r.Name] = r.Version
	}
	for replica, version := range versions {
		state, err := json.Marshal(control.Node{Facts: f, Member: true, Version: version + 1})
		if err != nil {
			n.t.Fatal(err)
		}
		now := time.Now()
		d := store.Decision{
			ID: newID(now), At: now, Node: id, Replica: replica, From: version, Event: json.RawMessage("{}"),
			Next: store.Facts{Admission: string(f.Admission), Intent: string(f.Intent), Contact: string(f.Contact), Version: version + 1, State: state},
		}
		if err := n.store.Decide(ctx, d); err != nil {
			n.t.Fatal(err)
		}
	}
}

func TestRoutes(t *testing.T) {
	n := sqlite(t)
	mine, theirs := n.serving("ada", "http://10.0.0.1:8000/v1"), n.serving("bob", "https://node2.example")
	n.serving("bob", "http://10.0.0.3;shutdown")
	silent := n.serving("bob", "http://10.0.0.4:8000")
	n.decided(silent.id, control.Facts{Admission: control.Admitted, Intent: control.Serve, Contact: control.Silent})
	if err := n.server.routes.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	router := n.token(api.NewTokenRoleRouter)
	routes := func(token, query string) string {
		t.Helper()
		var all []api.Route
		n.ask(http.StatusOK, "GET", "/api/v1/route?"+query, token, nil, &all)
		var out []string
		for _, r := range all {
			out = append(out, fmt.Sprintf("%s %d %s", strings.TrimPrefix(r.ServingUrl, "http://"), r.Weight, r.Rotation))
		}
		return strings.Join(out, "; ")
	}
	for _, c := range []struct{ query, want string }{
		{"", "10.0.0.1:8000/v1 100 ready; https://node2.example 100 ready"},
		{"model=m", "10.0.0.1:8000/v1 100 ready; https://node2.example 100 ready"},
		{"model=other", ""},
		{"slo=ttft_p99<500ms", ""}, // nothing was measured
		{"all=true", "10.0.0.1:8000/v1 100 ready; https://node2.example 100 ready; 10.0.0.3;shutdown 0 down; 10.0.0.4:8000 0 down"},
		{"all=true&slo=error_rate<1%25,ttft_p99<1s", "10.0.0.1:8000/v1 0 ready; https://node2.example 0 ready; 10.0.0.3;shutdown 0 down; 10.0.0.4:8000 0 down"},
	} {
		if got := routes(router, c.query); got != c.want {
			t.Errorf("%s: %s\nand not %s", c.query, got, c.want)
		}
	}
	if got := routes(n.token(api.NewTokenRoleViewer, "ada"), ""); got != "10.0.0.1:8000/v1 100 ready" {
		t.Errorf("ada sees %s", got)
	}
	for _, slo := range []string{"ttft_p50<1s", "fast", "ttft_p99<500ms,,"} {
		n.ask(http.StatusBadRequest, "GET", "/api/v1/route?slo="+slo, router, nil, nil)
	}

	var groups []api.TargetGroup
	n.ask(http.StatusOK, "GET", "/sd", router, nil, &groups)
	var got []string
	for _, g := range groups {
		got = append(got, g.Labels["__scheme__"]+"://"+strings.Join(g.Targets, ","))
		if node := g.Labels["__meta_assay_node"]; node != mine.id && node != theirs.id || g.Labels["__meta_assay_model"] != "m" || strings.Contains(g.Labels["__meta_assay_hostname"], "\u202e") {
			t.Errorf("labels: %v", g.Labels)
		}
	}
	if want := "http://10.0.0.1:8000 https://node2.example:443"; strings.Join(got, " ") != want {
		t.Errorf("Prometheus is told %v, and not %s", got, want)
	}
}

// A list that is not known is an error and not an empty one: who gets nothing
// would stop scraping and routing.
func TestRoutesThatNobodyKnows(t *testing.T) {
	n := sqlite(t)
	s, err := New(Options{Store: n.store, Identity: n.id}) // nothing reads for it
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/sd", "/api/v1/route"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+n.admin)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// A router's token reads who gets requests, and nothing else.
func TestRouterSeesLittle(t *testing.T) {
	n := sqlite(t)
	m := n.serving("ada", "http://10.0.0.1:8000")
	router := n.token(api.NewTokenRoleRouter)
	ops, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	may := map[string]bool{"getMe": true, "getRoute": true, "getTargets": true}
	for _, op := range ops {
		media, body := op.sample()
		got := n.do(op.method, op.filled(m.id), router, media, body)
		if ok := got.status < 300 || got.status == http.StatusServiceUnavailable; !op.public && ok != may[op.id] {
			t.Errorf("%s: a router is answered with %d: %s", op.id, got.status, got.body)
		}
	}
}

func TestSLOIsNotKeptByWhatIsUnknown(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	kept := &assay.PerformanceMetrics{TTFTp99MS: v(200), TPOTp50MS: v(20), P99LatencyMS: v(900), AvgLatencyMS: v(500), ErrorRate: v(0)}
	for slo, want := range map[string]bool{
		"": true, "ttft_p99<200ms": true, "ttft_p99<199ms": false, "tpot_p50<20ms,e2e_p99<900ms,e2e_mean<500ms,error_rate<1%": true, "ttft_p99<1s,tpot_p50<1ms": false,
	} {
		objectives, err := parseSLO(slo)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*assay.PerformanceMetrics{kept, {}, nil} {
			ok := true
			for _, o := range objectives {
				ok = ok && missed(o, p) == ""
			}
			if ok != (want && (p == kept || slo == "")) {
				t.Errorf("%q: %v", slo, ok)
			}
		}
	}
}
