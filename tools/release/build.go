package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is a system to build for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// known are the systems that the programs are known to compile for.
var known = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

func parseTarget(name string) (target, error) {
	system, arch, _ := strings.Cut(name, "/")
	if t := (target{system, arch}); slices.Contains(known, t) {
		return t, nil
	}
	return target{}, fmt.Errorf("-targets: %q is none of %v", name, known)
}

// programs are what is built, by the directory below cmd.
var programs = []string{"assay", "assay-node"}

// build compiles a program of an exported tree. What the machine's settings could
// change in the result is set.
func build(ctx context.Context, c commit, tree, cache, program string, t target) ([]byte, error) {
	out := filepath.Join(tree, ".built", t.os, t.arch, program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X github.com/assay-bench/assay/cmd/internal/cli.Release="+c.version,
		"-o", out, "./cmd/"+program)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GOEXPERIMENT=", "GODEBUG=",
		"CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0")
	if cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+cache)
	}
	if _, err := cmd.Output(); err != nil {
		return nil, failed(cmd, err)
	}
	return os.ReadFile(out)
}
