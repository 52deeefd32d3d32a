package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/database"
)

// backend is one kind of database: open opens the same new one as often as it is
// called.
type backend struct {
	name string
	open func(t *testing.T) *Store
}

// checks are what every kind of database must do. Each gets a database of its own
// with the tables made.
var checks = map[string]func(*testing.T, backend){
	"enrolment":        testEnrolment,
	"tokens":           testTokens,
	"people":           testPeople,
	"nonces":           testNonces,
	"scopes":           testScopes,
	"heart-beats":      testBeats,
	"inventory":        testInventory,
	"delivery":         testDelivery,
	"publishing":       testPublishing,
	"webhooks":         testWebhooks,
	"timers":           testTimers,
	"leases":           testLeases,
	"decisions":        testDecisions,
	"decisions race":   testDecisionsRace,
	"reports":          testReports,
	"routes":           testRoutes,
	"retention":        testRetention,
	"keys":             testKeys,
	"policy":           testPolicy,
	"commands":         testCommands,
	"audit":            testAudit,
	"restore":          testRestore,
	"baselines":        testBaselines,
	"append-only":      testAppendOnly,
	"migrate at once":  testMigrateAtOnce,
	"month boundaries": testMonths,
	"trends":           testTrends,
	"findings":         testFindings,
	"measurements":     testMeasurements,
	"identity":         testIdentity,
}

// suite runs every check on a kind of database.
func suite(t *testing.T, fresh func(t *testing.T) backend) {
	for name, check := range checks {
		t.Run(name, func(t *testing.T) { check(t, fresh(t)) })
	}
}

func TestSQLite(t *testing.T) {
	suite(t, func(t *testing.T) backend {
		file := filepath.Join(t.TempDir(), "network.db")
		return backend{"sqlite", func(t *testing.T) *Store { return openStore(t, "sqlite:"+file) }}
	})
}

func openStore(t *testing.T, url string) *Store {
	t.Helper()
	db, err := database.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(db)
}

func (b backend) migrated(t *testing.T) *Store {
	t.Helper()
	s := b.open(t)
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// now has whole microseconds, as the tables do.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func id() string { return ulid.Make().String() }

var everybody = Scope{All: true}

// must ends a test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got is a value whose error ends the test.
func got[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// want is an error that is expected.
func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: -want +got\n%s", what, d)
	}
}

// enrolled takes in a node of an owner.
func enrolled(t *testing.T, s *Store, owner string) string {
	t.Helper()
	e := enrolment(t, s, owner)
	return got[Enrolled](t)(s.Enrol(t.Context(), e)).Node
}

