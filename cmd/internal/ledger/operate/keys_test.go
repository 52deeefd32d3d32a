package operate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	command "github.com/assay-bench/assay/cmd/internal/ledger"
	"github.com/assay-bench/assay/ledger"
)

func keySecrets() keys.Secrets {
	return keys.Secrets{
		Getenv: func(k string) string { return map[string]string{"ASSAY_PASSPHRASE": "p"}[k] },
		Ask:    func(context.Context, string) ([]byte, error) { return nil, errors.New("no terminal") },
		Now:    time.Now,
	}
}

// newOutsideKey makes NAME.pub and gives the flags to sign with it: by a command,
// as to decrypt a key file takes long, on purpose.
func newOutsideKey(t *testing.T, dir, name string, role ledger.Role) keys.SignerFlags {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	s := ledger.HeldKey(ed25519.NewKeyFromSeed(seed))
	k, err := ledger.StateKey(context.Background(), s.Public(), s, ledger.KeyOptions{Node: name, Owner: "Owner of " + name, Roles: []ledger.Role{role}})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := errors.Join(os.WriteFile(path+".pub", k.Envelope, 0o644), os.WriteFile(path+".seed", seed, 0o600)); err != nil {
		t.Fatal(err)
	}
	return keys.SignerFlags{Key: path + ".pub", Signer: self + " -test.run=^TestSignForAnother$ -- " + path + ".seed"}
}

// TestSignForAnother is the signer command of newOutsideKey.
func TestSignForAnother(t *testing.T) {
	if len(flag.Args()) != 1 {
		t.Skip("only as a child of another test")
	}
	seed, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	m, err := io.ReadAll(os.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), m)) + "\n")
	os.Exit(0)
}

func certifyTerms() certifyFlags {
	return certifyFlags{KeyTerms: command.KeyTerms{Days: 30, Roles: []string{"run"}}, format: "text"}
}

