package tlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/internal/disk"
)

// writeFile replaces a file, whose directory is there, as internal/disk does.
func writeFile(root *os.Root, name string, b []byte, safe disk.Safety) error {
	return disk.Put(root, filepath.FromSlash(name), 0o644, safe, disk.Bytes(b))
}

// openFor opens the directory of a file, which is made if need be, and gives
// the file's name in it.
func openFor(file string) (*os.Root, string, error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	return root, filepath.Base(file), err
}

// isEmpty reports whether a directory is not there or has nothing in it.
func isEmpty(dir string) (bool, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(list) == 0, err
}
