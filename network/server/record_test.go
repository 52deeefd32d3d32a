package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// unrecorded are the operations that change something, or are asked as if they did,
// and leave no record of their own. A new operation that is not among them must
// leave one.
var unrecorded = map[string]string{
	"createNonce": "of nobody known", "login": "of a node, every hour: what it then does is recorded",
	"heartbeat": "many, and no decision", "acknowledgeCommand": "what it leads to is a transition",
	"deliverStatements": "they are records themselves", "deliverEvents": "they are records themselves",
	"createReport": "its statement is a record", "confirmReport": "what it leads to is a transition",
	"testPolicy": "changes nothing",
}

// keeping does what it is asked by leaving a trail, as who decides does.
type keeping struct {
	agreeable
	store *store.Store
}

func (k keeping) Act(ctx context.Context, a Act) error { return k.store.AddAudit(ctx, a.Trail) }
func (k keeping) Reset(ctx context.Context, _ Principal, _ time.Duration, t store.Trail) error {
	return k.store.AddAudit(ctx, t)
}

// recording is a network whose every mutation can be carried out.
func recording(t *testing.T) *network {
	t.Helper()
	n := sqlite(t)
	n.server.o.Decider, n.server.o.Rules = keeping{store: n.store}, keeping{store: n.store}
	n.server.o.Rentals, n.server.o.Renting = rack(), rack()
	return n
}

