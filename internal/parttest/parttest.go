// Package parttest is what tests of several packages need of the parts around
// them: a C compiler, an OpenCL, a browser, and what they are read through.
package parttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Need ends a test for want of a part: it is skipped with the reason, or fails
// where ASSAY_PARTS=1 says that every part is there, as CI does.
func Need(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("ASSAY_PARTS") == "1" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

// Stub builds a shared library from C source in one of its faults, which is a
// word that the source looks for, and gives its path.
func Stub(tb testing.TB, source, fault string) string {
	tb.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		Need(tb, "no gcc")
	}
	lib := filepath.Join(tb.TempDir(), "lib"+strings.ToLower(fault)+".so")
	if out, err := exec.Command(gcc, "-O2", "-shared", "-fPIC", "-D"+fault, "-o", lib, source).CombinedOutput(); err != nil {
		tb.Fatalf("gcc: %v\n%s", err, out)
	}
	return lib
}

// MemoryDir is a directory of the test's own that takes no disk's time, where this
// machine has one.
func MemoryDir(tb testing.TB) string {
	tb.Helper()
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "assay-test-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Program writes a file that is to be run. No process is started meanwhile: one
// that is would hold the file open for writing for a moment, and running it would
// fail as "text file busy".
func Program(tb testing.TB, path string, content []byte) {
	tb.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil {
		tb.Fatal(err)
	}
}
