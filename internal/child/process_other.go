//go:build !linux

package child

import "os/exec"

// dieWithUs does nothing: only Linux has a signal for a parent's death.
func dieWithUs(*exec.Cmd) {}

func (p *Process) wait() {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.settle()
}
