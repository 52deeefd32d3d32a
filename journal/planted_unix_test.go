//go:build unix

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
)

// TestResumeSomebodysDirectory goes on with a run whose files were exchanged for
// links: what they lead to is not cut, not written and not locked.
func TestResumeSomebodysDirectory(t *testing.T) {
	for _, name := range appended {
		dir := filepath.Join(t.TempDir(), "run")
		w, err := Create(dir, assay.Manifest{ID: "x", Created: 1, Clock: assay.ClockUser})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		const torn = "a line\nand half of one"
		outside := filepath.Join(t.TempDir(), "outside")
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(outside, []byte(torn), 0o600), os.Remove(path), os.Symlink(outside, path)); err != nil {
			t.Fatal(err)
		}
		if w, _, err := Resume(dir); !errors.Is(err, disk.ErrNotRegular) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
		if b, err := os.ReadFile(outside); err != nil || string(b) != torn {
			t.Errorf("%s: the file outside is %q, %v", name, b, err)
		}
	}
}

// TestResumeTidies removes what a killed process was writing.
func TestResumeTidies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, assay.Manifest{ID: "x", Created: 1, Clock: assay.ClockUser})
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, ".checkpoint.json.ABCDEFGHIJKLMNOPQRSTUVWXYZ.tmp")
	if err := errors.Join(w.Close(), os.WriteFile(left, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w, _, err = Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was left: %v", err)
	}
}
