package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/identity"
	"github.com/assay-bench/assay/network/store"
)

func cardID(n int) string { return fmt.Sprintf("GPU-8f6a2c1e-0b3d-4c5e-9f70-%012x", n) }

// shows sends an inventory with cards, and has it looked at.
func (m *node) shows(files *api.DriverFiles, cards ...string) {
	m.Helper()
	m.clock.pass(time.Minute)
	in := api.Inventory{Hostname: "h", Gpus: []api.GPU{}, Replicas: []api.Replica{}, DriverFiles: files}
	row := store.Inventory{Node: m.id, At: m.clock.now().UTC().Truncate(time.Microsecond)}
	for i, u := range cards {
		bus := fmt.Sprintf("00000000:%02X:00.0", i+1)
		in.Gpus = append(in.Gpus, api.GPU{Uuid: u, Name: "NVIDIA A100-SXM4-80GB", PciBusId: &bus})
		row.GPUs = append(row.GPUs, store.GPU{UUID: u, Name: "NVIDIA A100-SXM4-80GB", PCIBusID: bus, Card: identity.UUID(u)})
	}
	b, err := json.Marshal(in)
	if err != nil {
		m.Fatal(err)
	}
	row.Body, row.SHA256 = b, store.Hash(b)
	if err := m.store.PutInventory(m.Context(), row); err != nil {
		m.Fatal(err)
	}
	if _, err := m.d.examineTurn(m.Context(), store.Lease{}); err != nil {
		m.Fatal(err)
	}
	if left, err := m.store.Unexamined(m.Context(), 10); err != nil || len(left) != 0 {
		m.Fatalf("%v were not looked at: %v", left, err)
	}
}

// kinds are what was found of a node.
func (m *node) kinds() (out []string) {
	m.Helper()
	list, err := m.store.Anomalies(m.Context(), everybody, m.id, "", store.Page{})
	if err != nil {
		m.Fatal(err)
	}
	for _, a := range list {
		out = append(out, a.Kind)
	}
	slices.Sort(out)
	return out
}

func (m *node) found(kinds ...string) {
	m.Helper()
	if got := m.kinds(); !slices.Equal(got, kinds) {
		m.Errorf("found %v, not %v; it is %s: %q", got, kinds, m.row().Admission, m.row().Reasons)
	}
}

// The one that showed a card first stays, the second waits for a person, who is
// told what to type; both have a finding.
func TestTwoNodesShowOneCard(t *testing.T) {
	n := newNetwork(t, nil)
	first := n.approved()
	first.shows(nil, cardID(1), cardID(2))
	first.found()
	second := n.enrol()
	second.shows(nil, strings.ToUpper(cardID(2)))
	second.measured(measurement{slow: 1})
	second.is(control.Pending)
	second.found(control.FindShared)
	if r := strings.Join(second.row().Reasons, "; "); !strings.Contains(r, "assay node approve "+second.id) || !strings.Contains(r, "gpu_shared") || !strings.Contains(r, first.id) {
		t.Errorf("the reasons are %q", r)
	}
	first.found(control.FindClaimed)
	first.is(control.Admitted)
	// The same again is told once.
	second.shows(nil, cardID(2), cardID(3))
	second.found(control.FindShared)
	// A person knows that the card was moved.
	if out := second.act(control.Event{Kind: control.EventApprove, Reason: "moved after a repair"}); out.Refused || out.Node.Admission != control.Admitted {
		t.Fatalf("approved, it is %s: %s", out.Node.Admission, out.Why)
	}
	n.clock.pass(8 * 24 * time.Hour)
	second.shows(nil, cardID(2), cardID(3), cardID(4))
	second.is(control.Admitted)
	first.shows(nil, cardID(1))
	first.is(control.Admitted)
	findings, err := n.store.Findings(t.Context(), everybody, first.id, store.Page{})
	if err != nil || len(findings) != 2 || findings[1].Check != control.FindClaimed || findings[1].Verdict != identity.Fail {
		t.Errorf("findings of the first: %+v, %v", findings, err)
	}
}

// Enrolling again with another key and another name does not escape a quarantine:
// neither does retiring first, nor a server that looks only when the run comes.
func TestQuarantineFollowsTheCard(t *testing.T) {
	n := newNetwork(t, nil)
	n.apply(n.policy("gpu: required", "gpu: none", "owner_quarantined: [note]", "owner_quarantined: [hold]"))
	bad := n.approved()
	bad.shows(nil, cardID(1))
	bad.act(control.Event{Kind: control.EventQuarantine, Reason: "it lied"})
	bad.act(control.Event{Kind: control.EventRetire, Reason: "gone"})
	again := n.enrol()
	again.shows(nil, cardID(1))
	again.found(control.FindTainted, control.FindOwner)
	again.measured(measurement{slow: 1})
	again.is(control.Pending)
	if r := strings.Join(again.row().Reasons, "; "); !strings.Contains(r, "it lied") || !strings.Contains(r, bad.id) {
		t.Errorf("the reasons are %q", r)
	}
	// Somebody else who claims the card does not learn what was decided about others.
	n.owner = "p"
	curious := n.enrol()
	n.owner = ""
	curious.shows(nil, cardID(1))
	curious.found(control.FindTainted)
	list, err := n.store.Findings(t.Context(), everybody, curious.id, store.Page{})
	if err != nil || len(list) != 1 || strings.Contains(list[0].Text, "it lied") || !strings.Contains(list[0].Text, bad.id) {
		t.Errorf("findings of another owner's: %+v, %v", list, err)
	}
	// One that shows other cards than it measures on.
	hides := n.enrol()
	hides.shows(nil)
	hides.measured(measurement{slow: 1, gpus: []string{cardID(1)}})
	hides.is(control.Pending)
	hides.found(control.FindTainted, control.FindOwner)
	if out := again.act(control.Event{Kind: control.EventApprove, Reason: "sold to an honest owner"}); out.Node.Admission != control.Admitted {
		t.Errorf("approved, it is %s: %s", out.Node.Admission, out.Why)
	}
}

