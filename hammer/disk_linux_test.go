package hammer

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay"
)

// A disk that fills up ends the run soon, and the error says so.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	c := short(engine(t, steady), "openai-chat")
	c.Load.Requests, c.Load.Duration = 0, assay.Duration(30*time.Second)
	start := time.Now()
	_, err := Run(t.Context(), c, filepath.Join(disk, "run"), Options{})
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("went on for %s with nowhere to record", took)
	}
}
