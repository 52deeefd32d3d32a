package decide

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
)

// past gives a node a history of reports every six hours, up to now, whose values
// vary a little; it gives back the last report that was judged.
func (n *network) past(m *node, values ...float64) (r store.Report) {
	n.Helper()
	last := n.points(m)[0]
	last.Config = "a test's"
	n.clock.pass(time.Duration(len(values)+1) * 6 * time.Hour)
	rng := rand.New(rand.NewPCG(1, 44))
	for i, v := range values {
		p := last
		p.Report, p.At = ulid.Make().String(), n.clock.now().UTC().Add(time.Duration(i-len(values)+1)*6*time.Hour).Truncate(time.Microsecond)
		p.Figures = json.RawMessage(fmt.Sprintf(`{"output_tokens_per_second":{"value":%g}}`, v*(1+0.01*rng.NormFloat64())))
		r = store.Report{ID: p.Report, Node: m.id, At: p.At}
		if err := n.d.lookBack(n.Context(), r, verdict{point: &p}); err != nil {
			n.Fatal(err)
		}
	}
	return r
}

func (n *network) points(m *node) []store.Point {
	n.Helper()
	points, err := n.store.Points(n.Context(), everybody, m.id, time.Unix(1, 0))
	if err != nil {
		n.Fatal(err)
	}
	return points
}

func (n *network) anomalies() []store.Anomaly {
	n.Helper()
	list, err := n.store.Anomalies(n.Context(), everybody, "", "", store.Page{})
	if err != nil {
		n.Fatal(err)
	}
	return list
}

func repeated(v float64, n int) (out []float64) {
	for range n {
		out = append(out, v)
	}
	return out
}

// A judged report leaves figures with the configuration and what the node held at
// each load.
func TestReportsMakeAHistory(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	points := n.points(m)
	if len(points) != 2 {
		t.Fatalf("two reports have left %d points", len(points))
	}
	if f := trend.ParseFigures(points[0].Figures); !(f[trend.Throughput].Value > 0) || !(f[trend.TPOT].Value > 0) {
		t.Errorf("figures: %s", points[0].Figures)
	}
	var levels []trend.Level
	if err := json.Unmarshal(points[0].Levels, &levels); err != nil || len(levels) == 0 || !(levels[0].Streams > 0) {
		t.Errorf("levels: %s, %v", points[0].Levels, err)
	}
	if points[0].Config != points[1].Config || points[0].Config == "" {
		t.Errorf("configurations %q and %q", points[0].Config, points[1].Config)
	}
}

// A drop of 5 % is found, told once, and has what the policy says done, with its
// evidence in the reasons.
func TestADropIsDecidedByThePolicy(t *testing.T) {
	n := newNetwork(t, nil)
	n.apply(n.policy("gpu: required", "gpu: none", "performance_drop: [note, re-verify]", "performance_drop: [degrade]"))
	m := n.approved()
	n.past(m, append(repeated(1000, 60), repeated(950, 12)...)...)
	found := n.anomalies()
	if len(found) != 1 || found[0].Kind != trend.KindDrop || found[0].Node != m.id {
		t.Fatalf("found %+v", found)
	}
	m.is(control.Degraded)
	ts, err := n.store.Transitions(t.Context(), everybody, m.id, store.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if reasons := strings.Join(ts[0].Reasons, "; "); !strings.Contains(reasons, "performance_drop") || !strings.Contains(reasons, "output_tokens_per_second is 4.9 % worse") || !strings.Contains(reasons, "95 % interval") || len(ts[0].Evidence) < 5 {
		t.Errorf("the reasons %q with the evidence %v", reasons, ts[0].Evidence)
	}
	// Whoever judges the report again finds the same, and tells it no second time.
	n.clock.pass(8 * 24 * time.Hour)
	var f trend.Finding
	if err := json.Unmarshal(found[0].Body, &f); err != nil {
		t.Fatal(err)
	}
	if err := n.d.tell(t.Context(), store.Report{ID: found[0].Report, Node: m.id}, f); err != nil {
		t.Fatal(err)
	}
	if len(n.anomalies()) != 1 {
		t.Error("it was told twice")
	}
}

// Another version of the engine is another configuration: what is slower with it is
// no anomaly.
func TestAnotherConfigurationIsNoAnomaly(t *testing.T) {
	peer := "one"
	m := assay.Manifest{Engine: assay.Engine{Version: "1"}}
	a := configOf(m, peer, traitsOf(m))
	m.Engine.Version = "2"
	if b := configOf(m, peer, traitsOf(m)); a == b {
		t.Errorf("both are %q", a)
	}
	m.Node.GPUs = []assay.GPU{{Serial: "1324520012345", VBIOS: "92.00", Driver: "550"}, {Serial: "1324520054321", VBIOS: "92.00", Driver: "550"}}
	if got := traitsOf(m); got["serial"] != "1324520" || got["vbios"] != "92.00" || got["driver"] != "550" || got["engine version"] != "2" {
		t.Errorf("traits %v", got)
	}
}

// Demand is sampled once a quarter of an hour.
func TestDemandIsSampled(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	now := n.clock.now()
	if err := n.store.Beats(t.Context(), []store.Beat{{Node: m.id, Seen: now, Running: 5}}); err != nil {
		t.Fatal(err)
	}
	turn := n.d.demands()
	for range 3 {
		if _, err := turn(t.Context(), store.Lease{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := n.store.Demands(t.Context(), everybody, "", now.Add(-time.Hour))
	if err != nil || len(list) != 1 || list[0].Running != 5 || list[0].Nodes != 1 {
		t.Errorf("demand %+v, %v", list, err)
	}
}
