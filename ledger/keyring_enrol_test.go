package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// network is an authority that stays offline, a server's key that takes in nodes,
// and a node that it took in.
type network struct {
	root, enrol, node Signer
	rootKey, enrolKey Key
	nodeKey           Key
}

func newNetwork(t *testing.T) network {
	n := network{root: testSigner("root"), enrol: testSigner("enrol"), node: testSigner("node")}
	n.rootKey = stateTestKey(t, n.root, n.root, "office", RoleAuthority)
	n.enrolKey = stateTestKey(t, n.enrol, n.root, "server", RoleEnrol)
	n.nodeKey = stateTestKey(t, n.node, n.enrol, "n1", RoleRun)
	return n
}

func day(n int) time.Time { return keyDay.AddDate(0, 0, n) }

// TestEnrolledNode: who trusts the authority alone takes the node's runs, and the
// statements may come in any order.
func TestEnrolledNode(t *testing.T) {
	n := newNetwork(t)
	for name, trusted := range map[string]Key{"the authority": n.rootKey, "the server's own key": stateTestKey(t, n.enrol, n.enrol, "server", RoleEnrol)} {
		ring := NewKeyring(trusted)
		statements := unlogged(n.nodeKey.Envelope, n.enrolKey.Envelope)
		if trusted.ID == n.enrolKey.ID {
			statements = statements[:1]
		}
		if err := ring.AddAll(statements...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if k, err := checkRun(t, ring, n.node, "n1", day(1), time.Time{}); err != nil || k.ID != n.nodeKey.ID {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := checkRun(t, ring, n.node, "n2", day(1), time.Time{}); !errors.Is(err, ErrOtherNode) {
			t.Errorf("%s, another node's run: %v", name, err)
		}
	}
	if err := NewKeyring(n.rootKey).Add(n.nodeKey.Envelope, time.Time{}); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("without the server's key: %v", err)
	}
}

// TestEnrolKeyCanDoLittle are the attacks of who stole the server's key.
func TestEnrolKeyCanDoLittle(t *testing.T) {
	n := newNetwork(t)
	ring := NewKeyring(n.rootKey)
	if err := ring.AddAll(unlogged(n.enrolKey.Envelope, n.nodeKey.Envelope)...); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"server", "n1"} {
		if _, err := checkRun(t, ring, n.enrol, node, day(1), day(1)); !errors.Is(err, ErrRole) {
			t.Errorf("it signed a run of %s: %v", node, err)
		}
	}
	thief := testSigner("thief")
	for _, roles := range [][]Role{{RoleEnrol}, {RoleAuthority}, {RoleRun, RoleAuthority}, {RoleAuthority, RoleRun}} {
		k := stateTestKey(t, thief, n.enrol, "n1", roles...)
		if err := ring.Add(k.Envelope, day(1)); !errors.Is(err, ErrRole) {
			t.Errorf("it certified a key for %v: %v", roles, err)
		}
	}
	self := stateTestKey(t, n.enrol, n.enrol, "n1", RoleRun)
	if err := ring.Add(self.Envelope, time.Time{}); !errors.Is(err, ErrRole) {
		t.Errorf("it certified itself: %v", err)
	}
	for what, k := range map[string]Key{"a node": n.nodeKey, "the authority": n.rootKey} {
		v, err := StateRevocation(context.Background(), k, n.enrol, day(0), "spite", RevocationOptions{Now: day(1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(v.Envelope, time.Time{}); !errors.Is(err, ErrRole) {
			t.Errorf("it revoked %s: %v", what, err)
		}
	}
	// What it certified certifies nobody.
	k := stateTestKey(t, thief, n.node, "n1", RoleRun)
	if err := ring.Add(k.Envelope, time.Time{}); !errors.Is(err, ErrRole) {
		t.Errorf("a node certified a node: %v", err)
	}
	// A key that another server's key certified as a server's does not count either,
	// also when it was slipped in as trusted by nobody.
	second := testSigner("second server")
	ring = NewKeyring(n.rootKey)
	err := ring.AddAll(unlogged(n.enrolKey.Envelope, stateTestKey(t, second, n.enrol, "server-2", RoleEnrol).Envelope, stateTestKey(t, thief, second, "n9", RoleRun).Envelope)...)
	if err == nil {
		t.Error("a chain of servers was taken")
	}
	if _, err := checkRun(t, ring, thief, "n9", day(1), time.Time{}); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a run at the end of the chain: %v", err)
	}
	// An authority's certificate that itself was certified does not reach further.
	branch := testSigner("branch")
	err = ring.AddAll(unlogged(stateTestKey(t, branch, n.root, "branch", RoleAuthority).Envelope, stateTestKey(t, second, branch, "server-2", RoleEnrol).Envelope)...)
	if !errors.Is(err, ErrRole) {
		t.Errorf("a certified authority certified a server: %v", err)
	}
}

func TestRolesOfAKey(t *testing.T) {
	for _, tt := range []struct {
		roles []Role
		says  string
	}{
		{[]Role{RoleRun}, ""},
		{[]Role{RoleEnrol}, ""},
		{[]Role{RoleRun, RoleAuthority}, ""},
		{nil, "no role"},
		{[]Role{"king"}, "unknown role"},
		{[]Role{RoleRun, RoleRun}, "twice"},
		{[]Role{RoleEnrol, RoleRun}, "stands alone"},
		{[]Role{RoleAuthority, RoleEnrol}, "stands alone"},
	} {
		if err := CheckRoles(tt.roles); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v, want %q", tt.roles, err, tt.says)
		}
	}
}

// TestRevokedCertifier is the rule for authorities and for servers' keys: what they
// certified stays good where the log shows that it was certified before.
func TestRevokedCertifier(t *testing.T) {
	n := newNetwork(t)
	byRoot := stateTestKey(t, testSigner("node"), n.root, "n1", RoleRun)
	from := day(3)
	for _, tt := range []struct {
		name    string
		revoked Key
		node    Key
		logged  time.Time // of the node's key
		want    error
	}{
		{"enrol, logged before", n.enrolKey, n.nodeKey, day(2), nil},
		{"enrol, logged after", n.enrolKey, n.nodeKey, day(4), ErrKeyRevoked},
		{"enrol, at that moment", n.enrolKey, n.nodeKey, from, ErrKeyRevoked},
		{"enrol, no log time", n.enrolKey, n.nodeKey, time.Time{}, ErrKeyRevoked},
		{"authority, logged before", n.rootKey, byRoot, day(2), nil},
		{"authority, logged after", n.rootKey, byRoot, day(4), ErrKeyRevoked},
		{"authority, no log time", n.rootKey, byRoot, time.Time{}, ErrKeyRevoked},
		{"authority of the server, logged before", n.rootKey, n.nodeKey, day(2), nil},
	} {
		v, err := StateRevocation(context.Background(), tt.revoked, n.root, from, "stolen", RevocationOptions{Now: from})
		if err != nil {
			t.Fatal(err)
		}
		ring := NewKeyring(n.rootKey)
		if err := ring.AddAll(Logged{v.Envelope, from}, Logged{tt.node.Envelope, tt.logged}, Logged{n.enrolKey.Envelope, day(1)}); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		// The run itself was signed and logged long after.
		if _, err := checkRun(t, ring, n.node, "n1", day(5), day(5)); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		// The order in which they come changes nothing.
		again := NewKeyring(n.rootKey)
		_ = again.Add(n.enrolKey.Envelope, day(1))
		_ = again.Add(v.Envelope, from)
		_ = again.Add(tt.node.Envelope, tt.logged)
		if _, err := checkRun(t, again, n.node, "n1", day(5), day(5)); (err == nil) != (tt.want == nil) {
			t.Errorf("%s, the revocation first: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestCrowdedOut: statements of one certifier leave room for those of another.
func TestCrowdedOut(t *testing.T) {
	n := newNetwork(t)
	ring := NewKeyring(n.rootKey)
	if err := ring.Add(n.enrolKey.Envelope, time.Time{}); err != nil {
		t.Fatal(err)
	}
	var last error
	for i := range maxKeyStatements + 1 {
		k, err := StateKey(t.Context(), n.node.Public(), n.enrol, KeyOptions{Node: "n1", Owner: "o", Now: keyDay.Add(time.Duration(i) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		last = ring.Add(k.Envelope, time.Time{})
	}
	if last == nil {
		t.Error("there is no end to statements about one key")
	}
	k, err := StateKey(t.Context(), n.node.Public(), n.root, KeyOptions{Node: "n1", Owner: "o", Now: day(5)})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Add(k.Envelope, time.Time{}); err != nil {
		t.Errorf("the authority was kept out: %v", err)
	}
}

// TestPredicateTable: each row has its schema and its section.
func TestPredicateTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "formats", "statement.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range predicates {
		if !strings.Contains(string(page), "`"+p.Type+"`") {
			t.Errorf("docs/formats/statement.md has no %s", p.Type)
		}
		if CheckRoles([]Role{p.Role}) != nil {
			t.Errorf("%s: role %q", p.Type, p.Role)
		}
		if p.Schema == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "docs", "formats", "schema", p.Schema)); err != nil {
			t.Errorf("%s: %v", p.Type, err)
		}
	}
}