// Whatever changes something leaves one signed record of who did it, beside its
// audit entry; and what is secret, or somebody's words, is not in it.
func TestEveryMutationIsRecorded(t *testing.T) {
	ops, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	n := recording(t)
	m, revoked, rotated := n.enrol("ours"), n.enrol("ours"), n.enrol("ours")
	const words = "Ada Lovelace"
	var secrets []string
	enrolment := n.enrolToken("ours")
	newcomer := newKey(t)
	secrets = append(secrets, enrolment)
	madeToken := func(method, path string, body any) func() {
		return func() {
			var made api.CreatedToken
			n.ask(201, method, path, n.admin, body, &made)
			secrets = append(secrets, made.Token)
		}
	}
	ended := func(path string) func() {
		return func() { n.ask(204, "DELETE", path, n.admin, nil, nil) }
	}
	person, err := n.store.Person(t.Context(), "https://issuer.example", words, someID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	idOf := func(path string, body any) string {
		var made api.CreatedToken
		n.ask(201, "POST", path, n.admin, body, &made)
		secrets = append(secrets, made.Token)
		return path + "/" + made.Id
	}
	measurement := func(m *testNode) string {
		var made api.Measurement
		n.ask(201, "POST", "/api/v1/measurements", n.admin, api.NewMeasurement{Nodes: []string{m.id}, Mode: api.MeasurementModeInTurn, Reason: words}, &made)
		return "/api/v1/measurements/" + made.Id
	}
	do := map[string]func(){
		"enrol": func() { n.ask(200, "POST", "/api/v1/enrol", "", n.enrolment(enrolment, newcomer), nil) },
		"putInventory": func() {
			n.ask(204, "PUT", m.path("/inventory"), m.token, api.Inventory{Hostname: words, Gpus: []api.GPU{}, Replicas: []api.Replica{}}, nil)
		},
		"putSettings": func() { n.ask(204, "PUT", m.path("/settings"), n.admin, api.Settings{Version: 0}, nil) },
		"rotateKey":   func() { n.rotate(rotated) },
		"revokeKey":   ended(revoked.path("/keys/" + revoked.key.ID)),
		"actOnNode": func() {
			n.ask(200, "POST", m.path("/actions"), n.admin, api.Action{Action: api.ActionActionDrain, Reason: words}, nil)
		},
		"createEnrolmentToken": madeToken("POST", "/api/v1/enrolment-tokens", api.NewEnrolmentToken{Owner: "ours"}),
		"deleteEnrolmentToken": ended(idOf("/api/v1/enrolment-tokens", api.NewEnrolmentToken{Owner: "ours"})),
		"createToken":          madeToken("POST", "/api/v1/tokens", api.NewToken{Name: words, Role: api.NewTokenRoleViewer}),
		"deleteToken":          ended(idOf("/api/v1/tokens", api.NewToken{Name: words, Role: api.NewTokenRoleViewer})),
		"erasePerson":          ended("/api/v1/people/" + person),
		"putPolicy":            func() { n.putPolicy(words) },
		"createMeasurement": func() {
			var made api.Measurement
			n.ask(201, "POST", "/api/v1/measurements", n.admin, api.NewMeasurement{Nodes: []string{m.id}, Mode: api.MeasurementModeTogether, Reason: words}, &made)
			if made.State != api.MeasurementStateRunning || len(made.Nodes) != 1 || made.Start == nil {
				t.Errorf("%+v", made)
			}
		},
		"cancelMeasurement": ended(measurement(rotated)),
		"createSession": func() {
			n.ask(201, "POST", "/api/v1/sessions", n.admin, api.NewSession{OfferId: "vast:" + words, Hours: 1, SshPublicKey: "ssh-ed25519 AAAA " + words}, nil)
		},
		"extendSession": func() {
			n.ask(200, "POST", "/api/v1/sessions/abc-5/extend", n.admin, api.ExtendSessionJSONRequestBody{Hours: 1}, nil)
		},
		"finishSession": func() { n.ask(200, "POST", "/api/v1/sessions/abc-5/done", n.admin, nil, nil) },
		"deleteSession": func() { n.ask(200, "DELETE", "/api/v1/sessions/abc-5", n.admin, nil, nil) },
		"resetBreaker": func() {
			n.ask(200, "PUT", "/api/v1/breaker", n.admin, api.ResetBreakerJSONRequestBody{Reason: words}, nil)
		},
	}
	for _, op := range ops {
		if op.method == http.MethodGet {
			continue
		}
		why, act := unrecorded[op.id], do[op.id]
		if (why == "") != (access[op.id].audit || op.id == "enrol") {
			t.Errorf("%s leaves an audit entry: %v; the list of those without says %q", op.id, access[op.id].audit, why)
		}
		if why != "" {
			continue
		}
		if act == nil {
			t.Errorf("%s changes something, and nobody tries whether it is recorded", op.id)
			continue
		}
		before := n.records()
		act()
		n.recordedOnce(op.id, before, append(secrets, words, n.admin, m.token))
	}
}

// recordedOnce compares what one action left in the audit log and in the outbox.
func (n *network) recordedOnce(action string, before map[string][]byte, forbidden []string) {
	n.t.Helper()
	entry := n.newEntry(before)
	if entry.Action != action || entry.Outcome != outcomeDone {
		n.t.Fatalf("%s: the audit log has %+v", action, entry)
	}
	actions := 0
	for id, b := range n.records() {
		if before[id] != nil {
			continue
		}
		a, err := n.actionOf(b, entry)
		if errors.Is(err, errOther) {
			continue // of a key, which has a statement of its own
		}
		if err != nil {
			n.t.Errorf("%s: %v", action, err)
		}
		actions++
		if a.ID.String() != entry.ID || a.Actor != entry.Actor || a.Action != action || a.Target != entry.Target || a.Outcome != outcomeDone || a.Server != n.id.Origin {
			n.t.Errorf("%s: the record says %+v, the entry %+v", action, a, entry)
		}
		n.without(action, b, append(forbidden, entry.Detail))
	}
	if actions != 1 {
		n.t.Errorf("%s left %d records", action, actions)
	}
}

// newEntry is the one audit entry that has no record among those of before.
func (n *network) newEntry(before map[string][]byte) (found store.AuditEntry) {
	n.t.Helper()
	entries, err := n.store.Audit(n.t.Context(), store.Scope{All: true}, "", store.Page{Limit: 1000})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, e := range entries {
		if before[e.ID] == nil {
			if found.ID != "" {
				n.t.Errorf("two audit entries: %+v and %+v", found, e)
			}
			found = e
		}
	}
	return found
}

// without looks for what must not be in a signed payload.
func (n *network) without(action string, envelope []byte, forbidden []string) {
	n.t.Helper()
	e, err := ledger.ReadEnvelope(envelope)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range forbidden {
		if f != "" && bytes.Contains(e.Payload, []byte(f)) {
			n.t.Errorf("%s: the record has %q", action, f)
		}
	}
}

var errOther = errors.New("another statement")

// actionOf opens a record with the server's key, and compares it with its entry.
func (n *network) actionOf(b []byte, e store.AuditEntry) (a ledger.Action, err error) {
	env, err := ledger.ReadEnvelope(b)
	if err != nil {
		return a, err
	}
	s, _, err := ledger.ParseStatement(env.Payload)
	if err != nil {
		return a, err
	}
	if s.PredicateType != ledger.ServerAction {
		return a, errOther
	}
	if err := env.Verify(n.id.OwnKey.Public); err != nil {
		return a, err
	}
	if a, err = ledger.ActionOf(s); err != nil {
		return a, err
	}
	if got := s.Subject[0].Digest["sha256"]; got != a.AuditSum(e.Detail) {
		return a, errors.New("its subject is not the audit entry")
	}
	return a, nil
}

// records are those that wait for the ledger, by id.
func (n *network) records() map[string][]byte {
	n.t.Helper()
	l, err := n.store.Acquire(n.t.Context(), "test", "test", time.Minute)
	if err != nil {
		n.t.Fatal(err)
	}
	all, err := n.store.NextToPublish(n.t.Context(), l, 10_000)
	if err != nil {
		n.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, r := range all {
		out[r.ID] = r.Bytes
	}
	return out
}

// What somebody known was refused is recorded too, without what they wrote into the
// path; what nobody known tried is not.
func TestRefusalsAreRecorded(t *testing.T) {
	n := recording(t)
	viewer := n.token(api.NewTokenRoleViewer, "ours")
	before := n.records()
	for _, token := range []string{"", "assay_api_nobody"} {
		n.ask(401, "POST", "/api/v1/enrolment-tokens", token, api.NewEnrolmentToken{Owner: "ours"}, nil)
	}
	if got := n.records(); len(got) != len(before) {
		t.Fatalf("%d records of nobody known", len(got)-len(before))
	}
	n.ask(403, "PUT", "/api/v1/nodes/Ada%20Lovelace"+strings.Repeat("x", 600)+"/settings", viewer, api.Settings{}, nil)
	entry := n.newEntry(before)
	a, err := n.actionOf(n.records()[entry.ID], entry)
	if err != nil || a.Outcome != "refused 403" || a.Action != "putSettings" || a.Target != "" || a.Node != n.id.Origin {
		t.Errorf("%+v: %v", a, err)
	}
}

// A server without a key for its records does not start.
func TestServerRecords(t *testing.T) {
	n := sqlite(t)
	if _, err := New(Options{Store: n.store.RecordedBy(nil), Identity: n.id}); err == nil {
		t.Error("a server that records nothing was made")
	}
}

// What cannot be signed is not done.
func TestUnsignedIsNotDone(t *testing.T) {
	n := sqlite(t)
	broken := n.store.RecordedBy(func(context.Context, store.AuditEntry) (store.Record, error) {
		return store.Record{}, errors.New("no key")
	})
	if _, err := CreateAdmin(t.Context(), broken, "second", time.Now()); err == nil {
		t.Error("a token was made without a record")
	}
	all, err := n.store.Tokens(t.Context(), store.Scope{All: true}, store.Page{})
	if err != nil || len(all) != 1 {
		t.Errorf("%d tokens: %v", len(all), err)
	}
}

// rotate gives a node a new key.
func (n *network) rotate(m *testNode) {
	n.t.Helper()
	m.signer = newKey(n.t)
	proof := m.signed(ledger.RotationType, ledger.RotationProof{Origin: n.id.Origin, Node: m.id, PublicKey: m.signer.Public()})
	if got := n.do("POST", m.path("/keys"), m.token, "application/octet-stream", proof); got.status != 200 {
		n.t.Fatalf("rotate: %d %s", got.status, got.body)
	}
}

// putPolicy puts a policy with these words in force.
func (n *network) putPolicy(words string) {
	n.t.Helper()
	got := n.do("GET", "/api/v1/policy", n.admin, "", nil)
	if put := n.do("PUT", "/api/v1/policy", n.admin, "text/plain", append(got.body, "# by "+words+"\n"...)); put.status != 200 {
		n.t.Fatalf("put a policy: %d %s", put.status, put.body)
	}
}
