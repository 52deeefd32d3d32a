//go:build !unix

package proc

import "os/exec"

const groupNote = "only the program itself is ended, not what it started"

// Group is for systems with process groups; here it does nothing.
func Group(*exec.Cmd) {}

// KillGroup ends a command that was started. What it started goes on.
func KillGroup(c *exec.Cmd) { _ = c.Process.Kill() }

func askGroup(c *exec.Cmd) { _ = c.Process.Kill() } // there is no polite way here
