package decide

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// asks is a person's request, with the audit entry that the server gives it.
func (m *node) asks(action api.ActionAction, change func(*server.Act)) error {
	m.Helper()
	now := m.clock.now().UTC().Truncate(time.Microsecond)
	a := server.Act{
		By: server.Principal{ID: "person:p1", Role: api.RoleOperator, All: true}, Node: m.id, Action: api.Action{Action: action, Reason: "why not"},
		Trail: store.Trail{Audit: []store.AuditEntry{{ID: newID(), At: now, Actor: "person:p1", Action: "act", Target: "node:" + m.id, Node: m.id, Owner: "o", Outcome: "done", Detail: "words of a person"}}},
	}
	if change != nil {
		change(&a)
	}
	return m.d.Act(m.Context(), a)
}

// TestAct: what people ask is done, refused with a reason, or not there for them;
// what was done is in the audit log and signed for the ledger, without their words.
func TestAct(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	n.approved()
	if err := m.asks(api.ActionActionUndrain, nil); !errors.Is(err, server.ErrRefused) {
		t.Errorf("undrain of one that serves: %v", err)
	}
	if err := m.asks(api.ActionActionDrain, func(a *server.Act) { a.By.All, a.By.Owners = false, []string{"somebody else"} }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another owner's: %v", err)
	}
	if err := m.asks(api.ActionActionDrain, func(a *server.Act) { a.By.ID = "token:t1"; a.Trail.Audit[0].Actor = "token:t1" }); err != nil {
		t.Fatal(err)
	}
	if err := m.asks(api.ActionActionUndrain, nil); err != nil {
		t.Fatal(err)
	}
	seconds := 600
	if err := m.asks(api.ActionActionOverride, nil); !errors.Is(err, server.ErrRefused) {
		t.Errorf("an override without an end: %v", err)
	}
	if err := m.asks(api.ActionActionClearOverride, nil); !errors.Is(err, server.ErrRefused) {
		t.Errorf("no override: %v", err)
	}
	if err := m.asks(api.ActionActionOverride, func(a *server.Act) { a.Action.Seconds = &seconds }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m.measured(measurement{slow: 10})
	}
	m.is(control.Admitted) // it is kept
	if err := m.asks(api.ActionActionClearOverride, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.asks(api.ActionActionQuarantine, nil); err != nil {
		t.Fatal(err)
	}
	m.is(control.Quarantined)
	if err := m.asks(api.ActionActionStop, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.asks("explode", nil); !errors.Is(err, server.ErrRefused) {
		t.Errorf("%v", err)
	}
	actors := map[string]bool{}
	for _, tr := range n.provable(m.id) {
		actors[tr.Actor] = true
	}
	if !actors["person:p1"] || !actors["token:t1"] {
		t.Errorf("actors %v", actors)
	}
	entries, err := n.store.Audit(t.Context(), everybody, m.id, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, e := range entries {
		if e.Action != "act" {
			continue
		}
		rec, err := n.store.Statement(t.Context(), everybody, m.id, e.ID)
		if err != nil {
			t.Fatalf("audit entry %s is not signed: %v", e.ID, err)
		}
		env, err := ledger.ReadEnvelope(rec.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := ledger.ParseStatement(env.Payload)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ledger.ActionOf(s)
		if err != nil || a.AuditSum(e.Detail) != s.Subject[0].Digest["sha256"] || strings.Contains(string(env.Payload), "words of a person") {
			t.Errorf("%+v: %v", a, err)
		}
		signed++
	}
	if signed != 6 {
		t.Errorf("%d actions are signed", signed)
	}
}

// TestReset: a person lets the breaker go, and what it held happens.
func TestReset(t *testing.T) {
	n := newNetwork(t, nil)
	nodes := []*node{n.approved(), n.approved(), n.approved()}
	for i := range 2 {
		for range 3 {
			nodes[i].measured(measurement{slow: 10})
		}
	}
	nodes[1].is(control.Degraded)
	if err := n.d.Reset(t.Context(), server.Principal{ID: "person:p1"}, time.Hour, store.Trail{}); err != nil {
		t.Fatal(err)
	}
	nodes[1].measured(measurement{slow: 10})
	nodes[1].is(control.Quarantined)
}

// TestPolicyTest: the answer of the API is a list, and names what would be.
func TestPolicyTest(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	for range 2 {
		m.measured(measurement{slow: 3})
	}
	strict, err := control.ReadPolicy(strings.NewReader(strings.Replace(n.loose(), "quarantine: 0.5", "quarantine: 0.6", 1)), "strict")
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.d.Test(t.Context(), strict, 1)
	if err != nil || len(out.Decisions) != 1 || out.Decisions[0].Now != "degraded" || out.Decisions[0].Then != "quarantined" || out.Decisions[0].Node != m.id {
		t.Errorf("%+v %v", out, err)
	}
	same, err := control.ReadPolicy(strings.NewReader(n.loose()), "same")
	if err != nil {
		t.Fatal(err)
	}
	if out, err = n.d.Test(t.Context(), same, 1); err != nil || out.Decisions == nil || len(out.Decisions) != 0 {
		t.Errorf("%+v %v", out, err)
	}
}
