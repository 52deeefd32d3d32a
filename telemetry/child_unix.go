//go:build unix

package telemetry

import (
	"os/exec"
	"syscall"
)

// groupChild puts a command into a process group of its own, which can be killed
// as a whole.
func groupChild(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killChild(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
