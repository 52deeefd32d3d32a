package tlog

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/internal/disk"
)

// What a process leaves that was killed while it wrote is no foreign file of the
// log, wherever it was writing.
func TestUnfinishedFilesAreTemporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"checkpoint", "tile/0/000", "tile/entries/000.p/3"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		root, base, err := openFor(path)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		seen := 0
		err = disk.Put(root, base, 0o644, disk.Content, func(io.Writer) error {
			list, err := os.ReadDir(filepath.Dir(path))
			for _, e := range list {
				if e.IsDir() {
					continue
				}
				seen++
				left := filepath.ToSlash(filepath.Join(filepath.Dir(filepath.FromSlash(name)), e.Name()))
				if b := belongs(left, 1000); b != isTemporary {
					t.Errorf("%s, left by who wrote %s, is %v, want %v", left, name, b, isTemporary)
				}
			}
			return err
		})
		if err != nil || seen != 1 {
			t.Fatalf("%d files while %s was written: %v", seen, name, err)
		}
		if b := belongs(name, 1000); b == isTemporary {
			t.Errorf("%s is taken for a file that was being written", name)
		}
	}
}
