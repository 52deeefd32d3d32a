package telemetry

import (
	"os/exec"
	"time"
)

// ownGroup gives the command a process group of its own, which is ended as a
// whole when its context ends: what hangs is often a child of the child.
func ownGroup(cmd *exec.Cmd) {
	groupChild(cmd)
	cmd.Cancel = func() error { killChild(cmd); return nil }
	cmd.WaitDelay = time.Second
}
