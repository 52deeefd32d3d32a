package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// A failed check does what the policy says of its anomaly, with its words in the
// reasons; one that passed or is unknown does nothing, and all are kept.
func TestFindingsAreDecidedByThePolicy(t *testing.T) {
	n := newNetwork(t, nil)
	n.apply(n.policy("gpu: required", "gpu: none", "address_false: [quarantine, page]", "address_false: [degrade]"))
	m := n.approved()
	found := func(verdict, kind, text string) {
		t.Helper()
		if err := n.d.Found(t.Context(), store.Finding{Node: m.id, Check: "address", Verdict: verdict, Text: text}, kind); err != nil {
			t.Fatal(err)
		}
	}
	found(control.ProofPass, "address_false", "it is")
	found(control.ProofUnknown, "address_false", "who knows")
	m.is(control.Admitted)
	found(control.ProofFail, "address_false", "the URL is\nanother's")
	m.is(control.Degraded)
	ts, err := n.store.Transitions(t.Context(), everybody, m.id, store.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if reasons := strings.Join(ts[0].Reasons, "; "); !strings.Contains(reasons, "address_false") || !strings.Contains(reasons, "another's") || strings.Contains(reasons, "\n") {
		t.Errorf("reasons %q", reasons)
	}
	all, err := n.store.Findings(t.Context(), everybody, m.id, store.Page{})
	if err != nil || len(all) != 3 || all[0].Verdict != control.ProofFail || all[0].ID == "" || all[0].At.IsZero() {
		t.Errorf("findings %+v, %v", all, err)
	}
	if a := n.anomalies(); len(a) != 1 || a[0].Kind != "address_false" || a[0].Report != all[0].ID {
		t.Errorf("anomalies %+v", a)
	}
}

// A trouble that goes on is told once a day: one that is out cannot be taken out again,
// and one that is away is tried every few minutes. One that is in rotation again is
// taken out again.
func TestTroubleThatGoesOn(t *testing.T) {
	n := newNetwork(t, nil)
	n.apply(n.policy("gpu: required", "gpu: none"))
	m := n.approved()
	fails := func(check, kind string, anomalies int) {
		t.Helper()
		n.clock.pass(time.Hour)
		if err := n.d.Found(t.Context(), store.Finding{Node: m.id, Check: check, Verdict: control.ProofFail, Text: "no"}, kind); err != nil {
			t.Fatal(err)
		}
		if got := len(n.anomalies()); got != anomalies {
			t.Errorf("%s: %d anomalies, not %d", check, got, anomalies)
		}
	}
	fails(control.CheckReach, "unreachable", 1)
	fails(control.CheckReach, "unreachable", 1)
	fails("address", "address_false", 2)
	m.is(control.Quarantined)
	for range 5 {
		fails("address", "address_false", 2)
	}
	m.act(control.Event{Kind: control.EventReadmit, Reason: "it is repaired"})
	fails("address", "address_false", 3)
	m.is(control.Quarantined)
	n.clock.pass(tellAgain)
	fails("address", "address_false", 4)
	fails(control.CheckReach, "unreachable", 5)
}
