package child

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs lets the kernel kill the child when we are killed.
func dieWithUs(c *exec.Cmd) { c.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// wait returns when the process was reaped. Between its end and that, when
// nobody else can have its id, what is left of its group is killed.
func (p *Process) wait() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.settle()
	_ = p.cmd.Wait() // how it ended is in ProcessState
}
