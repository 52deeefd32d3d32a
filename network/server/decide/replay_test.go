package decide

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/server"
)

// What others put on the topic moves nobody: neither a decision by another key or of
// another server, nor a node's key that somebody else certified, nor a statement
// under another id. Our own does.
func TestReplayTakesOnlyWhatIsSigned(t *testing.T) {
	n := newNetwork(t, nil)
	m := n.approved()
	now := time.Now().UTC().Truncate(time.Microsecond)
	stated := func(s ledger.Signer, role ledger.Role, node string) ledger.Key {
		k, err := ledger.StateKey(t.Context(), s.Public(), s, ledger.KeyOptions{Node: node, Owner: node, Roles: []ledger.Role{role}, Now: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	enrol, stranger := newSigner(t), newSigner(t)
	id := server.Identity{Origin: origin, Own: n.server, OwnKey: stated(n.server, ledger.RoleServer, origin), Enrol: enrol, EnrolKey: stated(enrol, ledger.RoleEnrol, origin)}
	move := func(by ledger.Signer, from, to, at string, version int64) ledger.Record {
		rec, err := ledger.StateTransition(t.Context(), ledger.Transition{
			Stamp: ledger.Stamp{ID: ulid.Make(), Node: m.id, Time: now}, Server: at, Fact: "admission", From: from, To: to,
			Reasons: []string{"why not"}, Actor: "server:x", Version: version,
		}, nil, by)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	alien, err := ledger.StateKey(t.Context(), pub, stranger, ledger.KeyOptions{Node: ulid.Make().String(), Owner: "mallory", Roles: []ledger.Role{ledger.RoleRun}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	alienRecord, err := ledger.RecordOf(alien.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	renamed := move(n.server, "admitted", "degraded", origin, 90)
	renamed.ID = ulid.Make()
	replayed := func(records ...ledger.Record) Replayed {
		t.Helper()
		r, err := NewReplay(n.store, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Take(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		out, err := r.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := m.row()
	bad := []ledger.Record{move(stranger, "admitted", "quarantined", origin, 90), move(n.server, "admitted", "quarantined", "https://other.example", 90), alienRecord, renamed,
		{ID: ulid.Make(), Kind: ledger.KindEvent, Node: m.id, Value: []byte("{}")}, {ID: ulid.Make(), Kind: ledger.KindEnvelope, Node: m.id, Value: []byte("{}\n")}}
	if out := replayed(bad...); out.Refused != 5 || out.Unsigned != 1 || out.Missing != 0 || out.Nodes != 0 || out.Why == "" {
		t.Errorf("%+v", out)
	}
	if after := m.row(); after.Admission != before.Admission || after.Version != before.Version {
		t.Errorf("it is %s of version %d, and was %s of %d", after.Admission, after.Version, before.Admission, before.Version)
	}
	good := move(n.server, "admitted", "quarantined", origin, 90)
	if out := replayed(good, good); out.Missing != 1 || out.Refused != 0 || out.Nodes != 1 {
		t.Errorf("%+v", out)
	}
	if after := m.row(); after.Admission != "quarantined" || after.Version != 91 || !strings.Contains(strings.Join(after.Reasons, " "), "why not") {
		t.Errorf("%+v", after)
	}
	if out := replayed(good); out.Missing != 0 || out.Nodes != 0 {
		t.Errorf("the same again: %+v", out)
	}
}
