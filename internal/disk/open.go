package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Open opens a regular file of a directory, for reading or by the flags for
// writing too (O_TRUNC is not among them: it would work before anything was
// checked). A link is not followed, and a pipe does not make it wait: both are
// ErrNotRegular.
func Open(root *os.Root, name string, flag int, mode fs.FileMode) (*os.File, error) {
	for try := 0; ; try++ {
		f, err := open(root, name, flag, mode)
		// Another process may have made it between our look and our open.
		if try == 2 || flag&os.O_EXCL != 0 || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// open looks before it opens, as the system says of a link only that something is
// wrong, and a root follows those that stay inside; and compares what it opened
// with what it saw.
func open(root *os.Root, name string, flag int, mode fs.FileMode) (*os.File, error) {
	before, err := root.Lstat(name)
	switch {
	case err == nil && !before.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", name, notRegular(before))
	case err == nil && flag&os.O_EXCL == 0:
		flag &^= os.O_CREATE
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		flag |= os.O_EXCL // what is put there in between is not opened
	default:
		return nil, err
	}
	f, err := root.OpenFile(name, flag&^os.O_TRUNC|openNonblock, mode)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	switch {
	case err == nil && !after.Mode().IsRegular():
		err = notRegular(after)
	case err == nil && before != nil && !os.SameFile(before, after):
		err = fmt.Errorf("%w: it was exchanged while it was being opened", ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}

func notRegular(info fs.FileInfo) error {
	what := "a device or a socket"
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		what = "a link, which is not followed"
	case fs.ModeNamedPipe:
		what = "a pipe"
	case fs.ModeDir:
		what = "a directory"
	}
	return fmt.Errorf("%w: it is %s", ErrNotRegular, what)
}

// SyncDir makes names that were made, changed or removed in a directory last.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // there is no such thing
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncDirIn is SyncDir of a directory below one that is open; "." is that one.
func SyncDirIn(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll makes a directory and those above it, and brings each name that it
// made to the disk: a file that was synced is lost with its directory. It is
// ErrUnsynced when all are there and one of the names may be lost.
func MkdirAll(dir string, mode fs.FileMode) error {
	dir = filepath.Clean(dir)
	above := filepath.Dir(dir)
	if _, err := os.Stat(dir); err == nil || above == dir {
		return os.MkdirAll(dir, mode) // says if it is no directory
	}
	unsynced := MkdirAll(above, mode)
	if unsynced != nil && !errors.Is(unsynced, ErrUnsynced) {
		return unsynced
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := SyncDir(above); err != nil && unsynced == nil {
		unsynced = fmt.Errorf("make %s: %w: %w", dir, ErrUnsynced, err)
	}
	return unsynced
}
