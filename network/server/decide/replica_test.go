package decide

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// serves gives a node replicas with the model of its runs, as its inventory names
// them.
func (m *node) serves(names ...string) {
	m.Helper()
	m.servesAt("http://bench:8000", names...)
}

func (m *node) servesAt(url string, names ...string) {
	m.Helper()
	in := store.Inventory{Node: m.id, Hostname: "bench", Body: json.RawMessage(`{}`), SHA256: store.Hash(strings.Join(names, ",")), At: m.clock.now()}
	for _, name := range names {
		in.Replicas = append(in.Replicas, store.Replica{
			ID: newID(), Name: name, Engine: "vllm", Model: "made-up", ServingURL: url,
			Facts: store.Facts{Admission: "pending", Intent: "serve", Contact: "seen", Reasons: []string{"enrolled"}},
		})
	}
	if err := m.store.PutInventory(m.Context(), in); err != nil {
		m.Fatal(err)
	}
	if err := m.d.Enrolled(m.Context(), m.id); err != nil {
		m.Fatal(err)
	}
}

func (m *node) replica(name string) store.Replica {
	m.Helper()
	all, err := m.store.Replicas(m.Context(), everybody, m.id)
	if err != nil {
		m.Fatal(err)
	}
	for _, r := range all {
		if r.Name == name {
			return r
		}
	}
	m.Fatalf("node %s has no replica %q", m.id, name)
	return store.Replica{}
}

func (m *node) replicaIs(name string, want control.Admission) {
	m.Helper()
	if r := m.replica(name); r.Admission != string(want) {
		m.Fatalf("replica %s is %s: %q, not %s", name, r.Admission, r.Reasons, want)
	}
}

func (m *node) routed(name string) bool {
	n, r := m.row(), m.replica(name)
	facts := func(f store.Facts) control.Facts {
		return control.Facts{Admission: control.Admission(f.Admission), Intent: control.Intent(f.Intent), Contact: control.Contact(f.Contact)}
	}
	ok, _ := control.RoutableReplica(facts(n.Facts), facts(r.Facts))
	return ok
}

// waiting counts the checks that the agent is asked for.
func (m *node) waiting() int {
	m.Helper()
	commands, err := m.store.WaitingCommands(m.Context(), []string{m.id}, m.clock.now())
	if err != nil {
		m.Fatal(err)
	}
	return len(commands)
}

// does carries out a person's word as the API gets it.
func (m *node) does(a api.Action) {
	m.Helper()
	a.Reason = "it is ours"
	if err := m.d.Act(m.Context(), server.Act{By: server.Principal{ID: "person:1", All: true}, Node: m.id, Action: a}); err != nil {
		m.Fatal(err)
	}
}

func (m *node) approve() {
	m.Helper()
	m.does(api.Action{Action: api.ActionActionApprove})
}

