package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// network is a server with a database.
type network struct {
	t      *testing.T
	store  *store.Store
	server *Server
	url    string
	admin  string // an API token
	id     Identity
}

type response struct {
	status int
	header http.Header
	body   []byte
}

// sqlite is a network on a new SQLite file.
func sqlite(t *testing.T, change ...func(*Options)) *network {
	t.Helper()
	return newNetwork(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"), identity(t), change...)
}

func identity(t *testing.T) Identity {
	t.Helper()
	key := func(role ledger.Role) (ledger.Signer, ledger.Key) {
		by := newKey(t)
		k, err := ledger.StateKey(t.Context(), by.Public(), by, ledger.KeyOptions{Node: "test", Owner: "test", Roles: []ledger.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		return by, k
	}
	id := Identity{Origin: "test.example"}
	id.Enrol, id.EnrolKey = key(ledger.RoleEnrol)
	id.Own, id.OwnKey = key(ledger.RoleServer)
	return id
}

// newNetwork starts a server process on a database, which may have others.
func newNetwork(t *testing.T, url string, id Identity, change ...func(*Options)) *network {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	db, err := database.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	n := &network{t: t, store: store.New(db).RecordedBy(id.Record), id: id}
	if _, _, err := n.store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	var unlimited Rate
	o := Options{
		Store: n.store, Identity: id, Version: "test", BeatEvery: 10 * time.Millisecond,
		AddressRate: &unlimited, PersonRate: &unlimited, NodeRate: &unlimited, AuditRate: &unlimited,
	}
	for _, c := range change {
		c(&o)
	}
	if n.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); n.server.Run(ctx) }()
	h := httptest.NewServer(n.server)
	n.url = h.URL
	t.Cleanup(func() { n.server.Quit(); h.Close(); cancel(); <-done })
	if n.admin, err = CreateAdmin(ctx, n.store, "test", time.Now()); err != nil {
		t.Fatal(err)
	}
	return n
}

// do sends a request.
func (n *network) do(method, path, token, mediaType string, body []byte) response {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, bytes.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response{got.StatusCode, got.Header, b}
}

// ask sends a request and wants an answer of that status: JSON of a value, bytes as
// they are, or text.
func (n *network) ask(want int, method, path, token string, body, into any) {
	n.t.Helper()
	media, b := "application/json", []byte(nil)
	switch v := body.(type) {
	case nil:
	case []byte:
		media, b = "application/octet-stream", v
	case string:
		media, b = "text/plain", []byte(v)
	default:
		var err error
		if b, err = json.Marshal(v); err != nil {
			n.t.Fatal(err)
		}
	}
	got := n.do(method, path, token, media, b)
	if got.status != want {
		n.t.Fatalf("%s %s: %d, not %d: %s", method, path, got.status, want, got.body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		n.t.Fatalf("%s %s: %v: %s", method, path, err, got.body)
	}
}

// token makes an API token that sees these owners; none: all.
func (n *network) token(role api.NewTokenRole, owners ...string) string {
	n.t.Helper()
	body := api.NewToken{Name: "test", Role: role}
	if len(owners) > 0 {
		body.Owners = &owners
	}
	var made api.CreatedToken
	n.ask(201, "POST", "/api/v1/tokens", n.admin, body, &made)
	return made.Token
}

// auditEntries counts what somebody left in the audit log.
func (n *network) auditEntries(token string) int {
	n.t.Helper()
	if token == "" || strings.Contains(token, "nobody") {
		return 0
	}
	t, err := n.store.TokenByHash(n.t.Context(), hashSecret(token), time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	p, _, err := principalOfToken(t)
	if err != nil {
		n.t.Fatal(err)
	}
	all, err := n.store.Audit(n.t.Context(), store.Scope{All: true}, "", store.Page{Limit: 1000})
	if err != nil {
		n.t.Fatal(err)
	}
	count := 0
	for _, e := range all {
		if e.Actor == p.ID {
			count++
		}
	}
	return count
}

// testNode is a node of the network, as its agent is.
type testNode struct {
	n      *network
	id     string
	signer ledger.Signer
	key    ledger.Key
	token  string
}

func newKey(t *testing.T) ledger.Signer {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.HeldKey(priv)
}

// enrolment is a body for /enrol.
func (n *network) enrolment(token string, by ledger.Signer) api.Enrolment {
	n.t.Helper()
	proof, err := ledger.SignProof(n.t.Context(), by, ledger.EnrolType, ledger.EnrolProof{Origin: n.id.Origin, PublicKey: by.Public(), TokenSHA256: hashSecret(token), Hostname: "host"})
	if err != nil {
		n.t.Fatal(err)
	}
	return api.Enrolment{Token: token, Proof: proof}
}

// enrolToken makes an enrolment token.
func (n *network) enrolToken(owner string) string {
	n.t.Helper()
	var made api.CreatedToken
	n.ask(201, "POST", "/api/v1/enrolment-tokens", n.admin, api.NewEnrolmentToken{Owner: owner}, &made)
	return made.Token
}

// enrol takes a node in and logs it in.
func (n *network) enrol(owner string) *testNode {
	n.t.Helper()
	m := &testNode{n: n, signer: newKey(n.t)}
	var got api.Enrolled
	n.ask(200, "POST", "/api/v1/enrol", "", n.enrolment(n.enrolToken(owner), m.signer), &got)
	m.id = got.Node
	k, err := ledger.ParseKey(got.KeyStatement)
	if err != nil {
		n.t.Fatal(err)
	}
	m.key = k
	m.login()
	return m
}

// proof signs a nonce.
func (m *testNode) proof() []byte {
	m.n.t.Helper()
	var nonce api.Nonce
	m.n.ask(200, "POST", "/api/v1/login/nonce", "", api.CreateNonceJSONBody{Node: m.id}, &nonce)
	return m.signed(ledger.LoginType, ledger.LoginProof{Origin: nonce.Origin, Node: m.id, Nonce: nonce.Nonce})
}

func (m *testNode) signed(kind string, proof any) []byte {
	m.n.t.Helper()
	b, err := ledger.SignProof(m.n.t.Context(), m.signer, kind, proof)
	if err != nil {
		m.n.t.Fatal(err)
	}
	return b
}

func (m *testNode) login() {
	m.n.t.Helper()
	var got api.Login
	m.n.ask(200, "POST", "/api/v1/login", "", m.proof(), &got)
	m.token = got.Token
}

func (m *testNode) path(rest string) string { return "/api/v1/nodes/" + m.id + rest }
