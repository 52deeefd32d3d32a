//go:build unix

package outbox

import (
	"os"
	"strings"
	"testing"
)

// What lies in an outbox is sent in the node's name: a directory of somebody else
// is not one.
func TestAnOutboxOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkOwner(dir, info, os.Geteuid()); err != nil {
		t.Errorf("our own: %v", err)
	}
	if err := checkOwner(dir, info, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("somebody else's: %v", err)
	}
	if os.Geteuid() != 0 {
		return // only root can give a directory away
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	o, err := Open(Options{Dir: dir})
	if err == nil {
		o.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("it is taken: %v", err)
	}
}