// TestLifeOfAReplica: one check is for the node and its replica, one approval and
// one readmission for both; slow reports degrade and quarantine both. A replica that
// a person took out waits for a word about itself.
func TestLifeOfAReplica(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	m.serves("default")
	if got := m.waiting(); got != 1 {
		t.Errorf("the agent is asked for %d checks; one is of both", got)
	}
	m.measured(measurement{slow: 1, replica: "default"})
	m.is(control.Pending)
	m.replicaIs("default", control.Pending)
	for what, f := range map[string]store.Facts{"assay node approve " + m.id + " --reason": m.row().Facts, "assay node approve " + m.id + ` --replica "default"`: m.replica("default").Facts} {
		if len(f.Reasons) == 0 || !strings.Contains(f.Reasons[0], what) {
			t.Errorf("the reasons %q do not name the command %s", f.Reasons, what)
		}
	}
	m.approve()
	m.is(control.Admitted)
	m.replicaIs("default", control.Admitted)
	if !m.routed("default") {
		t.Error("it is not routed")
	}
	for range 2 {
		m.measured(measurement{slow: 3, replica: "default"})
	}
	m.is(control.Degraded)
	m.replicaIs("default", control.Degraded)
	for range 2 {
		m.measured(measurement{slow: 10, replica: "default"})
	}
	m.is(control.Quarantined)
	m.replicaIs("default", control.Quarantined)
	m.does(api.Action{Action: api.ActionActionReadmit})
	m.replicaIs("default", control.Reverifying)
	m.measured(measurement{slow: 1, replica: "default"})
	m.is(control.Admitted)
	m.replicaIs("default", control.Admitted)

	one := "default"
	m.does(api.Action{Action: api.ActionActionQuarantine, Replica: &one})
	m.does(api.Action{Action: api.ActionActionQuarantine})
	m.does(api.Action{Action: api.ActionActionReadmit})
	m.measured(measurement{slow: 1, replica: "default"})
	m.is(control.Admitted)
	m.replicaIs("default", control.Quarantined)
	if m.routed("default") {
		t.Error("it is routed in quarantine")
	}
	m.does(api.Action{Action: api.ActionActionReadmit, Replica: &one})
	m.replicaIs("default", control.Reverifying)
	m.measured(measurement{slow: 1, replica: "default"})
	m.replicaIs("default", control.Admitted)
	m.provable(m.id)
	var b control.Breakers
	row, err := n.store.Breaker(t.Context())
	if err != nil || json.Unmarshal(row.Body, &b) != nil || b.Members != 1 || b.Out != 0 || b.Replicas.Members != 1 || b.Replicas.Out != 0 {
		t.Errorf("%s: %v", row.Body, err)
	}
}

// TestNodeTakesItsReplicasOut: by what the node is, and without a transition of the
// replica.
func TestNodeTakesItsReplicasOut(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	m.serves("default")
	m.measured(measurement{slow: 1, replica: "default"})
	m.approve()
	version := m.replica("default").Version
	for _, e := range [][2]control.Kind{{control.EventDrain, control.EventUndrain}, {control.EventQuarantine, ""}} {
		if !m.routed("default") {
			t.Fatal("it is not routed")
		}
		m.act(control.Event{Kind: e[0], Reason: "a test"})
		if m.routed("default") {
			t.Errorf("it is routed after %s", e[0])
		}
		if e[1] != "" {
			m.act(control.Event{Kind: e[1], Reason: "a test"})
		}
	}
	if got := m.replica("default").Version; got != version {
		t.Errorf("the replica went from version %d to %d", version, got)
	}
}

// TestReportNamesItsReplica: a report moves the replica that it names with the model
// that it serves, and no other.
func TestReportNamesItsReplica(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	m.serves("a", "b")
	for _, x := range []measurement{{slow: 1}, {slow: 1, replica: "c"}, {slow: 1, replica: "a", model: "another"}} {
		m.measured(x)
		for _, name := range []string{"a", "b"} {
			if r := m.replica(name); strings.Contains(string(r.State), `"last"`) {
				t.Errorf("a run %+v counts for replica %s", x, name)
			}
		}
	}
	m.measured(measurement{slow: 1, replica: "b"})
	if strings.Contains(string(m.replica("a").State), `"last"`) || !strings.Contains(string(m.replica("b").State), `"last"`) {
		t.Error("a run of b counts for a, or not for b")
	}
	for name, want := range map[string]struct {
		e    assay.Engine
		have []string
	}{
		"a": {assay.Engine{Model: "m"}, []string{"a"}}, // a run of before
		"":  {assay.Engine{Model: ""}, []string{"a"}},
	} {
		var all []store.Replica
		for _, r := range want.have {
			all = append(all, store.Replica{Name: r, Model: want.e.Model})
		}
		if got := replicaNamed(want.e, all); got != name {
			t.Errorf("%+v of %v is %q", want.e, want.have, got)
		}
	}
}