// What the kernel shows, what changes, what is too fast and what is too old has the
// policy's consequence; in a container mounts have none, and are kept as unknown.
func TestFindingsAboutANode(t *testing.T) {
	n := newNetwork(t, nil)
	n.apply(n.policy("gpu: required", "gpu: none", "share: 0.1", "share: 1"))
	mounts := &[]api.DriverMount{{Path: "/proc/driver/nvidia", Type: "tmpfs"}}
	contained := n.approved()
	contained.shows(&api.DriverFiles{Container: true, Mounts: mounts}, cardID(1))
	contained.found()
	contained.is(control.Admitted)
	if f, err := n.store.Findings(t.Context(), everybody, contained.id, store.Page{}); err != nil || len(f) != 1 || f[0].Verdict != identity.Unknown {
		t.Errorf("findings %+v, %v", f, err)
	}
	mounted := n.approved()
	mounted.shows(&api.DriverFiles{Mounts: mounts}, cardID(2))
	mounted.found(control.FindMounted)
	mounted.is(control.Quarantined)

	changed := n.approved()
	changed.shows(nil, cardID(3))
	changed.shows(nil, cardID(4))
	changed.found(control.FindChanged)
	changed.is(control.Quarantined)

	fast := n.approved()
	fast.measured(measurement{slow: 1, gpus: []string{cardID(5)}, card: "NVIDIA A100-SXM4-80GB", checks: []assay.Check{
		{Name: "compute.speed", Device: cardID(5), Verdict: assay.Pass, Values: map[string]float64{"device_flops": 60e12}},
	}})
	fast.found(control.FindPhysics)
	fast.is(control.Quarantined)

	old := n.approved()
	nonce, _ := ledger.Challenge("earlier")
	old.measured(measurement{slow: 1, nonce: nonce})
	old.is(control.Admitted)
	r := old.measured(measurement{slow: 1, nonce: nonce})
	old.found(control.FindReplayed)
	old.is(control.Quarantined)
	if r.Verdict != "unknown" || !strings.Contains(r.Because, "old run") {
		t.Errorf("the old run is %s: %s", r.Verdict, r.Because)
	}
}

// The answer to a command carries its challenge; one to another command is old.
func TestRunsAnswerTheirCommand(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	ask := func() string {
		m.act(control.Event{Kind: control.EventVerificationRequested, Reason: "now"})
		ids, err := n.store.LastCommands(t.Context(), m.id, 1)
		if err != nil || len(ids) != 1 {
			t.Fatal(ids, err)
		}
		return ids[0]
	}
	answer := func(command, challenge string) Scored {
		m.clock.pass(time.Minute)
		nonce, _ := ledger.Challenge(challenge)
		r := m.judged(m.report(m.run(measurement{slow: 1, nonce: nonce}), func(r *store.Report) { r.Command = command }))
		var s Scored
		if err := json.Unmarshal(r.Summary, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	c1 := ask()
	if s := answer(c1, c1); s.Measured.Checks[control.CheckRunFresh].Verdict != assay.Pass {
		t.Errorf("an answer is %+v", s.Measured.Checks)
	}
	c2 := ask()
	if c1 == c2 {
		t.Fatal("it was not asked again")
	}
	m.is(control.Admitted)
	answer(c2, "nobody's")
	m.is(control.Admitted) // an agent of before
	m.found()
	c3 := ask()
	answer(c3, c2)
	m.found(control.FindReplayed)
}

// Who shows other made-up cards with each inventory is found, and fills no table and
// nobody's night with it.
func TestFindingsAreBounded(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	for i := range maxFound + 10 {
		m.shows(&api.DriverFiles{PciListed: true, Devices: &[]api.DriverDevice{{Path: fmt.Sprintf("/dev/nvidia%d", i), Major: 240, Minor: 0}}})
	}
	found := func(want int) {
		t.Helper()
		list, err := n.store.Anomalies(t.Context(), everybody, m.id, control.FindMismatch, store.Page{Limit: 2 * maxFound})
		if kept, err2 := n.store.FoundSince(t.Context(), m.id, control.FindMismatch, time.Unix(0, 0)); err != nil || err2 != nil || len(list) != want || kept != want {
			t.Errorf("%d anomalies and %d findings, not %d: %v, %v", len(list), kept, want, err, err2)
		}
	}
	found(maxFound)
	n.clock.pass(8 * 24 * time.Hour)
	m.shows(&api.DriverFiles{PciListed: true, Devices: &[]api.DriverDevice{{Path: "/dev/nvidia99", Major: 240, Minor: 0}}})
	found(maxFound + 1)
}
