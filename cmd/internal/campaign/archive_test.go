package campaign

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
)

// A run directory of whatever machine is signed by the campaigns' key, every worker
// with the same one; the report names it, and what is altered later is found.
func TestArchiveIsSigned(t *testing.T) {
	state := t.TempDir()
	sign := func() func(dir string) error {
		t.Helper()
		m, err := node.OpenMaster(filepath.Join(state, "master.key"))
		if err != nil {
			t.Fatal(err)
		}
		by, err := archiver(t.Context(), m, state)
		if err != nil {
			t.Fatal(err)
		}
		return func(dir string) error { return by(t.Context(), dir) }
	}
	dir := filepath.Join(state, "results", "run")
	if err := os.CopyFS(dir, os.DirFS(runDir)); err != nil {
		t.Fatal(err)
	}
	if err := sign()(dir); err != nil {
		t.Fatal(err)
	}
	if err := sign()(dir); err != nil { // another worker, after a crash
		t.Fatal(err)
	}
	trusted, err := keys.ReadKeyStatement(filepath.Join(state, archiveStatement))
	if err != nil {
		t.Fatal(err)
	}
	verdict := func() assay.Verdict {
		t.Helper()
		v, err := ledger.VerifyRun(dir, ledger.VerifyOptions{Keys: ledger.NewKeyring(trusted)})
		if err != nil {
			t.Fatal(err)
		}
		return v.Verdict
	}
	if v := verdict(); v == assay.Fail {
		t.Errorf("as it was signed: %s", v)
	}
	db := "sqlite:" + filepath.Join(state, "c.db")
	if code, _, stderr := run(t, "campaign", "import", dir, "--database", db, "--provider", "vast", "--gpu", "RTX 4090"); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	code, stdout, stderr := run(t, "campaign", "report", "--database", db, "--state", state)
	if words := strings.Join(strings.Fields(stdout), " "); code != 0 || !strings.Contains(words, trusted.ID[:12]) || !strings.Contains(words, "--trust "+filepath.Join(state, archiveStatement)) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	requests := filepath.Join(dir, journal.RequestsFile)
	b, err := os.ReadFile(requests)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(requests, append(b, b...), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := verdict(); v != assay.Fail {
		t.Errorf("altered: %s", v)
	}
	if err := os.WriteFile(filepath.Join(state, "master.key"), []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := node.OpenMaster(filepath.Join(state, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archiver(t.Context(), m, state); err == nil || !strings.Contains(err.Error(), "is about another key") {
		t.Errorf("the statement of another master: %v", err)
	}
}
