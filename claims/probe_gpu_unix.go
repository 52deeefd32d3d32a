//go:build unix

package claims

import (
	"os/exec"
	"syscall"
)

// gpuGroup puts the child into a process group of its own, so that what a driver
// starts can be ended with it.
func gpuGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGPUGroup(cmd *exec.Cmd) {
	// The group may be gone already; there is nothing else to do about it.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
