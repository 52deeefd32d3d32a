package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// suite is what must be so on every database.
var suite = map[string]func(*testing.T, *network){
	"enrolment":  testEnrolment,
	"log-in":     testLogin,
	"rotation":   testRotation,
	"statements": testStatements,
	"events":     testEvents,
	"beats":      testBeats,
	"commands":   testCommands,
	"scopes":     testScopes,
	"settings":   testSettings,
	"everybody":  testEverybodyWhoMayNot,
	"malformed":  testMalformed,
}

func TestProtocol(t *testing.T) {
	for name, test := range suite {
		if name == "everybody" || name == "malformed" {
			continue // tests of their own here
		}
		t.Run(name, func(t *testing.T) { test(t, sqlite(t)) })
	}
}

// The same on PostgreSQL.
func TestRealNetworkServer(t *testing.T) {
	for name, test := range suite {
		t.Run(name, func(t *testing.T) { test(t, newNetwork(t, parttest.Postgres(t), identity(t))) })
	}
}

// A reply that was lost burns nothing, and a token takes in one node.
func testEnrolment(t *testing.T, n *network) {
	token, key := n.enrolToken("ours"), newKey(t)
	var first, again api.Enrolled
	n.ask(200, "POST", "/api/v1/enrol", "", n.enrolment(token, key), &first)
	n.ask(200, "POST", "/api/v1/enrol", "", n.enrolment(token, key), &again)
	if first.Node != again.Node || !bytes.Equal(first.KeyStatement, again.KeyStatement) || first.Owner != "ours" {
		t.Errorf("%+v, and again %+v", first, again)
	}
	k, err := ledger.ParseKey(first.KeyStatement)
	if err != nil || k.Node != first.Node || k.SignedBy != n.id.EnrolKey.ID || !k.Public.Equal(key.Public()) {
		t.Errorf("the key's statement: %+v, %v", k, err)
	}
	if err := ledger.NewKeyring(n.id.EnrolKey).Add(first.KeyStatement, time.Time{}); err != nil {
		t.Errorf("who trusts the server's key does not take the node's: %v", err)
	}
	if rec, err := n.store.Statement(t.Context(), store.Scope{All: true}, first.Node, k.Stamp.ID.String()); err != nil || !bytes.Equal(rec.Bytes, first.KeyStatement) {
		t.Errorf("the key's statement does not wait to be published: %v", err)
	}
	n.ask(401, "POST", "/api/v1/enrol", "", n.enrolment(token, newKey(t)), nil)                // used by another key
	n.ask(401, "POST", "/api/v1/enrol", "", n.enrolment("assay_enrol_nobody", newKey(t)), nil) // unknown
	n.ask(409, "POST", "/api/v1/enrol", "", n.enrolment(n.enrolToken("ours"), key), nil)       // the key is another node's

	var back api.CreatedToken
	n.ask(201, "POST", "/api/v1/enrolment-tokens", n.admin, api.NewEnrolmentToken{Owner: "ours"}, &back)
	n.ask(204, "DELETE", "/api/v1/enrolment-tokens/"+back.Id, n.admin, nil, nil)
	n.ask(401, "POST", "/api/v1/enrol", "", n.enrolment(back.Token, newKey(t)), nil) // taken back

	other := n.enrolment(n.enrolToken("ours"), key)
	other.Token = n.enrolToken("ours")
	n.ask(400, "POST", "/api/v1/enrol", "", other, nil) // a proof for another token
	elsewhere := *n
	elsewhere.id.Origin = "elsewhere.example"
	n.ask(400, "POST", "/api/v1/enrol", "", elsewhere.enrolment(n.enrolToken("ours"), newKey(t)), nil) // for another server
}

func TestExpiredEnrolmentToken(t *testing.T) {
	shift := time.Duration(0)
	n := sqlite(t, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(shift) } })
	token, key := n.enrolToken("ours"), newKey(t)
	n.ask(200, "POST", "/api/v1/enrol", "", n.enrolment(token, key), nil)
	shift = 25 * time.Hour
	n.ask(401, "POST", "/api/v1/enrol", "", n.enrolment(token, key), nil) // also the same key, once it has expired
}

