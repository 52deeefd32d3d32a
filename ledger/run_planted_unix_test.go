//go:build unix

package ledger

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestSignSomebodysDirectory is the attack on who signs: links that were planted
// where the signer writes led to a private file, which was overwritten and opened
// to everybody.
func TestSignSomebodysDirectory(t *testing.T) {
	dir := runDirectory(t, "01RUN", "node-1", runNonce)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range proofFiles {
		for _, planted := range []string{name + ".tmp", ".tmp-" + name, "." + name + ".tmp"} {
			if err := os.Symlink(secret, filepath.Join(dir, planted)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := runSigner(1)
	key := runKey(t, s, s, "node-1")
	if _, err := SignRun(context.Background(), dir, s, key, SignOptions{Now: runNow}); err != nil {
		t.Fatal(err)
	}
	// A link in the place of a statement is refused.
	path := filepath.Join(dir, BenchmarkFile)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, path); err != nil {
		t.Fatal(err)
	}
	if _, err := SignRun(context.Background(), dir, s, key, SignOptions{Now: runNow}); err == nil {
		t.Error("a link was replaced without a word")
	}
	b, err := os.ReadFile(secret)
	info, serr := os.Stat(secret)
	if err != nil || serr != nil || string(b) != "secret" || info.Mode() != 0o600 {
		t.Errorf("the file outside is %q with %v (%v, %v)", b, info.Mode(), err, serr)
	}
}
