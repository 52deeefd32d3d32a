package decide

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// approved is a node that a person has let in.
func (n *network) approved() *node {
	n.Helper()
	m := n.enrol()
	m.measured(measurement{slow: 1})
	if out := m.act(control.Event{Kind: control.EventApprove, Reason: "it is ours"}); out.Refused {
		n.Fatal(out.Why)
	}
	m.measured(measurement{slow: 1})
	m.is(control.Admitted)
	return m
}

// TestLifeOfANode: the first one of a network is approved by a person, gets slow,
// is degraded and quarantined, and comes back by a verification.
func TestLifeOfANode(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	m.is(control.Pending)
	r := m.measured(measurement{slow: 1})
	m.is(control.Pending)
	if r.Verdict != "unknown" || !strings.Contains(r.Because, "no baseline") {
		t.Errorf("verdict %s: %s", r.Verdict, r.Because)
	}
	var kept Scored
	if err := json.Unmarshal(r.Summary, &kept); err != nil || kept.Model == "" || len(kept.Levels) == 0 || kept.Levels[0].RequestsPerSecond == 0 {
		t.Errorf("nobody can plan by %q, %+v: %v", kept.Model, kept.Levels, err)
	}
	if out := m.act(control.Event{Kind: control.EventApprove, Reason: "it is ours"}); out.Refused {
		t.Fatal(out.Why)
	}
	m.is(control.Admitted)
	m.measured(measurement{slow: 1})
	m.is(control.Admitted)
	for range 2 {
		r = m.measured(measurement{slow: 3})
	}
	if m.is(control.Degraded); r.Verdict != "fail" || *r.Score > 0.7 {
		t.Errorf("three times slower: %s, score %v: %s", r.Verdict, *r.Score, r.Because)
	}
	for range 2 {
		r = m.measured(measurement{slow: 10})
	}
	m.is(control.Quarantined)

	// It is fast again, and nobody has asked: that leads nowhere.
	m.measured(measurement{slow: 1})
	m.is(control.Quarantined)
	if out := m.act(control.Event{Kind: control.EventReadmit, Reason: "repaired"}); out.Refused {
		t.Fatal(out.Why)
	}
	m.is(control.Reverifying)
	commands, err := n.store.WaitingCommands(t.Context(), []string{m.id}, n.clock.now())
	if err != nil || len(commands) == 0 || commands[len(commands)-1].Kind != "check" {
		t.Fatalf("commands %+v: %v", commands, err)
	}
	// A run that began before it was asked for is no answer.
	m.judged(m.report(m.run(measurement{slow: 1, began: n.clock.now().Add(-30 * time.Second)}), nil))
	m.is(control.Reverifying)
	m.measured(measurement{slow: 1})
	m.is(control.Admitted)
	n.provable(m.id)
}

// provable checks that every transition of a node is signed, is waiting to be
// published as it was signed, names its evidence, and that no version is there
// twice.
func (n *network) provable(id string) []ledger.Transition {
	n.Helper()
	key, err := ledger.StateKey(n.Context(), n.server.Public(), n.server, ledger.KeyOptions{Node: "server", Owner: "o", Roles: []ledger.Role{ledger.RoleServer}, Now: n.clock.now(), NotBefore: n.clock.now().AddDate(0, 0, -7), NotAfter: n.clock.now().AddDate(1, 0, 0)})
	if err != nil {
		n.Fatal(err)
	}
	ring := ledger.NewKeyring(key)
	rows, err := n.store.Transitions(n.Context(), everybody, id, store.Page{Limit: 1000})
	if err != nil {
		n.Fatal(err)
	}
	var out []ledger.Transition
	seen := map[string]bool{}
	was := map[string]string{}
	for i := len(rows) - 1; i >= 0; i-- {
		row := rows[i]
		rec, err := n.store.Statement(n.Context(), everybody, id, row.ID)
		if err != nil || string(rec.Bytes) != string(row.Statement) {
			n.Fatalf("transition %s is not in the outbox as it is in the table: %v", row.ID, err)
		}
		e, err := ledger.ReadEnvelope(rec.Bytes)
		if err != nil {
			n.Fatal(err)
		}
		s, st, err := ledger.ParseStatement(e.Payload)
		if err != nil {
			n.Fatal(err)
		}
		if _, err := ring.Check(e, s, st, time.Time{}); err != nil {
			n.Fatal(err)
		}
		tr, err := ledger.TransitionOf(s)
		if err != nil {
			n.Fatal(err)
		}
		of := tr.Replica + "/" + tr.Fact
		if tr.From != was[of] && tr.Fact == "admission" {
			n.Errorf("transition %s leads from %q, and it was %q", row.ID, tr.From, was[of])
		}
		was[of] = tr.To
		if k := fmt.Sprint(of, tr.Version); seen[k] {
			n.Errorf("two transitions of %s have version %d", tr.Fact, tr.Version)
		} else {
			seen[k] = true
		}
		for _, id := range tr.Evidence {
			r, err := n.store.Report(n.Context(), everybody, row.Node, id)
			if err != nil {
				n.Fatalf("evidence %s: %v", id, err)
			}
			b, err := n.store.Statement(n.Context(), everybody, row.Node, r.Statement)
			if err != nil || !strings.Contains(string(e.Payload), store.Hash(b.Bytes)) {
				n.Errorf("the hash of report %s is not signed: %v", id, err)
			}
		}
		out = append(out, tr)
	}
	return out
}

