//go:build !linux

package host

import (
	"context"
	"os/exec"
	"runtime"
	"time"

	"github.com/assay-bench/assay/claims"
)

func hostStart(string) func(context.Context, claims.Env) (claims.Runner, error) {
	return func(context.Context, claims.Env) (claims.Runner, error) {
		return nil, claims.Unavailablef("it is written for Linux, and this is %s", runtime.GOOS)
	}
}

// runGroup runs a command until its end or ctx's. Only the command itself is
// ended: groups are killed on Linux only.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	return cmd.Wait()
}
