//go:build unix

package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// puts are the ways to replace a file.
var puts = map[string]func(string, os.FileMode, func(io.Writer) error) error{"Replace": Replace, "Swap": Swap}

// victim is somebody's private file, outside of the directory that is written to.
func victim(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func untouched(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	info, serr := os.Stat(path)
	if err != nil || serr != nil || string(b) != "secret" || info.Mode() != 0o600 {
		t.Errorf("the file outside is %q with %v (%v, %v)", b, info.Mode(), err, serr)
	}
}

// TestPlantedTemporary is the attack: a link with the name that the temporary
// file once had made the writer overwrite the link's target, and open it to all.
func TestPlantedTemporary(t *testing.T) {
	for name, put := range puts {
		t.Run(name, func(t *testing.T) {
			dir, secret := t.TempDir(), victim(t)
			path := filepath.Join(dir, "a.json")
			for _, planted := range []string{path + ".tmp", filepath.Join(dir, ".tmp-a.json"), filepath.Join(dir, ".a.json.tmp")} {
				if err := os.Symlink(secret, planted); err != nil {
					t.Fatal(err)
				}
			}
			if err := put(path, 0o644, Bytes([]byte("new"))); err != nil {
				t.Fatal(err)
			}
			untouched(t, secret)
			if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
				t.Errorf("the file is %q, %v", b, err)
			}
		})
	}
}

// TestWriterSeesOnlyItsOwnFile plants links at every name that the writer makes,
// while it writes: the file that is open stays the one that is renamed or the
// attempt fails; what a link leads to is never written.
func TestWriterSeesOnlyItsOwnFile(t *testing.T) {
	dir, secret := t.TempDir(), victim(t)
	path := filepath.Join(dir, "a.json")
	err := Replace(path, 0o644, func(w io.Writer) error {
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 1 || !Unfinished(list[0].Name()) {
			t.Fatalf("being written: %v, %v", list, err)
		}
		if info, err := list[0].Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode while it is written: %v, %v", info.Mode(), err)
		}
		temp := filepath.Join(dir, list[0].Name())
		if err := errors.Join(os.Remove(temp), os.Symlink(secret, temp)); err != nil {
			t.Fatal(err)
		}
		_, err = w.Write([]byte("new"))
		return err
	})
	t.Logf("answer: %v", err)
	untouched(t, secret)
}

// TestWhatStandsInTheWay has one rule: a regular file is replaced, anything else
// is refused and stays as it is, and nothing is left behind.
func TestWhatStandsInTheWay(t *testing.T) {
	for name, put := range puts {
		for _, tt := range []struct {
			what  string
			plant func(path, secret string) error
		}{
			{"link", func(path, secret string) error { return os.Symlink(secret, path) }},
			{"dangling link", func(path, _ string) error { return os.Symlink(path+".nowhere", path) }},
			{"pipe", func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }},
			{"directory", func(path, _ string) error { return os.Mkdir(path, 0o700) }},
		} {
			t.Run(name+"/"+tt.what, func(t *testing.T) {
				dir, secret := t.TempDir(), victim(t)
				path := filepath.Join(dir, "a.json")
				if err := tt.plant(path, secret); err != nil {
					t.Fatal(err)
				}
				before, err := os.Lstat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := put(path, 0o644, Bytes([]byte("new"))); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), path) {
					t.Errorf("error = %v, want %v", err, ErrNotRegular)
				}
				untouched(t, secret)
				if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
					t.Errorf("what stood there is gone: %v", err)
				}
				if list, _ := os.ReadDir(dir); len(list) != 1 {
					t.Errorf("left behind: %v", list)
				}
			})
		}
		t.Run(name+"/hard link", func(t *testing.T) {
			dir, secret := t.TempDir(), victim(t)
			path := filepath.Join(dir, "a.json")
			if err := os.Link(secret, path); err != nil {
				t.Skip(err)
			}
			if err := put(path, 0o644, Bytes([]byte("new"))); err != nil {
				t.Fatal(err)
			}
			untouched(t, secret)
		})
	}
}

