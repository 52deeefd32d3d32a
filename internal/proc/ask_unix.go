//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

const groupNote = "only the process group is ended: what leaves it is not found"

func askGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