// A log-in counts once, for one server and one node, and by a key that counts.
func testLogin(t *testing.T, n *network) {
	a, b := n.enrol("ours"), n.enrol("ours")
	proof := a.proof()
	n.ask(200, "POST", "/api/v1/login", "", proof, nil)
	n.ask(401, "POST", "/api/v1/login", "", proof, nil) // replayed

	var nonce api.Nonce
	n.ask(200, "POST", "/api/v1/login/nonce", "", api.CreateNonceJSONBody{Node: a.id}, &nonce)
	for what, p := range map[string][]byte{
		"another node's nonce": b.signed(ledger.LoginType, ledger.LoginProof{Origin: nonce.Origin, Node: b.id, Nonce: nonce.Nonce}),
		"in another's name":    b.signed(ledger.LoginType, ledger.LoginProof{Origin: nonce.Origin, Node: a.id, Nonce: nonce.Nonce}),
		"for another server":   a.signed(ledger.LoginType, ledger.LoginProof{Origin: "elsewhere", Node: a.id, Nonce: nonce.Nonce}),
		"of another type":      a.signed(ledger.RotationType, ledger.RotationProof{Origin: nonce.Origin, Node: a.id}),
		"no nonce":             a.signed(ledger.LoginType, ledger.LoginProof{Origin: nonce.Origin, Node: a.id, Nonce: "made up"}),
	} {
		if got := n.do("POST", "/api/v1/login", "", "application/octet-stream", p); got.status != 401 {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	n.ask(400, "POST", "/api/v1/login", "", []byte("no envelope\n"), nil)
	// None of it used the nonce up.
	n.ask(200, "POST", "/api/v1/login", "", a.signed(ledger.LoginType, ledger.LoginProof{Origin: nonce.Origin, Node: a.id, Nonce: nonce.Nonce}), nil)
	var me api.Principal
	n.ask(200, "GET", "/api/v1/me", a.token, nil, &me)
	if me.Id != "node:"+a.id || me.Role != api.RoleNode || me.All {
		t.Errorf("%+v", me)
	}
}

// A revoked key is refused by another process at once, in log-ins that it made and
// in new ones.
func TestRevocationReachesAllProcesses(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/assay.db"
	id := identity(t)
	one, two := newNetwork(t, url, id), newNetwork(t, url, id)
	m := one.enrol("ours")
	two.ask(200, "GET", m.path(""), m.token, nil, nil)
	one.ask(204, "DELETE", m.path("/keys/"+m.key.ID), one.admin, nil, nil)
	two.ask(401, "GET", m.path(""), m.token, nil, nil)
	two.ask(401, "POST", "/api/v1/login", "", m.proof(), nil)
	// A token that was taken back, too.
	var made api.CreatedToken
	one.ask(201, "POST", "/api/v1/tokens", one.admin, api.NewToken{Name: "x", Role: api.NewTokenRoleViewer}, &made)
	two.ask(200, "GET", "/api/v1/nodes", made.Token, nil, nil)
	one.ask(204, "DELETE", "/api/v1/tokens/"+made.Id, one.admin, nil, nil)
	two.ask(401, "GET", "/api/v1/nodes", made.Token, nil, nil)
}

func testRotation(t *testing.T, n *network) {
	m := n.enrol("ours")
	old := *m
	m.signer = newKey(t)
	proof := m.signed(ledger.RotationType, ledger.RotationProof{Origin: n.id.Origin, Node: m.id, PublicKey: m.signer.Public()})
	got := n.do("POST", m.path("/keys"), m.token, "application/octet-stream", proof)
	k, err := ledger.ParseKey(got.body)
	if got.status != 200 || err != nil || k.Node != m.id || !k.Public.Equal(m.signer.Public()) {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	n.ask(401, "GET", m.path(""), old.token, nil, nil) // log-ins by older keys end
	m.login()
	old.login() // the old key is not revoked: the reply may have been lost
	again := n.do("POST", m.path("/keys"), old.token, "application/octet-stream", proof)
	if !bytes.Equal(again.body, got.body) {
		t.Errorf("the same key got another statement: %s", again.body)
	}
	m.login()
	var keys []api.Key
	n.ask(200, "GET", m.path("/keys"), m.token, nil, &keys)
	if len(keys) != 2 {
		t.Errorf("%d keys", len(keys))
	}
	if s := n.do("GET", m.path("/keys/"+k.ID), n.admin, "", nil); !bytes.Equal(s.body, got.body) {
		t.Errorf("%d %s", s.status, s.body)
	}
}

// envelope signs a statement of a node about a run.
func (m *testNode) envelope(id ulid.ULID, node, note string, by ledger.Signer) []byte {
	m.n.t.Helper()
	sum := strings.Repeat("a", 64)
	payload := fmt.Sprintf(`{"_type":%q,"subject":[{"name":"run.json","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"id":%q,"node":%q,"nonce":"","time":%q,"run":{"id":%q}}}`,
		ledger.StatementType, sum, ledger.GPUBenchmark, id, node, time.Now().UTC().Format(time.RFC3339), note)
	e, err := ledger.Sign(m.n.t.Context(), by, []byte(payload))
	if err != nil {
		m.n.t.Fatal(err)
	}
	return e.Encode()
}

func (m *testNode) deliver(what string, lines ...[]byte) []outcome {
	m.n.t.Helper()
	var got api.Delivery
	m.n.ask(200, "POST", m.path(what), m.token, bytes.Join(lines, nil), &got)
	if len(got.Outcomes) != len(lines) {
		m.n.t.Fatalf("%d outcomes of %d lines", len(got.Outcomes), len(lines))
	}
	return got.Outcomes
}

// Each statement has its outcome, and one that is refused blocks none behind it.
func testStatements(t *testing.T, n *network) {
	a, b := n.enrol("ours"), n.enrol("ours")
	id := ulid.Make()
	good := a.envelope(id, a.id, "one", a.signer)
	want := []struct {
		what    string
		line    []byte
		outcome api.DeliveryOutcomesOutcome
	}{
		{"taken", good, api.DeliveryOutcomesOutcomeTaken},
		{"the same again", good, api.DeliveryOutcomesOutcomeDuplicate},
		{"other bytes under its id", a.envelope(id, a.id, "two", a.signer), api.DeliveryOutcomesOutcomeRefused},
		{"another's signature", a.envelope(ulid.Make(), a.id, "three", b.signer), api.DeliveryOutcomesOutcomeRefused},
		{"about another node", a.envelope(ulid.Make(), b.id, "four", a.signer), api.DeliveryOutcomesOutcomeRefused},
		{"altered", bytes.Replace(a.envelope(ulid.Make(), a.id, "five", a.signer), []byte(`"sig":"`), []byte(`"sig":"AAAA`), 1), api.DeliveryOutcomesOutcomeRefused},
		{"no envelope", []byte("{}\n"), api.DeliveryOutcomesOutcomeRefused},
		{"a log-in", a.signed(ledger.LoginType, ledger.LoginProof{}), api.DeliveryOutcomesOutcomeRefused},
		{"the key's own statement", a.key.Envelope, api.DeliveryOutcomesOutcomeDuplicate},
		{"another's key", b.key.Envelope, api.DeliveryOutcomesOutcomeRefused},
		{"behind them", a.envelope(ulid.Make(), a.id, "six", a.signer), api.DeliveryOutcomesOutcomeTaken},
	}
	var lines [][]byte
	for _, w := range want {
		lines = append(lines, w.line)
	}
	for i, o := range a.deliver("/statements", lines...) {
		if o.Outcome != want[i].outcome || (o.Outcome == api.DeliveryOutcomesOutcomeRefused) != (o.Reason != nil) {
			t.Errorf("%s: %s %v", want[i].what, o.Outcome, deref(o.Reason))
		}
	}
	rec, err := n.store.Statement(t.Context(), store.Scope{All: true}, a.id, id.String())
	if err != nil || !bytes.Equal(rec.Bytes, good) {
		t.Errorf("the stored bytes are not those that came: %v", err)
	}
	// Another node's key that logs in as itself cannot use this node's path.
	n.ask(404, "POST", a.path("/statements"), b.token, good, nil)
	// A torn batch is not taken at all.
	n.ask(400, "POST", a.path("/statements"), a.token, good[:len(good)-1], nil)
	// Once the key is revoked nothing of it is taken.
	n.ask(204, "DELETE", a.path("/keys/"+a.key.ID), n.admin, nil, nil)
	n.ask(401, "POST", a.path("/statements"), a.token, good, nil)
}

func testEvents(t *testing.T, n *network) {
	m := n.enrol("ours")
	event := func(node string) []byte {
		r, err := ledger.EncodeEvent(ledger.Event{ID: ulid.Make(), Time: time.Now(), Node: node, Action: "gpu_operation", Component: "gpu_monitor"})
		if err != nil {
			t.Fatal(err)
		}
		return append(r.Value, '\n')
	}
	one := event(m.id)
	got := m.deliver("/events", one, one, event("another"), []byte("{}\n"))
	for i, want := range []api.DeliveryOutcomesOutcome{"taken", "duplicate", "refused", "refused"} {
		if got[i].Outcome != want {
			t.Errorf("event %d: %s %s, not %s", i, got[i].Outcome, deref(got[i].Reason), want)
		}
	}
}

// Beyond the bound of what waits to be published nothing more is taken.
func TestBacklog(t *testing.T) {
	n := sqlite(t, func(o *Options) { o.MaxUnpublished = 1 })
	m := n.enrol("ours") // its key's statement waits
	got := n.do("POST", m.path("/statements"), m.token, "application/octet-stream", m.envelope(ulid.Make(), m.id, "x", m.signer))
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
}

func testBeats(t *testing.T, n *network) {
	m := n.enrol("ours")
	inventory := api.Inventory{Hostname: "h2", Gpus: []api.GPU{{Uuid: "GPU-1", Name: "one", Driver: ptr("1")}}, Replicas: []api.Replica{{Name: "r", Engine: "vllm", Model: "m"}}}
	b, err := json.Marshal(inventory)
	if err != nil {
		t.Fatal(err)
	}
	beat := api.Heartbeat{Time: time.Now(), Version: "1", InventorySha256: store.Hash(b)}
	var seen api.Seen
	n.ask(200, "POST", m.path("/heartbeat"), m.token, beat, &seen)
	if !seen.SendInventory || seen.State != api.AdmissionPending || seen.Intent != api.IntentServe || seen.HeartbeatSeconds != 30 {
		t.Errorf("%+v", seen)
	}
	n.ask(204, "PUT", m.path("/inventory"), m.token, inventory, nil)
	n.ask(200, "POST", m.path("/heartbeat"), m.token, beat, &seen)
	if seen.SendInventory {
		t.Error("the inventory is asked for again")
	}
	inventory.Gpus[0].Driver = ptr("2")
	n.ask(204, "PUT", m.path("/inventory"), m.token, inventory, nil)
	if rows, err := n.store.GPUs(t.Context(), store.Scope{All: true}, m.id); err != nil || len(rows) != 2 {
		t.Errorf("a card that changed has %d rows, %v", len(rows), err)
	}
	var nodes []api.Node
	n.ask(200, "GET", "/api/v1/nodes", n.admin, nil, &nodes)
	if len(nodes) != 1 || nodes[0].LastSeen == nil || nodes[0].Routable || nodes[0].Score != nil || deref(nodes[0].Hostname) != "h2" {
		t.Errorf("%+v", nodes)
	}
	var d api.NodeDetail
	n.ask(200, "GET", m.path(""), m.token, nil, &d)
	if d.Inventory == nil || len(d.Inventory.Gpus) != 1 || len(d.Replicas) != 1 {
		t.Fatalf("%+v", d)
	}
	if r := d.Replicas[0]; r.Routable || r.State != api.AdmissionPending || len(r.Reasons) == 0 || !strings.Contains(r.Reasons[0], "its node is not routed: it is pending") {
		t.Errorf("%+v", r)
	}
	beat.Replicas = &[]api.ReplicaState{{Name: "r", Up: ptr(false)}}
	n.ask(200, "POST", m.path("/heartbeat"), m.token, beat, &seen)
	n.ask(200, "GET", m.path(""), m.token, nil, &d)
	if r := d.Replicas[0]; d.Node.Contact != api.ContactSeen || r.Contact != api.ContactSilent || !slices.Contains(r.Reasons, "its engine does not answer its agent") {
		t.Errorf("%s, and its replica %+v", d.Node.Contact, r)
	}
}

func testCommands(t *testing.T, n *network) {
	m, other := n.enrol("ours"), n.enrol("ours")
	now := time.Now()
	c := store.Command{ID: newID(now), Node: m.id, Kind: "check", Reason: "a test", Created: now, Expires: now.Add(time.Hour)}
	if err := n.store.AddCommand(t.Context(), store.Scope{All: true}, c, store.Trail{}); err != nil {
		t.Fatal(err)
	}
	var got []api.Command
	n.ask(200, "GET", m.path("/commands?wait=20"), m.token, nil, &got)
	if len(got) != 1 || got[0].Id != c.ID || got[0].Kind != api.CommandKindCheck {
		t.Fatalf("%+v", got)
	}
	n.ask(200, "GET", other.path("/commands?wait=0"), other.token, nil, &got)
	if len(got) != 0 {
		t.Errorf("another node got %+v", got)
	}
	n.ask(404, "PUT", other.path("/commands/"+c.ID), other.token, api.Acknowledgement{Outcome: api.AcknowledgementOutcomeDone}, nil)
	n.ask(204, "PUT", m.path("/commands/"+c.ID), m.token, api.Acknowledgement{Outcome: api.AcknowledgementOutcomeStarted}, nil)
	n.ask(200, "GET", m.path("/commands?wait=0"), m.token, nil, &got)
	if len(got) != 0 {
		t.Errorf("it is asked for again: %+v", got)
	}
	for range 2 {
		n.ask(204, "PUT", m.path("/commands/"+c.ID), m.token, api.Acknowledgement{Outcome: api.AcknowledgementOutcomeDone}, nil)
	}
	n.ask(409, "PUT", m.path("/commands/"+c.ID), m.token, api.Acknowledgement{Outcome: api.AcknowledgementOutcomeFailed}, nil)
}

// Who sees some owners sees nothing of others, and gives away nothing of them.
func testScopes(t *testing.T, n *network) {
	ours, theirs := n.enrol("ours"), n.enrol("theirs")
	admin := n.token(api.NewTokenRoleAdmin, "ours")
	var nodes []api.Node
	n.ask(200, "GET", "/api/v1/nodes", admin, nil, &nodes)
	if len(nodes) != 1 || nodes[0].Id != ours.id {
		t.Errorf("%+v", nodes)
	}
	n.ask(200, "GET", "/api/v1/nodes?owner=theirs", admin, nil, &nodes)
	if len(nodes) != 0 {
		t.Errorf("%+v", nodes)
	}
	n.ask(404, "GET", theirs.path(""), admin, nil, nil)
	n.ask(404, "POST", "/api/v1/enrolment-tokens", admin, api.NewEnrolmentToken{Owner: "theirs"}, nil)
	n.ask(403, "POST", "/api/v1/tokens", admin, api.NewToken{Name: "all", Role: api.NewTokenRoleViewer}, nil)
	n.ask(404, "POST", "/api/v1/tokens", admin, api.NewToken{Name: "theirs", Role: api.NewTokenRoleViewer, Owners: &[]string{"theirs"}}, nil)
	var entries []api.AuditEntry
	n.ask(200, "GET", "/api/v1/audit?node="+theirs.id, admin, nil, &entries)
	if len(entries) != 0 {
		t.Errorf("%+v", entries)
	}
	n.ask(200, "GET", "/api/v1/audit", admin, nil, &entries)
	for _, e := range entries {
		if strings.Contains(e.Target, theirs.id) {
			t.Errorf("the audit log shows %+v", e)
		}
	}
	got := n.do("GET", "/api/v1/nodes?limit=1", n.admin, "", nil)
	if next := got.header.Get("Link"); !strings.Contains(next, "after="+ours.id) || !strings.Contains(next, `rel="next"`) {
		t.Errorf("the link is %q", next)
	}
	for _, m := range []*testNode{ours, theirs} {
		n.ask(200, "GET", m.path("/transitions"), n.admin, nil, nil)
		n.ask(200, "GET", m.path("/reports"), m.token, nil, nil)
	}
	var counts []api.Rejections
	n.do("GET", "/api/v1/me", "assay_api_nobody", "", nil)
	if err := n.server.writeRejections(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.ask(200, "GET", "/api/v1/audit/rejections", n.admin, nil, &counts)
	if len(counts) != 1 || counts[0].Kind != "getMe 401" || counts[0].Count != 1 {
		t.Errorf("%+v", counts)
	}
	if page := n.do("GET", "/metrics", n.admin, "", nil); !bytes.Contains(page.body, []byte(`assay_server_rejected_total{kind="getMe 401"} 1`)) {
		t.Errorf("%s", page.body)
	}
}

func testSettings(t *testing.T, n *network) {
	m := n.enrol("ours")
	n.ask(204, "PUT", m.path("/settings"), n.admin, api.Settings{Profile: ptr("small"), EverySeconds: ptr(600)}, nil)
	n.ask(409, "PUT", m.path("/settings"), n.admin, api.Settings{Profile: ptr("late")}, nil)
	var got api.Settings
	n.ask(200, "GET", m.path("/settings"), m.token, nil, &got)
	if got.Version != 1 || deref(got.Profile) != "small" {
		t.Errorf("%+v", got)
	}
	n.ask(400, "PUT", m.path("/settings"), n.admin, api.Settings{EverySeconds: ptr(1)}, nil)
	n.ask(200, "PUT", "/api/v1/policy", n.admin, n.policy(), nil)
	n.ask(400, "PUT", "/api/v1/policy", n.admin, "format: none\n", nil)
	hasty := strings.Replace(n.policy(), "heartbeat: 30s", "heartbeat: 10s", 1)
	n.ask(409, "PUT", "/api/v1/policy", n.admin, hasty, nil)
	n.ask(200, "GET", "/api/v1/breaker", n.admin, nil, nil)
	n.ask(400, "GET", "/api/v1/nodes?routeable=true", n.admin, nil, nil)
	n.ask(400, "GET", "/api/v1/breaker?x=", n.admin, nil, nil)
	n.ask(200, "GET", "/readyz", "", nil, nil)
}

// policy is the one in force, as a file.
func (n *network) policy() string {
	return string(n.do("GET", "/api/v1/policy", n.admin, "", nil).body)
}

// A report's files are those that the node signed, and it is confirmed when all of
// them are stored.
func TestReports(t *testing.T) {
	dir, err := evidence.NewDirectory(evidence.DirectoryOptions{Dir: t.TempDir(), Path: "/objects/"})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	n := sqlite(t, func(o *Options) { o.Evidence, o.Mounts = dir, map[string]http.Handler{"/objects/": dir} })
	m := n.enrol("ours")
	file := []byte("{}")
	sum := store.Hash(file)
	id := ulid.Make()
	e := bytes.ReplaceAll(m.envelopePayload(id), []byte(strings.Repeat("a", 64)), []byte(sum))
	env, err := ledger.Sign(t.Context(), m.signer, e)
	if err != nil {
		t.Fatal(err)
	}
	announce := api.Announcement{Statement: id.String(), Files: []api.File{{Name: "run.json", Sha256: sum, Size: int64(len(file))}}}
	n.ask(404, "POST", m.path("/reports"), m.token, announce, nil) // the statement first
	m.deliver("/statements", env.Encode())
	for what, f := range map[string]api.File{
		"another hash": {Name: "run.json", Sha256: strings.Repeat("b", 64), Size: 2},
		"another name": {Name: "extra.json", Sha256: sum, Size: 2},
	} {
		bad := announce
		bad.Files = []api.File{f}
		if got := n.do("POST", m.path("/reports"), m.token, "application/json", mustJSON(t, bad)); got.status != 400 {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	var up, again api.Uploads
	n.ask(200, "POST", m.path("/reports"), m.token, announce, &up)
	n.ask(200, "POST", m.path("/reports"), m.token, announce, &again)
	if len(up.Uploads) != 1 || up.Report != again.Report {
		t.Fatalf("%+v, %+v", up, again)
	}
	n.ask(200, "POST", m.path("/reports/"+up.Report+"/confirm"), m.token, nil, &again)
	if len(again.Uploads) != 1 {
		t.Errorf("confirmed without its file: %+v", again)
	}
	r, err := http.NewRequestWithContext(t.Context(), up.Uploads[0].Method, n.url+up.Uploads[0].Url, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range up.Uploads[0].Headers {
		r.Header.Set(name, v)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode >= 300 {
		t.Fatalf("upload: %d", got.StatusCode)
	}
	n.ask(200, "POST", m.path("/reports/"+up.Report+"/confirm"), m.token, nil, &again)
	var rep api.Report
	n.ask(200, "GET", m.path("/reports/"+up.Report), n.admin, nil, &rep)
	if len(again.Uploads) != 0 || !rep.Confirmed || rep.Verdict != api.ReportVerdictUnknown || rep.Run != "run" {
		t.Errorf("%+v, %+v", again, rep)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// envelopePayload is a statement about a run whose only file has a hash of a's.
func (m *testNode) envelopePayload(id ulid.ULID) []byte {
	return fmt.Appendf(nil, `{"_type":%q,"subject":[{"name":"run.json","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"id":%q,"node":%q,"nonce":"","time":%q,"run":{"id":"run"}}}`,
		ledger.StatementType, strings.Repeat("a", 64), ledger.GPUBenchmark, id, m.id, time.Now().UTC().Format(time.RFC3339))
}

// A poll ends when the server does.
func TestPollsEnd(t *testing.T) {
	n := sqlite(t)
	m := n.enrol("ours")
	done := make(chan response, 1)
	go func() { done <- n.do("GET", m.path("/commands?wait=60"), m.token, "", nil) }()
	for n.server.polls.waitingNow() == 0 {
		time.Sleep(time.Millisecond)
	}
	n.server.Quit()
	if got := <-done; got.status != 200 || strings.TrimSpace(string(got.body)) != "[]" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