// TestAnotherOwnersDirectory writes into a directory that somebody else owns, as
// one does who signs another's run: the new file is ours, and nothing else changes.
func TestAnotherOwnersDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir, secret := t.TempDir(), victim(t)
	path := filepath.Join(dir, "a.json")
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, dir} {
		if err := os.Chown(p, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := Replace(path, 0o644, Bytes([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	untouched(t, secret)
	info, err := os.Stat(path)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode() != 0o600 {
		t.Errorf("the new file: %v, %v", info, err)
	}
}

// TestForbiddenStaysForbidden replaces a file that its owner closed to others.
func TestForbiddenStaysForbidden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := errors.Join(os.WriteFile(path, nil, mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if err := Replace(path, 0o644, Bytes(nil)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("mode = %v, want %v (%v)", info.Mode(), mode, err)
		}
	}
}

func TestPutStaysBelowTheRoot(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "in"), 0o755), os.Symlink(t.TempDir(), filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, safe := range []Safety{Crash, Content, PowerCut} {
		if err := Put(root, "in/a", 0o644, safe, Bytes([]byte("x"))); err != nil {
			t.Errorf("inside: %v", err)
		}
		for _, name := range []string{"out/a", "../a", "/a", "", ".", "in/", "no/a"} {
			if err := Put(root, name, 0o644, safe, Bytes([]byte("x"))); err == nil {
				t.Errorf("%q was written", name)
			}
		}
	}
	if list, err := os.ReadDir(filepath.Join(dir, "in")); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func TestOpenFollowsNothing(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	if err := errors.Join(os.WriteFile(path("file"), []byte("x"), 0o644), os.Symlink("file", path("link")),
		os.Symlink("nowhere", path("dangling")), syscall.Mkfifo(path("pipe"), 0o600), os.Mkdir(path("dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_EXCL} {
		for _, name := range []string{"link", "dangling", "pipe", "dir"} {
			if f, err := Open(root, name, flag, 0o644); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s with %#x: %v, %v", name, flag, f, err)
			}
		}
	}
	if _, err := os.Lstat(path("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was made at the end of a link")
	}
	for _, name := range []string{"file", "new"} {
		f, err := Open(root, name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.Close()
	}
	if _, err := Open(root, "file", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a new file over an old one: %v", err)
	}
	if _, err := Open(root, "none", os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
}

// TestLockFollowsNothing: the lock's file is cut to nothing and written.
func TestLockFollowsNothing(t *testing.T) {
	secret := victim(t)
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.Symlink(secret, path); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrNotRegular) {
		t.Errorf("error = %v, want %v", err, ErrNotRegular)
	}
	untouched(t, secret)
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	opened := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	mine, other := opened(), opened()
	is := func(want bool, when string) {
		t.Helper()
		if got, err := Locked(other); got != want || err != nil {
			t.Errorf("%s: locked = %v, %v", when, got, err)
		}
	}
	is(false, "at first")
	if free, err := LockProbed(mine); !free || err != nil {
		t.Fatalf("lock: %v, %v", free, err)
	}
	is(true, "while it is held")
	if free, err := LockProbed(other); free || err != nil {
		t.Errorf("a second lock: %v, %v", free, err)
	}
	mine.Close()
	is(false, "after letting go")
	// Who looks keeps nobody out for long.
	again, looking := opened(), opened()
	if err := syscall.Flock(int(looking.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(probeTime/10, func() { looking.Close() })
	if free, err := LockProbed(again); !free || err != nil {
		t.Errorf("while another looked: %v, %v", free, err)
	}
}

func TestTidy(t *testing.T) {
	dir := t.TempDir()
	keep := []string{"a.json", ".a.json.tmp", "a.tmp", ".a.json.aaaaaaaaaaaaaaaaaaaaaaaaaa.tmp", "..tmp"}
	for _, n := range append([]string{tempName("a.json"), tempName("x")}, keep...) {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Tidy(dir); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != len(keep) {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestMkdirAll(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "c")
	for range 2 {
		if err := MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"f", "f/x"} {
		if err := MkdirAll(filepath.Join(top, d), 0o755); err == nil || errors.Is(err, ErrUnsynced) {
			t.Errorf("%s: %v", d, err)
		}
	}
}
