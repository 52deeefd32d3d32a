package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
)

// TestTry: a stricter policy over what happened takes out a node that is degraded
// under the one in force, and changes nothing.
func TestTry(t *testing.T) {
	n := newNetwork(t, nil)
	m, fine := n.approved(), n.approved()
	for range 2 {
		m.measured(measurement{slow: 3})
		fine.measured(measurement{slow: 1})
	}
	m.is(control.Degraded)
	version := m.row().Version
	strict, err := control.ReadPolicy(strings.NewReader(strings.Replace(n.loose(), "quarantine: 0.5", "quarantine: 0.6", 1)), "strict")
	if err != nil {
		t.Fatal(err)
	}
	trial, err := n.d.Try(t.Context(), strict, n.clock.now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if trial.Nodes != 2 || len(trial.Differences) != 1 || trial.Differences[0].ID != m.id || trial.Differences[0].OldEnd != control.Degraded || trial.Differences[0].NewEnd != control.Quarantined {
		t.Errorf("%+v", trial.Differences)
	}
	same, err := control.ReadPolicy(strings.NewReader(n.loose()), "same")
	if err != nil {
		t.Fatal(err)
	}
	if trial, err = n.d.Try(t.Context(), same, n.clock.now().Add(-time.Hour)); err != nil || len(trial.Differences) != 0 {
		t.Errorf("the same policy: %+v %v", trial.Differences, err)
	}
	if got := m.row().Version; got != version {
		t.Errorf("trying changed version %d to %d", version, got)
	}
}

// A policy that requires what no node has takes all of them out, and the trial says
// so beforehand.
func TestTryARequirement(t *testing.T) {
	n := newNetwork(t, nil)
	for i := range 3 {
		m := n.enrol()
		if i == 0 {
			m.measured(measurement{slow: 1})
		}
		if out := m.act(control.Event{Kind: control.EventApprove, Reason: "it is ours"}); out.Refused {
			t.Fatal(out.Why)
		}
		n.clock.pass(time.Minute)
		for range i + 1 {
			m.measured(measurement{slow: 1})
		}
		m.is(control.Admitted)
	}
	text := strings.Replace(n.loose(), "gpu: none", "gpu: required", 1)
	if text == n.loose() {
		t.Fatalf("the policy is another:\n%s", text)
	}
	strict, err := control.ReadPolicy(strings.NewReader(text), "strict")
	if err != nil {
		t.Fatal(err)
	}
	trial, err := n.d.Try(t.Context(), strict, n.clock.now().Add(-24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if len(trial.Differences) != 3 {
		t.Errorf("%d of 3 nodes differ: %+v; old %+v", len(trial.Differences), trial.Differences, trial.Old)
	}
	out, err := n.d.Test(t.Context(), strict, 1)
	if err != nil || len(out.Decisions) < 3 {
		t.Errorf("%d decisions differ: %+v, %v", len(out.Decisions), out, err)
	}
}
