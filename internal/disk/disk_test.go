package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceKeepsTheOldOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, do := range []func(string, os.FileMode, func(io.Writer) error) error{Replace, Swap} {
		if err := do(path, 0o640, Bytes([]byte("one"))); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("interrupted")
		if err := do(path, 0o640, func(w io.Writer) error { _, _ = w.Write([]byte("tw")); return broken }); !errors.Is(err, broken) {
			t.Errorf("error = %v, want %v", err, broken)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "one" {
			t.Errorf("after an interrupted write the file is %q, %v", b, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
			t.Errorf("mode = %v, %v", info.Mode(), err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	if err := Replace(filepath.Join(dir, "no", "a"), 0o600, Bytes(nil)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	f.Close()
	g, err := Lock(path)
	if err != nil {
		t.Fatalf("after letting go: %v", err)
	}
	g.Close()
}

func TestCreateIsForNewFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new")
	broken := errors.New("interrupted")
	if err := Create(path, 0o600, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file was left: %v", err)
	}
	if err := Create(path, 0o600, Bytes([]byte("one"))); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, 0o600, Bytes([]byte("two"))); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file that is there: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// A directory in which nothing can be made: the error names the file that was asked
// for, not the one that would have been renamed to it.
func TestReplaceNamesTheFile(t *testing.T) {
	const path = "/proc/self/report.html" // also root can make none there
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		t.Skip("needs /proc")
	}
	err := Replace(path, 0o644, Bytes(nil))
	if err == nil || !strings.Contains(err.Error(), "write "+path+": no new file can be made") || strings.Contains(err.Error(), tempSuffix) {
		t.Errorf("%v", err)
	}
}
