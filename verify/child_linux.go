package verify

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the child into a process group of its own, so that what a driver
// starts can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) {
	// The group may be gone already; there is nothing else to do about it.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
