// Package disktest has what tests of several packages do with files.
package disktest

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Inherit opens once more whatever this process has open of a file, as a child
// has it that is being started, and closes it at the end of the test. A lock that
// is only closed stays with it.
func Inherit(t *testing.T, path string) {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	inherited := 0
	for _, e := range list {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err != nil || to != path {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		child, err := syscall.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		inherited++
		t.Cleanup(func() { syscall.Close(child) }) //nolint:errcheck // nothing was written through it
	}
	if inherited == 0 {
		t.Fatalf("nobody has %s open", path)
	}
}
