// Package nvmltest gives tests an NVML without a GPU: the stub under
// internal/nvml/testdata, built by the C compiler of the machine and loaded
// through the same path as the driver's library. Nothing that is shipped
// imports it.
//
// The stub plays the scenario that the environment variable [Variable] names.
// Its format is described at the head of the stub's source.
package nvmltest

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// Variable is read by the stub alone.
const Variable = "ASSAY_STUB_NVML"

// Variant is one build of the stub.
type Variant string

// The builds: a driver of today; one of 2018, without the newer symbols; one
// that can only name its GPUs.
const (
	Today Variant = ""
	Old   Variant = "OLD_DRIVER"
	Bare  Variant = "BARE"
)

// Build gives the directory that holds libnvidia-ml.so.1. Without a C compiler
// the test is skipped; with ASSAY_PARTS=1, by which CI says that every part is
// there, it fails.
func Build(tb testing.TB) string { return BuildVariant(tb, Today) }

// Library is the path of the library itself.
func Library(tb testing.TB, v Variant) string {
	return filepath.Join(BuildVariant(tb, v), "libnvidia-ml.so.1")
}

// BuildVariant is Build for another variant. What was built stays in the
// system's directory for temporary files, under a name made from its source, so
// that the test binaries of several packages share it.
func BuildVariant(tb testing.TB, v Variant) string {
	tb.Helper()
	source := filepath.Join(testdata(tb), "stub", "nvml.c")
	text, err := os.ReadFile(source)
	if err != nil {
		tb.Fatalf("the stub's source: %v", err)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("assay-stub-nvml-%d-%x", os.Getuid(), sha256.Sum256(append(text, v...)))[:56])
	lib := filepath.Join(dir, "libnvidia-ml.so.1")
	if _, err := os.Stat(lib); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	// Another test may be building the same: each writes its own file, and the
	// last to rename wins.
	own := fmt.Sprintf("%s.%d-%x", lib, os.Getpid(), rand.Uint64())
	cc := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", own, source)
	if v != Today {
		cc.Args = append(cc.Args, "-D"+string(v))
	}
	if cc.Err != nil {
		parttest.Need(tb, fmt.Sprintf("the stub NVML needs a C compiler: %v", cc.Err))
	}
	if out, err := cc.CombinedOutput(); err != nil {
		tb.Fatalf("building the stub NVML: %v\n%s", err, out)
	}
	if err := os.Rename(own, lib); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Scenario gives the path of a copy of a scenario with lines put at its end,
// which win over those before: "scale 10", "epoch_unix_ms …".
func Scenario(tb testing.TB, name string, more ...string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(testdata(tb), "scenarios", name+".scenario"))
	if err != nil {
		tb.Fatal(err)
	}
	return Write(tb, string(text)+"\n"+strings.Join(more, "\n")+"\n")
}

// Write gives the path of a file with a scenario of the test's own.
func Write(tb testing.TB, scenario string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "scenario")
	if err := os.WriteFile(path, []byte(scenario), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// testdata finds internal/nvml/testdata from wherever in the module the test
// runs: tests run in the directory of their package.
func testdata(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "internal", "nvml", "testdata")
		}
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatal("no go.mod above the test's directory")
		}
		dir = up
	}
}
