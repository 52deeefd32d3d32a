//go:build !linux

package host

import (
	"context"
	"runtime"

	"github.com/assay-bench/assay/claims"
)

func hostStart(string) func(context.Context, claims.Env) (claims.Runner, error) {
	return func(context.Context, claims.Env) (claims.Runner, error) {
		return nil, claims.Unavailablef("it is written for Linux, and this is %s", runtime.GOOS)
	}
}