// TestBreakerHoldsReplicas: where every report is severe, no more replicas than nodes
// leave rotation.
func TestBreakerHoldsReplicas(t *testing.T) {
	n := newNetwork(t, nil)
	n.apply(n.policy("gpu: required", "gpu: none", "min_peers: 3", "min_peers: 99"))
	var all []*node
	for range 3 {
		m := n.enrol()
		m.serves("default")
		m.measured(measurement{slow: 1, replica: "default"})
		m.approve()
		m.replicaIs("default", control.Admitted)
		all = append(all, m)
	}
	for range 2 {
		for _, m := range all {
			m.measured(measurement{slow: 10, replica: "default"})
		}
	}
	nodes, replicas := 0, 0
	for _, m := range all {
		if m.row().Admission == "quarantined" {
			nodes++
		}
		if m.replica("default").Admission == "quarantined" {
			replicas++
		}
	}
	if nodes != 1 || replicas != 1 {
		t.Errorf("%d nodes and %d replicas of 3 are out; one of each may be", nodes, replicas)
	}
}

// TestReplicaTimers: what is due for a replica is done, a drain of it ends when
// nothing is running there, and timers of one that is gone end.
func TestReplicaTimers(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	m.serves("default")
	m.measured(measurement{slow: 1, replica: "default"})
	m.approve()
	intent := func(want control.Intent) {
		t.Helper()
		n.clock.pass(time.Minute)
		if _, err := n.d.doDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := m.replica("default").Intent; got != string(want) {
			t.Fatalf("it is %s, not %s", got, want)
		}
	}
	drain := Happening{Node: m.id, Replica: "default", Scope: everybody, Event: control.Event{Kind: control.EventDrain, Reason: "a test", Actor: control.Actor{Kind: control.ActorPerson, ID: "1"}}}
	if out, err := n.d.Happen(t.Context(), drain); err != nil || out.Refused {
		t.Fatal(out.Why, err)
	}
	beat := func(running int) {
		t.Helper()
		b, err := json.Marshal(api.Heartbeat{Replicas: &[]api.ReplicaState{{Name: "default", Running: running}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.store.Beats(t.Context(), []store.Beat{{Node: m.id, Seen: n.clock.now(), Running: 7, Body: b}}); err != nil {
			t.Fatal(err)
		}
	}
	intent(control.Draining) // nobody said that nothing is running
	beat(2)
	intent(control.Draining)
	beat(0)
	intent(control.Drained)
	m.serves()
	n.clock.pass(1000 * time.Hour)
	if _, err := n.d.doDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if due, err := n.store.ClaimDue(t.Context(), dueTick, "test", n.clock.now().Add(1000*time.Hour), time.Minute, 100); err != nil || len(due) != 1 || strings.Contains(due[0].Subject, "/") {
		t.Errorf("timers %+v: %v", due, err)
	}
}

// TestRecount: after a restore, or without a replica that a node had, the breaker
// counts what is there.
func TestRecount(t *testing.T) {
	n := newNetwork(t, nil)
	for range 3 {
		m := n.enrol()
		m.serves("default")
		m.measured(measurement{slow: 1, replica: "default"})
		m.approve()
		m.is(control.Admitted)
	}
	counts := func() (b control.Breakers) {
		t.Helper()
		b, _, err := n.d.breakers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := counts()
	if before.Members != 3 || before.Replicas.Members != 3 {
		t.Fatalf("%+v", before)
	}
	if err := n.d.recount(t.Context(), n.clock.now()); err != nil || counts() != before {
		t.Errorf("counting anew made %+v of %+v: %v", counts(), before, err)
	}
	m := n.enrol() // one that fails as a newcomer counts for nobody
	m.act(control.Event{Kind: control.EventQuarantine, Reason: `{"member":true}`})
	m = n.enrol() // and neither does a replica that is there no more
	m.serves("default")
	m.measured(measurement{slow: 1, replica: "default"})
	m.replicaIs("default", control.Admitted)
	m.serves()
	if err := n.store.SetBreaker(t.Context(), counts().Version, json.RawMessage(`{"members":99,"out":50}`), n.clock.now(), store.Trail{}); err != nil {
		t.Fatal(err)
	}
	if err := n.d.recount(t.Context(), n.clock.now()); err != nil {
		t.Fatal(err)
	}
	if got := counts(); got.Members != 4 || got.Out != 0 || got.Replicas.Members != 3 || got.Replicas.Out != 0 {
		t.Errorf("%+v", got)
	}
}
