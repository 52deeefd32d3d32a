package parttest

import (
	"fmt"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of its own that holds that many bytes, so that a
// test can really fill it. It gives its directory, and how to make it larger.
func SmallDisk(tb testing.TB, bytes int) (dir string, grow func(bytes int)) {
	tb.Helper()
	dir = tb.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		tb.Skip("cannot mount a small file system, which needs root: " + err.Error())
	}
	tb.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			tb.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir, func(bytes int) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
			tb.Fatalf("make %s larger: %v", dir, err)
		}
	}
}