// An authority certifies a node's key and revokes it; who trusts the authority
// follows.
func TestCertifyAndRevoke(t *testing.T) {
	dir := t.TempDir()
	authority, node := newOutsideKey(t, dir, "authority", ledger.RoleAuthority), newOutsideKey(t, dir, "node", ledger.RoleAuthority)
	pub := node.Key

	c := certifyTerms()
	c.key, c.out = authority, filepath.Join(dir, "certified.pub")
	var out bytes.Buffer
	if err := c.run(t.Context(), pub, keySecrets(), &out); err != nil {
		t.Fatal(err)
	}
	k, err := keys.ReadKeyStatement(c.out)
	if err != nil {
		t.Fatal(err)
	}
	root, err := keys.ReadKeyStatement(filepath.Join(dir, "authority.pub"))
	if err != nil {
		t.Fatal(err)
	}
	// NODE.pub asks to be an authority, and does not get it by asking.
	if k.Has(ledger.RoleAuthority) || !k.Has(ledger.RoleRun) || k.Owner != "Owner of node" || k.Node != "node" || k.SignedBy != root.ID {
		t.Errorf("certified %+v", k)
	}
	for _, want := range []string{"Owner of node", "may sign   run", root.ID, c.out} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	ring := ledger.NewKeyring(root)
	if err := ring.Add(k.Envelope, time.Time{}); err != nil {
		t.Error(err)
	}

	// The certified statement takes the place of the node's own, and can be
	// extended by the same authority.
	if err := os.Rename(c.out, pub); err != nil {
		t.Fatal(err)
	}
	if _, got, err := node.Open(t.Context(), keySecrets()); err != nil || got.SignedBy != root.ID {
		t.Errorf("the node opens its key: %v, %v", got, err)
	}
	c.Days = 60
	if err := c.run(t.Context(), pub, keySecrets(), io.Discard); err != nil {
		t.Errorf("extend: %v", err)
	}

	r := revokeFlags{from: "2026-11-15", reason: "the machine was stolen", out: filepath.Join(dir, "node.revoked"), format: "json"}
	r.key = authority
	out.Reset()
	if err := r.run(t.Context(), pub, keySecrets(), &out); err != nil {
		t.Fatal(err)
	}
	var shown revoked
	if err := json.Unmarshal(out.Bytes(), &shown); err != nil || shown.KeyID != k.ID || shown.From.Format(time.DateTime) != "2026-11-15 00:00:00" || shown.Reason != r.reason {
		t.Errorf("%v\n%s", err, &out)
	}
	raw, err := os.ReadFile(r.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Add(raw, time.Time{}); err != nil || len(ring.Revocations()) != 1 {
		t.Errorf("add the revocation: %v", err)
	}
	// A key revokes itself.
	r.key = node
	if err := r.run(t.Context(), pub, keySecrets(), io.Discard); err != nil {
		t.Error(err)
	}
}

func TestCertifyAndRevokeRefuse(t *testing.T) {
	dir := t.TempDir()
	authority, other := newOutsideKey(t, dir, "authority", ledger.RoleAuthority), newOutsideKey(t, dir, "other", ledger.RoleAuthority)
	node, plain := newOutsideKey(t, dir, "node", ledger.RoleRun), newOutsideKey(t, dir, "plain", ledger.RoleRun)
	server := newOutsideKey(t, dir, "server", ledger.RoleEnrol)
	c := certifyTerms()
	c.key, c.out = other, filepath.Join(dir, "by-other.pub")
	if err := c.run(t.Context(), node.Key, keySecrets(), io.Discard); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	for _, tt := range []struct {
		what, path, says string
		change           func(*certifyFlags)
	}{
		{"no authority", node.Key, "only the roles enrol and authority", func(c *certifyFlags) { c.key = plain }},
		{"a server's key, an authority", node.Key, "certifies keys of the role run", func(c *certifyFlags) { c.key, c.Roles = server, []string{"authority"} }},
		{"a server's key, a server", node.Key, "certifies keys of the role run", func(c *certifyFlags) { c.key, c.Roles = server, []string{"enrol"} }},
		{"two roles", node.Key, "stands alone", func(c *certifyFlags) { c.Roles = []string{"enrol", "run"} }},
		{"itself", authority.Key, "cannot certify itself", func(*certifyFlags) {}},
		{"certified by somebody else", filepath.Join(dir, "by-other.pub"), "ask for the key's own statement", func(*certifyFlags) {}},
		{"no file", node.Key, "--out", func(c *certifyFlags) { c.out = "" }},
		{"format", node.Key, "known are", func(c *certifyFlags) { c.format = "x" }},
		{"days", node.Key, "--days", func(c *certifyFlags) { c.Days = -1 }},
		{"role", node.Key, "unknown role", func(c *certifyFlags) { c.Roles = []string{"god"} }},
		{"a private key", strings.TrimSuffix(node.Key, ".pub") + ".seed", "not a signed envelope", func(*certifyFlags) {}},
	} {
		c := certifyTerms()
		c.key, c.out = authority, made
		tt.change(&c)
		if err := c.run(t.Context(), tt.path, keySecrets(), io.Discard); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("certify, %s: %v, want %q", tt.what, err, tt.says)
		}
	}
	for _, tt := range []struct {
		what, says string
		change     func(*revokeFlags)
	}{
		{"another node", "only the key itself or an authority", func(r *revokeFlags) { r.key = plain }},
		{"a server's key", "only the key itself or an authority", func(r *revokeFlags) { r.key = server }},
		{"no reason", "--reason", func(r *revokeFlags) { r.reason = "" }},
		{"no time", "--from", func(r *revokeFlags) { r.from = "yesterday" }},
		{"no file", "--out", func(r *revokeFlags) { r.out = "" }},
	} {
		r := revokeFlags{from: "now", reason: "lost", out: made, format: "text"}
		r.key = authority
		tt.change(&r)
		if err := r.run(t.Context(), node.Key, keySecrets(), io.Discard); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("revoke, %s: %v, want %q", tt.what, err, tt.says)
		}
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("something was made nevertheless")
	}
}

// TestCertifyByAServer: the authority certifies a server's key once, the server a
// node, and who trusts the authority takes the node.
func TestCertifyByAServer(t *testing.T) {
	dir := t.TempDir()
	authority, server := newOutsideKey(t, dir, "authority", ledger.RoleAuthority), newOutsideKey(t, dir, "server", ledger.RoleEnrol)
	node := newOutsideKey(t, dir, "node", ledger.RoleRun)
	var made []ledger.Logged
	for _, step := range []struct {
		by   keys.SignerFlags
		of   string
		role string
	}{{authority, server.Key, "enrol"}, {server, node.Key, "run"}} {
		c := certifyTerms()
		c.key, c.out, c.Roles = step.by, step.of+".certified", []string{step.role}
		if err := c.run(t.Context(), step.of, keySecrets(), io.Discard); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(c.out)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, ledger.Logged{Envelope: b})
	}
	root, err := keys.ReadKeyStatement(authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.NewKeyring(root).AddAll(made...); err != nil {
		t.Error(err)
	}
}