// TestNewcomerIsComparedWithPeers: with two admitted peers the third needs no
// person, and a slow one does not get in.
func TestNewcomerIsComparedWithPeers(t *testing.T) {
	n := newNetwork(t, nil)
	n.approved()
	n.approved()
	m := n.enrol()
	r := m.measured(measurement{slow: 1})
	m.is(control.Admitted)
	if !strings.Contains(r.Because, "peers") {
		t.Errorf("because %s", r.Because)
	}
	slow := n.enrol()
	slow.measured(measurement{slow: 6})
	slow.is(control.Quarantined)
	// Of another model there is nobody to compare with.
	other := n.enrol()
	other.measured(measurement{slow: 1, model: "another"})
	other.is(control.Pending)
	trs := n.provable(m.id)
	last := trs[len(trs)-1]
	if last.To != "admitted" || len(last.Evidence) != 1 || last.Evidence[0] != r.ID || last.PolicyVersion != 1 {
		t.Errorf("%+v", last)
	}
}

// TestNodeDoesNotChooseItsBaseline: what a run says about its own baseline, limits
// and health is not read.
func TestNodeDoesNotChooseItsBaseline(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	for range 2 {
		n.clock.pass(time.Minute)
		dir := m.run(measurement{slow: 10})
		file := filepath.Join(dir, journal.RunFile)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		doc["judge"] = map[string]any{"baseline": map[string]any{"format": "assay/baseline/v1", "name": "mine", "load": "closed", "at": 4, "output_tokens_per_second": 1, "ttft_p99_ms": 9999, "tpot_p50_ms": 9999}}
		if b, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(b, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		m.judged(m.report(dir, nil))
	}
	m.is(control.Quarantined)
}

// TestHardFailureWhileTheBreakerHolds: with the breaker full a soft failure stays
// in rotation, and a hard one goes.
func TestHardFailureWhileTheBreakerHolds(t *testing.T) {
	n := newNetwork(t, nil)
	nodes := []*node{n.approved(), n.approved(), n.approved()}
	for i := range 2 {
		for range 3 {
			nodes[i].measured(measurement{slow: 10})
		}
	}
	nodes[0].is(control.Quarantined)
	nodes[1].is(control.Degraded) // one of three may be out
	nodes[2].measured(measurement{slow: 1, gpus: []string{"GPU-0"}, checks: []assay.Check{{At: n.clock.now().UnixNano(), Name: "compute.golden", Device: "GPU-0", Verdict: assay.Fail, Evidence: "wrong"}}})
	nodes[2].is(control.Quarantined)
	b, err := n.store.Breaker(t.Context())
	if err != nil || !strings.Contains(string(b.Body), `"out":2`) || !strings.Contains(string(b.Body), `"tripped":true`) {
		t.Errorf("breaker %s: %v", b.Body, err)
	}
	for _, m := range nodes {
		n.provable(m.id)
	}
}

// TestBadEvidence: whatever is wrong with it, the report is unknown, says why, and
// the judge goes on.
func TestBadEvidence(t *testing.T) {
	store1 := &broken{}
	n := newNetwork(t, func(o *Options) {
		store1.Evidence = o.Evidence
		o.Evidence, o.Limits = store1, Limits{Bytes: 4 << 20, Lines: 100_000}
	})
	m := n.approved()
	fileOf := func(r *store.Report, name string) *store.File {
		for i := range r.Files {
			if r.Files[i].Name == name {
				return &r.Files[i]
			}
		}
		t.Fatal("no file " + name)
		return nil
	}
	for _, tt := range []struct {
		name   string
		x      measurement
		spoil  func(dir string)      // before it is signed
		change func(r *store.Report) // after
		open   func(o evidence.Object) (io.ReadCloser, error)
		why    string
	}{
		{name: "missing", open: func(evidence.Object) (io.ReadCloser, error) { return nil, fmt.Errorf("x: %w", evidence.ErrAbsent) }, why: "not stored"},
		{name: "altered in the storage", open: func(evidence.Object) (io.ReadCloser, error) { return nil, fmt.Errorf("x: %w", evidence.ErrDamaged) }, why: "hash"},
		{name: "altered after it was signed", change: func(r *store.Report) {
			other := []byte("{}\n")
			n.put(other)
			f := fileOf(r, journal.RequestsFile)
			f.SHA256, f.Size = store.Hash(other), int64(len(other))
		}, why: "requests.jsonl is not the file that was signed"},
		{name: "left out", change: func(r *store.Report) { r.Files = r.Files[:1] }, why: "signed and was not uploaded"},
		{name: "another node's", x: measurement{node: "somebody"}, why: "of the node"},
		{name: "a size that is a lie", change: func(r *store.Report) { fileOf(r, journal.RequestsFile).Size = 3 << 20 }, why: "hash"},
		{name: "huge", change: func(r *store.Report) { fileOf(r, journal.RequestsFile).Size = 1 << 40 }, why: "more than"},
		{name: "a huge manifest", change: func(r *store.Report) { fileOf(r, journal.RunFile).Size = 17 << 20 }, why: "run.json has"},
		{name: "garbage lines", spoil: func(dir string) {
			f, err := os.OpenFile(filepath.Join(dir, journal.EventsFile), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			fmt.Fprintln(f, "\x00\xff}{")
		}, why: "events.jsonl"},
		{name: "too many stages", x: measurement{stages: maxStages + 2}, why: "stages"},
		{name: "a statement that is not here", change: func(r *store.Report) { r.Statement = newID() }, why: "is not here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.clock.pass(time.Minute)
			tt.x.slow = 1
			dir := m.run(tt.x)
			if tt.spoil != nil {
				tt.spoil(dir)
			}
			r := m.report(dir, tt.change)
			store1.open = tt.open
			r = m.judged(r)
			store1.open = nil
			if r.Verdict != "unknown" || r.Score != nil || !strings.Contains(r.Because, tt.why) {
				t.Errorf("%s: %s", r.Verdict, r.Because)
			}
			left, err := os.ReadDir(n.scratch)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
	if r := m.row(); r.Admission == string(control.Admitted) {
		t.Errorf("after so much that is unknown it is %s", r.Admission)
	}
}

// TestEvidenceIsAway: what is not the node's fault is tried again, and is unknown
// only after a while.
func TestEvidenceIsAway(t *testing.T) {
	away := &broken{}
	n := newNetwork(t, func(o *Options) { away.Evidence, o.Evidence = o.Evidence, away })
	m := n.enrol()
	n.clock.pass(time.Minute)
	r := m.report(m.run(measurement{slow: 1}), nil)
	away.open = func(evidence.Object) (io.ReadCloser, error) { return nil, errors.New("connection refused") }
	for range 3 {
		if n, err := n.d.judgeAll(t.Context()); n != 0 || err == nil && len(m.d.tries) == 0 {
			t.Fatalf("judged %d: %v", n, err)
		}
	}
	if got := m.d.tries[r.ID].tries; got != 1 {
		t.Errorf("tried %d times at once", got)
	}
	if r, err := n.store.Report(t.Context(), everybody, m.id, r.ID); err != nil || !r.Scored.IsZero() {
		t.Fatalf("it is scored: %+v %v", r, err)
	}
	n.clock.pass(2 * time.Hour)
	if got, err := n.d.judgeAll(t.Context()); got != 1 || err != nil {
		t.Fatalf("judged %d: %v", got, err)
	}
	r, err := n.store.Report(t.Context(), everybody, m.id, r.ID)
	if err != nil || r.Verdict != "unknown" || !strings.Contains(r.Because, "connection refused") {
		t.Errorf("%s: %s %v", r.Verdict, r.Because, err)
	}
}

// TestReportCountsOnce: judged again, by others and after a crash between the
// decision and the mark, it changes nothing.
func TestReportCountsOnce(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	n.clock.pass(time.Minute)
	r := m.report(m.run(measurement{slow: 10}), nil)
	m.judged(r)
	version := m.row().Version
	for range 3 {
		m.judged(r) // as it was before it was scored
	}
	other := n.decider(nil)
	if err := other.Judge(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := m.row().Version; got != version {
		t.Errorf("version %d became %d", version, got)
	}
	m.is(control.Admitted) // one bad report is not two
}

// TestApprovalMakesTheBaseline: what a person approved is what the node is compared
// with, already by the next report, which is slow.
func TestApprovalMakesTheBaseline(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	first := m.measured(measurement{slow: 1})
	if out := m.act(control.Event{Kind: control.EventApprove, Reason: "it is ours"}); out.Refused {
		t.Fatal(out.Why)
	}
	m.is(control.Admitted)
	b, err := n.store.Baseline(t.Context(), ownKey(m.id, first.Peer))
	if err != nil || b.Source != "report "+first.ID {
		t.Fatalf("%+v: %v", b, err)
	}
	if r := m.measured(measurement{slow: 10}); r.Verdict != "fail" || !strings.Contains(r.Because, "its own baseline") {
		t.Errorf("ten times slower than what was approved: %s, %s", r.Verdict, r.Because)
	}
	// Approving again, or another report, changes nothing of it.
	m.act(control.Event{Kind: control.EventApprove, Reason: "still"})
	m.measured(measurement{slow: 1})
	if again, err := n.store.Baseline(t.Context(), ownKey(m.id, first.Peer)); err != nil || again.Version != b.Version || again.Source != b.Source {
		t.Errorf("%+v: %v", again, err)
	}
}

// TestApprovalWithoutABaselineSaysSo: what was approved has no figures that another
// report can be compared with. The node is let in, its reasons name what it lacks, and
// the next report makes the baseline.
func TestApprovalWithoutABaselineSaysSo(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	m.measured(measurement{slow: 1, kind: "trace"})
	if out := m.act(control.Event{Kind: control.EventApprove, Reason: "it is ours"}); out.Refused {
		t.Fatal(out.Why)
	}
	m.is(control.Admitted)
	if reasons := strings.Join(m.row().Reasons, "; "); !strings.Contains(reasons, "made no baseline: report") {
		t.Errorf("nothing says that there is no baseline: %s", reasons)
	}
	r := m.measured(measurement{slow: 1})
	if b, err := n.store.Baseline(t.Context(), ownKey(m.id, r.Peer)); err != nil || b.Source != "report "+r.ID {
		t.Errorf("%+v: %v", b, err)
	}
}

// TestBaselineSurvivesACrash: whoever judged a report died between the decision and
// the baseline. The next one makes it, of the same report, and not of a slow one that
// comes later.
func TestBaselineSurvivesACrash(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.enrol()
	// Before any report, so that whoever judges makes the baseline.
	if out := m.act(control.Event{Kind: control.EventApprove, Reason: "it is ours"}); out.Refused {
		t.Fatal(out.Why)
	}
	m.clock.pass(time.Minute)
	r := m.report(m.run(measurement{slow: 1}), nil)
	p, err := m.d.inForce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, err := m.d.verdict(t.Context(), p, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.d.Happen(t.Context(), Happening{
		Node: r.Node, Scope: everybody, Report: &r,
		Event: control.Event{Kind: control.EventReport, Actor: control.Actor{Kind: control.ActorServer}, Report: &v.scored.Measured},
	}); err != nil {
		t.Fatal(err)
	}
	m.is(control.Admitted)
	if _, err := n.store.Baseline(t.Context(), ownKey(m.id, v.peer)); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("there is a baseline before the crash is made good: %v", err)
	}
	m.judged(r)
	for range 2 {
		m.measured(measurement{slow: 10})
	}
	m.is(control.Quarantined)
}
