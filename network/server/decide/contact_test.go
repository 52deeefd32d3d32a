package decide

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// beat is a heart-beat; running is -1 where the engine does not say.
func (m *node) beat(running int64) {
	m.Helper()
	if err := m.store.Beats(m.Context(), []store.Beat{{Node: m.id, Seen: m.clock.now(), Running: running}}); err != nil {
		m.Fatal(err)
	}
}

func (m *node) contact(want control.Contact) {
	m.Helper()
	if r := m.row(); r.Contact != string(want) {
		m.Fatalf("it is %s, not %s", r.Contact, want)
	}
}

// look takes a turn of whoever looks for silence.
func (n *network) look(look leasedTurn) {
	n.Helper()
	if _, err := look(n.Context(), store.Lease{}); err != nil {
		n.Fatal(err)
	}
}

// every has a look every few seconds of the test's clock while all but some beat.
func (n *network) every(look leasedTurn, d time.Duration, beating ...*node) {
	n.Helper()
	for gone := time.Duration(0); gone < d; gone += 10 * time.Second {
		n.clock.pass(10 * time.Second)
		for _, m := range beating {
			m.beat(0)
		}
		n.look(look)
	}
}

// slowly has turns seen as in time although the test's clock runs.
func slowly(o *Options) { o.Every = 2 * time.Second }

// TestSilence: who is not heard for three heart-beats is silent, and back with the
// next; nobody is within three of the server's return.
func TestSilence(t *testing.T) {
	n := newNetwork(t, slowly)
	var nodes []*node
	for range 4 {
		nodes = append(nodes, n.approved())
	}
	look := n.d.contacts()
	n.every(look, 2*time.Minute, nodes...)
	n.every(look, 80*time.Second, nodes[1:]...)
	nodes[0].contact(control.Seen)
	n.every(look, 20*time.Second, nodes[1:]...)
	nodes[0].contact(control.Silent)
	nodes[1].contact(control.Seen)
	nodes[0].beat(0)
	n.look(look)
	nodes[0].contact(control.Seen)

	// The server stands still for ten minutes: nobody is silent for that.
	n.clock.pass(10 * time.Minute)
	n.look(look)
	n.every(look, 140*time.Second)
	for _, m := range nodes {
		m.contact(control.Seen)
	}
	// Then half of them are not heard: that is more than a share, and more likely ours.
	for _, m := range nodes[2:] {
		m.beat(0)
	}
	n.every(look, 40*time.Second, nodes[2:]...)
	for _, m := range nodes {
		m.contact(control.Seen)
	}
	b, err := n.store.Breaker(t.Context())
	if err != nil || !strings.Contains(string(b.Body), `"mass":true`) {
		t.Errorf("breaker %s: %v", b.Body, err)
	}
	for _, m := range nodes {
		m.beat(0)
	}
	n.look(look)
	if b, err = n.store.Breaker(t.Context()); err != nil || strings.Contains(string(b.Body), `"mass":true`) {
		t.Errorf("breaker %s: %v", b.Body, err)
	}
	n.provable(nodes[0].id)
}

// TestDatabaseWasAway: what nobody could hear is not held against nodes.
func TestDatabaseWasAway(t *testing.T) {
	n := newNetwork(t, slowly)
	m := n.approved()
	m.beat(0)
	look := n.d.contacts()
	n.every(look, time.Minute, m)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 12 {
		n.clock.pass(10 * time.Second)
		if _, err := look(gone, store.Lease{}); err == nil {
			t.Fatal("the database was not away")
		}
	}
	n.every(look, 140*time.Second)
	m.contact(control.Seen)
	n.every(look, 30*time.Second)
	m.contact(control.Silent)
}

