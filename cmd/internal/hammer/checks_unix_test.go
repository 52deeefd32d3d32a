//go:build unix

package hammer

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/assay-bench/assay/internal/disk"
)

// Nobody writes to the pipe: who opens it as a file waits for ever.
func TestChecksAreNoPipeAndNoLink(t *testing.T) {
	for name, plant := range map[string]func(string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		dir := t.TempDir()
		if err := plant(filepath.Join(dir, "checks.jsonl")); err != nil {
			t.Skip(err)
		}
		if _, err := readChecks(dir); !errors.Is(err, disk.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
