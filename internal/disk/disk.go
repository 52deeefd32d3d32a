// Package disk does the few things with files that are easy to do almost right:
// put a new file in the place of an old one, and keep other processes out.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrUnsynced marks a file that is in its place, and that a power cut may still
// take back: the directory could not be synced.
var ErrUnsynced = errors.New("written, but not known to be safe from a power cut")

// Replace puts a file in the place of another so that after a crash it is the
// old one or the new one, as a whole. When it returns nil the new one is safe.
// The file has one writer at a time, who sees to that: what it was writing when
// it died is left as NAME.tmp, and is overwritten the next time.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := put(f, path, mode, write, (*os.File).Sync); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: %w: %w", path, ErrUnsynced, err)
	}
	return nil
}

// Swap puts a file in the place of another so that no reader sees half of it,
// also when several write it. It does not wait for the disk: a power cut may take
// the file back.
func Swap(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return put(f, path, mode, write, func(*os.File) error { return nil })
}

// Create makes a new file, and is fs.ErrExist when there is one already. When it
// returns nil the file is safe; after another error there is none, as half a file
// would be in the way of the next attempt.
func Create(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Bytes writes b, for the functions above.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func put(f *os.File, path string, mode fs.FileMode, write func(io.Writer) error, sync func(*os.File) error) error {
	err := write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that is returned matters more
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
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