// TestDrain: it waits until a heart-beat of the time since says that nothing is
// running, or for its deadline.
func TestDrain(t *testing.T) {
	n := newNetwork(t, slowly)
	m, mute := n.approved(), n.approved()
	m.beat(0) // before it: says nothing about the drain
	look := n.d.contacts()
	intent := func(m *node, want control.Intent) {
		t.Helper()
		if r := m.row(); r.Intent != string(want) {
			t.Fatalf("it is %s, not %s", r.Intent, want)
		}
	}
	m.act(control.Event{Kind: control.EventDrain, Reason: "new driver"})
	mute.act(control.Event{Kind: control.EventDrain, Reason: "new driver"})
	n.look(look)
	intent(m, control.Draining)
	for _, running := range []int64{3, -1} {
		n.clock.pass(time.Second)
		m.beat(running)
		mute.beat(-1)
		n.look(look)
		intent(m, control.Draining)
	}
	n.clock.pass(time.Second)
	m.beat(0)
	n.look(look)
	intent(m, control.Drained)
	intent(mute, control.Draining)
	if _, err := n.d.doDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	intent(mute, control.Draining)
	n.clock.pass(11 * time.Minute) // the policy's deadline
	if _, err := n.d.doDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	intent(mute, control.Drained)
	n.provable(mute.id)
}

// TestWhatIsDue: verifications time out and are asked for again, overrides end, a
// quarantine is tried again; a timer that is done is not done twice.
func TestWhatIsDue(t *testing.T) {
	n := newNetwork(t, slowly)
	due := func() {
		t.Helper()
		for range 3 {
			if _, err := n.d.doDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	commands := func(m *node) int {
		t.Helper()
		all, err := n.store.WaitingCommands(t.Context(), []string{m.id}, n.clock.now())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	m := n.enrol()
	if got := commands(m); got != 1 {
		t.Fatalf("a newcomer is asked by %d commands", got)
	}
	all, err := n.store.WaitingCommands(t.Context(), []string{m.id}, n.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.d.Acknowledged(t.Context(), m.id, all[0].ID, "started"); err != nil {
		t.Fatal(err)
	}
	m.is(control.Verifying)
	n.clock.pass(31 * time.Minute)
	due()
	m.is(control.Pending)
	if got := commands(m); got != 0 {
		t.Errorf("%d commands are waiting at once", got)
	}
	n.clock.pass(16 * time.Minute)
	due()
	if got := commands(m); got != 1 {
		t.Errorf("it was asked again by %d commands", got)
	}

	slow := n.approved()
	n.approved()
	for range 2 {
		slow.measured(measurement{slow: 10})
	}
	slow.is(control.Quarantined)
	due()
	slow.is(control.Quarantined)
	n.clock.pass(61 * time.Minute)
	due()
	slow.is(control.Reverifying)
	slow.measured(measurement{slow: 1})
	slow.is(control.Admitted)

	out := slow.act(control.Event{Kind: control.EventOverrideSet, Override: control.OverrideOut, Until: n.clock.now().Add(time.Hour), Reason: "moving it"})
	if out.Refused {
		t.Fatal(out.Why)
	}
	slow.is(control.Quarantined)
	n.clock.pass(59 * time.Minute)
	due()
	slow.is(control.Quarantined)
	n.clock.pass(2 * time.Minute)
	due()
	slow.is(control.Reverifying)
	n.provable(slow.id)
}

// TestCrashAfterEnrolment: a node whose life was not begun is found by the next
// look, and one that is told twice begins once.
func TestCrashAfterEnrolment(t *testing.T) {
	n := newNetwork(t, slowly)
	m := n.takeIn()
	if m.row().Version != 0 {
		t.Fatal("its life has begun")
	}
	n.look(n.d.contacts())
	version := m.row().Version
	if version == 0 {
		t.Fatal("its life was not begun")
	}
	if err := n.d.Enrolled(t.Context(), m.id); err != nil {
		t.Fatal(err)
	}
	if got := m.row().Version; got != version {
		t.Errorf("told twice, version %d became %d", version, got)
	}
	// And without a look: by its first report.
	m = n.takeIn()
	m.measured(measurement{slow: 1})
	if trs := n.provable(m.id); len(trs) == 0 || trs[0].From != "" {
		t.Errorf("%+v", trs)
	}
}
