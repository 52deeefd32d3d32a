package tlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// tempPrefix begins names of files that are being written.
const tempPrefix = ".tmp-"

// writeFile replaces a file as a whole: after a crash it is the old one or the
// new one. The directory is synced by the caller when synced is false.
func writeFile(root *os.Root, name string, b []byte, synced bool) error {
	dir, base := path.Split(name)
	temp := dir + tempPrefix + base
	f, err := root.OpenFile(filepath.FromSlash(temp), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(filepath.FromSlash(temp), filepath.FromSlash(name))
	}
	if err != nil {
		_ = root.Remove(filepath.FromSlash(temp))
		return fmt.Errorf("write %s: %w", name, err)
	}
	if synced {
		return syncDir(root, path.Clean("./"+dir))
	}
	return nil
}

func syncDir(root *os.Root, dir string) error {
	f, err := root.Open(filepath.FromSlash(dir))
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
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