func enrolment(t *testing.T, s *Store, owner string) Enrolment {
	t.Helper()
	at, secret := now(), id()
	must(t, s.CreateEnrolmentToken(t.Context(), everybody, EnrolmentToken{ID: id(), Hash: Hash(secret), Owner: owner, By: "token:x", Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	node, key := id(), id()
	return Enrolment{
		TokenHash: Hash(secret), At: at,
		Node: Node{ID: node, Name: "n", Hostname: "h", Facts: Facts{Admission: "pending", Intent: "serve", Contact: "seen", Version: 1, State: json.RawMessage(`{"version":1}`), Reasons: []string{"new"}}},
		Key:  NodeKey{ID: Hash(key), PublicKey: []byte(key), Statement: []byte("signed " + key), NotBefore: at, NotAfter: at.Add(time.Hour)},
	}
}

func testEnrolment(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	e := enrolment(t, s, "ada")
	e.Trail = Trail{Outbox: []Record{{ID: id(), Topic: TopicLedger, Node: e.Node.ID, Kind: "envelope", Bytes: []byte("x"), Received: e.At}}}
	first := got[Enrolled](t)(s.Enrol(ctx, e))
	equal(t, "enrolled", first, Enrolled{Node: e.Node.ID, Owner: "ada", Statement: e.Key.Statement})

	again := e
	again.Node.ID, again.Key.Statement, again.Trail = id(), []byte("signed anew"), Trail{}
	equal(t, "the same token and key", got[Enrolled](t)(s.Enrol(ctx, again)), Enrolled{Node: e.Node.ID, Owner: "ada", Statement: e.Key.Statement, Again: true})

	other := enrolment(t, s, "ada")
	other.TokenHash = e.TokenHash
	_, err := s.Enrol(ctx, other)
	want(t, err, ErrTokenUsed)
	_, err = s.EnrolmentToken(ctx, e.TokenHash, other.Key.ID, e.At)
	want(t, err, ErrTokenUsed)
	again.At = e.At.Add(time.Hour)
	_, err = s.Enrol(ctx, again)
	want(t, err, ErrTokenExpired)
	again.TokenHash = Hash("guess")
	_, err = s.Enrol(ctx, again)
	want(t, err, ErrTokenUnknown)

	// Another node's key enrols nobody else.
	stolen := enrolment(t, s, "eve")
	stolen.Key = e.Key
	_, err = s.Enrol(ctx, stolen)
	want(t, err, ErrTaken)

	revoked := enrolment(t, s, "ada")
	tokens := got[[]EnrolmentToken](t)(s.EnrolmentTokens(ctx, Scope{Owners: []string{"ada"}}, Page{}))
	equal(t, "tokens of ada", len(tokens), 3)
	must(t, s.RevokeEnrolmentToken(ctx, everybody, tokens[0].ID, now(), Trail{}))
	_, err = s.Enrol(ctx, revoked)
	want(t, err, ErrTokenUnknown)

	// Many at once with one token: one node.
	e = enrolment(t, s, "ada")
	var wg sync.WaitGroup
	nodes := make([]string, 8)
	for i := range nodes {
		wg.Go(func() {
			mine := e
			mine.Node.ID = id()
			out, err := s.Enrol(ctx, mine)
			if err != nil {
				t.Error(err)
			}
			nodes[i] = out.Node
		})
	}
	wg.Wait()
	if len(slices.Compact(nodes)) != 1 {
		t.Errorf("one token took in %q", nodes)
	}
}

func testTokens(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	at := now()
	token := Token{ID: id(), Hash: Hash("a"), Kind: TokenAPI, Name: "ci", Role: "viewer", Scope: Scope{Owners: []string{"ada", "bob"}}, By: "person:x", Created: at, Expires: at.Add(time.Hour)}
	must(t, s.CreateToken(ctx, token, Trail{}))
	equal(t, "by hash", got[Token](t)(s.TokenByHash(ctx, token.Hash, at)), token)
	for hash, when := range map[string]time.Time{Hash("b"): at, token.Hash: token.Expires} {
		_, err := s.TokenByHash(ctx, hash, when)
		want(t, err, ErrNotFound)
	}
	for i := range 5 {
		must(t, s.CreateToken(ctx, Token{ID: id(), Hash: Hash(fmt.Sprint(i)), Kind: TokenAPI, Role: "admin", Scope: everybody, Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	}
	equal(t, "all", len(got[[]Token](t)(s.Tokens(ctx, everybody, Page{}))), 6)
	equal(t, "of two owners, in small pages", got[[]Token](t)(s.Tokens(ctx, Scope{Owners: []string{"bob", "ada"}}, Page{Limit: 2})), []Token{token})
	equal(t, "of one of them", len(got[[]Token](t)(s.Tokens(ctx, Scope{Owners: []string{"ada"}}, Page{}))), 0)
	want(t, s.RevokeToken(ctx, Scope{Owners: []string{"ada"}}, token.ID, at, Trail{}), ErrNotFound)
	must(t, s.RevokeToken(ctx, everybody, token.ID, at, Trail{}))
	_, err := s.TokenByHash(ctx, token.Hash, at)
	want(t, err, ErrNotFound)
}

func testPeople(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	var wg sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		wg.Go(func() {
			p, err := s.Person(ctx, "https://issuer", "ada", id(), now())
			if err != nil {
				t.Error(err)
			}
			ids[i] = p
		})
	}
	wg.Wait()
	if len(slices.Compact(slices.Clone(ids))) != 1 {
		t.Fatalf("one person has ids %q", ids)
	}
	at := now()
	must(t, s.CreateToken(ctx, Token{ID: id(), Hash: Hash("s"), Kind: TokenSession, Role: "viewer", Person: ids[0], Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	must(t, s.ErasePerson(ctx, ids[0], at, Trail{}))
	_, err := s.TokenByHash(ctx, Hash("s"), at)
	want(t, err, ErrNotFound)
	if again := got[string](t)(s.Person(ctx, "https://issuer", "ada", id(), now())); again == ids[0] {
		t.Error("an erased person got the old id")
	}
	want(t, s.ErasePerson(ctx, ids[0], at, Trail{}), ErrNotFound)
}

func testNonces(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	at := now()
	must(t, s.CreateNonce(ctx, "n1", "node", at.Add(time.Minute)))
	must(t, s.CreateNonce(ctx, "n2", "node", at.Add(time.Minute)))
	want(t, s.UseNonce(ctx, "n1", "another", at), ErrNotFound)
	want(t, s.UseNonce(ctx, "n2", "node", at.Add(time.Minute)), ErrNotFound)
	var wg sync.WaitGroup
	var mu sync.Mutex
	used := 0
	for range 6 {
		wg.Go(func() {
			if s.UseNonce(ctx, "n1", "node", at) == nil {
				mu.Lock()
				used++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	equal(t, "uses of one nonce", used, 1)
}

func testScopes(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	mine, theirs := enrolled(t, s, "ada"), enrolled(t, s, "bob")
	ada, none := Scope{Owners: []string{"ada", "x'); DROP TABLE nodes; --"}}, Scope{}
	ids := func(sc Scope, f NodeFilter) (out []string) {
		for _, n := range got[[]Node](t)(s.Nodes(ctx, sc, f, Page{})) {
			out = append(out, n.ID)
		}
		return out
	}
	equal(t, "all", ids(everybody, NodeFilter{}), []string{mine, theirs})
	equal(t, "ada's", ids(ada, NodeFilter{}), []string{mine})
	equal(t, "nobody's", ids(none, NodeFilter{}), []string(nil))
	equal(t, "ada's, asked for bob's", ids(ada, NodeFilter{Owner: "bob"}), []string(nil))
	equal(t, "pending", ids(everybody, NodeFilter{Admission: "pending", Contact: "seen", Intent: "serve"}), []string{mine, theirs})
	equal(t, "admitted", ids(everybody, NodeFilter{Admission: "admitted"}), []string(nil))
	for name, err := range map[string]error{
		"node":       second(s.Node(ctx, ada, theirs)),
		"settings":   s.PutSettings(ctx, ada, theirs, 0, nil, now(), Trail{}),
		"command":    s.AddCommand(ctx, ada, Command{ID: id(), Node: theirs}, Trail{}),
		"transition": second(s.Transition(ctx, ada, theirs, id())),
		"report":     second(s.Report(ctx, ada, theirs, id())),
		"key":        s.RevokeNodeKey(ctx, ada, theirs, got[[]NodeKey](t)(s.NodeKeys(ctx, everybody, theirs))[0].ID, now(), Trail{}),
	} {
		if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConflict) {
			t.Errorf("%s of another owner: %v", name, err)
		}
	}
	equal(t, "keys", len(got[[]NodeKey](t)(s.NodeKeys(ctx, ada, theirs))), 0)
	equal(t, "counts", got[[]NodeCount](t)(s.CountNodes(ctx, ada)), []NodeCount{{"pending", "serve", "seen", 1}})
	must(t, s.PutSettings(ctx, ada, mine, 0, json.RawMessage(`{"profile":"p"}`), now(), Trail{}))
	want(t, s.PutSettings(ctx, ada, mine, 0, json.RawMessage(`{"profile":"q"}`), now(), Trail{}), ErrConflict)
	n := got[Node](t)(s.Node(ctx, ada, mine))
	equal(t, "settings", string(n.Settings), `{"profile":"p"}`)
	equal(t, "their version", n.SettingsVersion, int64(1))
}

func second[T any](_ T, err error) error { return err }

func testBeats(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	at := now()
	one, two, quiet := enrolled(t, s, "ada"), enrolled(t, s, "ada"), enrolled(t, s, "ada")
	must(t, s.Beats(ctx, nil))
	must(t, s.Beats(ctx, []Beat{
		{Node: two, Seen: at, Version: "v1", Running: -1, Body: json.RawMessage(`{"a":1}`)},
		{Node: one, Seen: at.Add(time.Second), Version: "new", Running: 3},
		{Node: one, Seen: at, Version: "old"},
	}))
	must(t, s.Beats(ctx, []Beat{{Node: one, Seen: at, Version: "late", Running: 9}}))
	n := got[Node](t)(s.Node(ctx, everybody, one))
	equal(t, "the latest stays", []any{n.LastSeen, n.AgentVersion, n.Running}, []any{at.Add(time.Second), "new", int64(3)})
	n = got[Node](t)(s.Node(ctx, everybody, two))
	equal(t, "the other", []any{n.LastSeen, n.Running, string(n.Beat)}, []any{at, int64(-1), `{"a":1}`})
	n = got[Node](t)(s.Node(ctx, everybody, quiet))
	equal(t, "without one", []any{n.LastSeen, n.Running}, []any{time.Time{}, int64(-1)})
	names := func(nodes []Node) (out []string) {
		for _, n := range nodes {
			out = append(out, n.ID)
		}
		return out
	}
	equal(t, "quiet", names(got[[]Node](t)(s.Quiet(ctx, at.Add(time.Second), 10))), []string{two, quiet})
	equal(t, "returned", names(got[[]Node](t)(s.Returned(ctx, at, 10))), []string(nil))
	must(t, s.Decide(ctx, decision(t, s, two, func(f *Facts) { f.Contact = "silent" })))
	equal(t, "returned, one is silent", names(got[[]Node](t)(s.Returned(ctx, at, 10))), []string{two})

	// Two processes write the same nodes in different orders.
	other := b.open(t)
	var wg sync.WaitGroup
	for i := range 20 {
		beats := []Beat{{Node: one, Seen: at.Add(time.Duration(i) * time.Minute)}, {Node: two, Seen: at}, {Node: quiet, Seen: at}}
		wg.Go(func() {
			if i%2 == 0 {
				slices.Reverse(beats)
			}
			if err := []*Store{s, other}[i%2].Beats(ctx, beats); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, "the last of all", got[Node](t)(s.Node(ctx, everybody, one)).LastSeen, at.Add(19*time.Minute))
}

func testInventory(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, at := enrolled(t, s, "ada"), now()
	card := GPU{UUID: "GPU-1", Name: "H100", Serial: "s", VBIOS: "96", PCIBusID: "0:1", PCIDeviceID: "10DE", Driver: "550", MemoryBytes: 80 << 30}
	replica := Replica{ID: id(), Name: "r", Engine: "vllm", Model: "m", ServingURL: "http://h:8000", GPUs: []string{"GPU-1"}, Facts: Facts{Admission: "pending", Intent: "serve", Contact: "seen", Version: 1}}
	in := Inventory{Node: node, Hostname: "renamed", Body: json.RawMessage(`{}`), SHA256: Hash("i"), GPUs: []GPU{card}, Replicas: []Replica{replica}, At: at}
	must(t, s.PutInventory(ctx, in))
	in.At = at.Add(time.Second)
	must(t, s.PutInventory(ctx, in))
	in.At, in.GPUs[0].VBIOS = at.Add(2*time.Second), "97"
	in.Replicas[0].ID, in.Replicas[0].Model, in.Replicas[0].Admission = id(), "m2", "admitted"
	must(t, s.PutInventory(ctx, in))
	gpus := got[[]GPU](t)(s.GPUs(ctx, everybody, node))
	if len(gpus) != 2 || gpus[0].VBIOS != "97" || gpus[1].VBIOS != "96" || !gpus[1].FirstSeen.Equal(at) || !gpus[1].LastSeen.Equal(at.Add(time.Second)) {
		t.Errorf("history of a card: %+v", gpus)
	}
	equal(t, "by uuid", got[[]GPU](t)(s.GPUHistory(ctx, everybody, "GPU-1")), gpus)
	equal(t, "for another owner", len(got[[]GPU](t)(s.GPUHistory(ctx, Scope{Owners: []string{"bob"}}, "GPU-1"))), 0)
	rs := got[[]Replica](t)(s.Replicas(ctx, everybody, node))
	if len(rs) != 1 || rs[0].ID != replica.ID || rs[0].Model != "m2" || rs[0].Admission != "pending" {
		t.Errorf("a replica that changed: %+v", rs)
	}
	in.Replicas = nil
	must(t, s.PutInventory(ctx, in))
	equal(t, "replicas after none is named", len(got[[]Replica](t)(s.Replicas(ctx, everybody, node))), 0)
	n := got[Node](t)(s.Node(ctx, everybody, node))
	equal(t, "hostname and hash", []string{n.Hostname, n.InventorySHA256}, []string{"renamed", Hash("i")})
	in.Node = id()
	want(t, s.PutInventory(ctx, in), ErrNotFound)
}

// decision changes facts of a node as they are now.
func decision(t *testing.T, s *Store, node string, change func(*Facts)) Decision {
	t.Helper()
	n, br := got[Node](t)(s.Node(t.Context(), everybody, node)), got[Breaker](t)(s.Breaker(t.Context()))
	next := n.Facts
	change(&next)
	next.Version++
	return Decision{ID: id(), At: now(), Node: node, From: n.Version, Next: next, BreakerFrom: br.Version, Event: json.RawMessage(`{"kind":"report"}`), Actor: "server:s", Why: "because"}
}
