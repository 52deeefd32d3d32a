//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// Group puts a command that is not started yet into a process group of its own,
// so that what it starts can be ended with it.
func Group(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup ends a command that was started and its group, at once. A group that
// is gone already is no fault: there is nothing else to do about it.
func KillGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
