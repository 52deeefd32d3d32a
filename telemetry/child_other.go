//go:build !unix

package telemetry

import "os/exec"

func groupChild(*exec.Cmd) {}

func killChild(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
