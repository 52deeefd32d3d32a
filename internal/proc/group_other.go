//go:build !unix

package proc

import "os/exec"

const groupNote = "only the program itself is ended, not what it started"

func ownGroup(*exec.Cmd)   {}
func askGroup(c *exec.Cmd) { _ = c.Process.Kill() } // there is no polite way here
func endGroup(c *exec.Cmd) { _ = c.Process.Kill() }
