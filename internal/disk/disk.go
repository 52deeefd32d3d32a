// Package disk does the few things with files that are easy to do almost right:
// put a new file in the place of an old one, open a file that nobody has put a
// link in the place of, and keep other processes out.
//
// What it promises: nothing outside of the directory that a file is written to is
// changed, whoever else can write there. A new file is made under a name that
// cannot be guessed, below the directory's own handle, and renamed; what stands
// in its place is never opened.
//
// What it refuses: to replace anything but a regular file. A link, a pipe, a
// device or a directory in a file's place was put there by somebody for a
// purpose, or is a mistake: both are for a person to look at.
package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Errors of writing a file.
var (
	// ErrUnsynced marks a file that is in its place, and that a power cut may
	// still take back: the directory could not be synced.
	ErrUnsynced = errors.New("written, but not known to be safe from a power cut")
	// ErrNotRegular marks a link, a pipe, a device or a directory in a file's
	// place. Remove it, or choose another name.
	ErrNotRegular = errors.New("not a regular file")
)

// Safety says what a file that was put in its place is safe from.
type Safety uint8

const (
	// Crash of the process: a reader sees the old file or the new one. A power
	// cut may take the new one back.
	Crash Safety = iota
	// Content is as Crash, and the file's bytes are on the disk. Its name is not,
	// until SyncDirIn: for who puts many files into one directory.
	Content
	// PowerCut leaves the old file or the new one, and the new one once Put has
	// returned.
	PowerCut
)

// Replace puts a file in the place of another so that after a crash it is the
// old one or the new one, as a whole. When it returns nil the new one is safe
// from a power cut. Several processes may do it at once: one of them wins.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return putPath(path, mode, PowerCut, write)
}

// Swap is Replace that does not wait for the disk: a power cut may take the file
// back.
func Swap(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return putPath(path, mode, Crash, write)
}

func putPath(path string, mode fs.FileMode, safe Safety, write func(io.Writer) error) error {
	dir, name := filepath.Split(path)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer root.Close()
	return Put(root, name, mode, safe, write)
}

// Put is Replace below a directory that is open. The name may have directories
// in it, which are there already.
//
// The new file has the mode, less what the owner of the old one had forbidden.
func Put(root *os.Root, name string, mode fs.FileMode, safe Safety, write func(io.Writer) error) error {
	fail := func(err error) error {
		return fmt.Errorf("write %s: %w", filepath.Join(root.Name(), name), err)
	}
	// A courtesy: what comes in between is replaced, never opened.
	old, err := root.Lstat(name)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return fail(notRegular(old))
	case err == nil:
		mode &= old.Mode().Perm() | 0o600
	case !errors.Is(err, fs.ErrNotExist):
		return fail(err)
	}
	dir, base := filepath.Split(name)
	temp := dir + tempName(base)
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fail(fmt.Errorf("no new file can be made in its directory: %w", unnamed(err)))
	}
	if err := fill(f, mode, safe != Crash, write); err != nil {
		_ = root.Remove(temp) // the error that is returned matters more
		return fail(err)
	}
	if err := root.Rename(temp, name); err != nil {
		_ = root.Remove(temp)
		return fail(unnamed(err))
	}
	if safe != PowerCut {
		return nil
	}
	if err := SyncDirIn(root, filepath.Clean("./"+dir)); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrUnsynced, err))
	}
	return nil
}

// unnamed takes the names out of an error: nobody has heard of the temporary file,
// and the file that was asked for is named already.
func unnamed(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// fill writes a new file and closes it.
func fill(f *os.File, mode fs.FileMode, sync bool, write func(io.Writer) error) error {
	err := write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Create makes a new file, and is fs.ErrExist when there is one already. When it
// returns nil the file is safe from a power cut; after another error there is
// none, as half a file would be in the way of the next attempt.
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

// CreateWhole is Create for a file that others look for: it is there with all of its
// content or not at all, also when this process is killed on the way.
func CreateWhole(path string, mode fs.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	draft := filepath.Join(dir, tempName(filepath.Base(path)))
	if err := Create(draft, mode, write); err != nil {
		return err
	}
	return errors.Join(os.Link(draft, path), os.Remove(draft), SyncDir(dir))
}

// Bytes writes b, for the functions above.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// Names of files that are being written are .NAME.RANDOM.tmp.
const (
	tempPrefix, tempSuffix = ".", ".tmp"
	tempRandom             = 26 // characters of rand.Text
)

func tempName(base string) string { return tempPrefix + base + "." + rand.Text() + tempSuffix }

// Unfinished reports whether a name is that of a file which was being written: a
// process that was killed leaves it.
func Unfinished(name string) bool {
	rest, ok := strings.CutPrefix(filepath.Base(name), tempPrefix)
	rest, ok2 := strings.CutSuffix(rest, tempSuffix)
	i := len(rest) - tempRandom - 1
	return ok && ok2 && i > 0 && rest[i] == '.' &&
		strings.Trim(rest[i+1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Tidy removes what processes that were killed left unfinished in a directory.
// Only who has locked the directory may do that: others may be writing.
func Tidy(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	errs := []error{err, d.Close()}
	for _, n := range names {
		if Unfinished(n) {
			errs = append(errs, root.Remove(n))
		}
	}
	return errors.Join(errs...)
}
