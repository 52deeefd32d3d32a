package server

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/network/api"
)

// served runs a new server, and gives what asks it as its admin.
func served(t *testing.T) (dir string, ask func(...string) (int, string, string)) {
	t.Helper()
	dir = t.TempDir()
	db, admin := "sqlite:"+filepath.Join(dir, "a.db"), filepath.Join(dir, "admin")
	if code, _, stderr := run(t, "server", "init", "--database", db, "--admin-token-file", admin); code != 0 {
		t.Fatal(stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	root := cli.Root("assay", nil, New())
	root.SetErr(w)
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, root, []string{"server", "--database", db, "--listen", ":0"})
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("the server ended with %d", code)
			}
		case <-time.After(time.Minute):
			t.Error("the server does not end")
		}
		r.Close()
	})
	line := make([]byte, 4096)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, ok := strings.Cut(strings.TrimSpace(string(line[:n])), "answers at ")
	if !ok {
		t.Fatalf("%s", line[:n])
	}
	return dir, func(args ...string) (int, string, string) {
		t.Helper()
		token := admin
		if args[0] == "as" {
			token, args = args[1], args[2:]
		}
		return run(t, append(append([]string{"server"}, args...), "--server", url, "--token-file", token)...)
	}
}

// decoded reads the JSON that a command printed.
func decoded[T any](t *testing.T, code int, stdout, stderr string) (v T) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewBufferString(stdout)).Decode(&v); err != nil || code != 0 {
		t.Fatalf("%d %v: %s%s", code, err, stdout, stderr)
	}
	return v
}

// Tokens of both kinds are made, listed and revoked; a revoked one is nobody's.
func TestTokens(t *testing.T) {
	dir, ask := served(t)
	viewer := filepath.Join(dir, "viewer")
	if code, stdout, stderr := ask("access", "create", "--name", "dashboard", "--role", "viewer", "--owner", "a", "--owner", "b", "--out", viewer, "--valid", "1h"); code != 0 || stdout != "" {
		t.Fatalf("%d %q %s", code, stdout, stderr)
	}
	if code, _, stderr := ask("access", "create", "--name", "dashboard", "--role", "viewer", "--out", viewer); code != 1 || !strings.Contains(stderr, "is there already") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := ask("as", viewer, "breaker", "show"); code != 0 {
		t.Errorf("%d %s", code, stderr)
	}
	code, stdout, stderr := ask("access", "list", "--format", "json")
	tokens := decoded[[]api.Token](t, code, stdout, stderr)
	if len(tokens) != 2 || *tokens[0].Name != "dashboard" || len(*tokens[0].Owners) != 2 || *tokens[1].Role != api.RoleAdmin {
		t.Fatalf("%s", stdout)
	}
	id := tokens[0].Id
	if code, stdout, stderr := ask("access", "revoke", id, "nobody's"); code != 1 || stdout != "" || !strings.Contains(stderr, "nothing was done: there is no token nobody's") {
		t.Errorf("%d %q %s", code, stdout, stderr)
	}
	if code, stdout, stderr := ask("access", "revoke", id); code != 0 || stdout != "token "+id+" is void\n" {
		t.Errorf("%d %q %s", code, stdout, stderr)
	}
	if code, _, stderr := ask("as", viewer, "breaker", "show"); code != 1 || !strings.Contains(stderr, "does not know the token") {
		t.Errorf("a revoked token: %d %s", code, stderr)
	}
	if _, stdout, _ := ask("access", "list"); strings.Contains(stdout, id) || !strings.Contains(stdout, "1 tokens; 1 that have ended are left out") {
		t.Errorf("%s", stdout)
	}
	if _, stdout, _ := ask("access", "list", "--all"); !strings.Contains(stdout, id) || !strings.Contains(stdout, "revoked") {
		t.Errorf("%s", stdout)
	}

	if code, _, stderr := ask("token", "create", "--owner", "a", "--out", filepath.Join(dir, "enrol")); code != 0 {
		t.Fatal(stderr)
	}
	code, stdout, stderr = ask("token", "list", "--format", "json")
	if tokens = decoded[[]api.Token](t, code, stdout, stderr); len(tokens) != 1 {
		t.Fatalf("%s", stdout)
	}
	if code, _, stderr := ask("token", "revoke", tokens[0].Id); code != 0 {
		t.Error(stderr)
	}
	if code, stdout, _ := ask("token", "list", "--format", "json"); code != 0 || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("%s", stdout)
	}
}

// A person lifts the breaker by a command, and the audit log has it.
func TestBreakerAndAudit(t *testing.T) {
	_, ask := served(t)
	code, stdout, stderr := ask("breaker", "show", "--format", "json")
	if b := decoded[api.Breaker](t, code, stdout, stderr); b.Open {
		t.Errorf("%s", stdout)
	}
	if code, stdout, stderr := ask("breaker", "lift", "--reason", "the rack has no power"); code != 0 || !strings.Contains(stdout, "holds nothing back") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	before := time.Now()
	code, stdout, stderr = ask("audit", "--format", "json")
	entries := decoded[[]api.AuditEntry](t, code, stdout, stderr)
	if len(entries) < 2 || entries[0].Action != "resetBreaker" || !strings.Contains(*entries[0].Detail, "the rack has no power") {
		t.Fatalf("%s", stdout)
	}
	if _, stdout, _ := ask("audit", "--limit", "1"); !strings.Contains(stdout, "1 entries, and there are older ones") || !strings.Contains(stdout, "resetBreaker") {
		t.Errorf("%s", stdout)
	}
	code, stdout, stderr = ask("audit", "--since", before.Add(time.Hour).UTC().Format(time.RFC3339), "--format", "json")
	if later := decoded[[]api.AuditEntry](t, code, stdout, stderr); len(later) != 0 {
		t.Errorf("%s", stdout)
	}
	code, stdout, stderr = ask("audit", "--since", "1h", "--format", "json")
	if all := decoded[[]api.AuditEntry](t, code, stdout, stderr); len(all) != len(entries) {
		t.Errorf("%s", stdout)
	}
}
