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
// What was being written when a process died is left as NAME.*.tmp.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return replace(path, mode, write, true)
}

// Swap is Replace without waiting for the disk: no reader sees half of the file,
// and a power cut may take it back.
func Swap(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return replace(path, mode, write, false)
}

// Bytes writes b, for Replace and Swap.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func replace(path string, mode fs.FileMode, write func(io.Writer) error, sync bool) error {
	// A name of its own: two processes may replace the same file.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
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
	if !sync {
		return nil
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: %w: %w", path, ErrUnsynced, err)
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
