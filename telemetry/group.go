package telemetry

import (
	"os/exec"
	"time"

	"github.com/assay-bench/assay/internal/proc"
)

// ownGroup gives the command a process group of its own, which is ended as a
// whole when its context ends: what hangs is often a child of the child.
func ownGroup(cmd *exec.Cmd) {
	proc.Group(cmd)
	cmd.Cancel = func() error { proc.KillGroup(cmd); return nil }
	cmd.WaitDelay = time.Second
}
