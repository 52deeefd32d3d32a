package gpu

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"

	"github.com/assay-bench/assay/internal/parttest"
)

// gpuSetup is what a test's child does. It comes by the command line of the test's
// own binary; the shipped program has nothing like it.
type gpuSetup struct {
	Native
	Replace [2]string // in the OpenCL source
	Chatter string    // written to standard output first, as drivers do
	Cache   string    // PoCL's
	// Patterns to match; 0: as many as the shipped program.
	Patterns int
}

const gpuChildArgument = "gpu-child"

// TestGPUChildProcess is no test: it is the child of the others.
func TestGPUChildProcess(t *testing.T) {
	if flag.NArg() != 2 || flag.Arg(0) != gpuChildArgument {
		t.Skip("only a child does this")
	}
	var s gpuSetup
	if err := json.Unmarshal([]byte(flag.Arg(1)), &s); err != nil {
		t.Fatal(err)
	}
	if s.Cache != "" {
		os.Setenv("POCL_CACHE_DIR", s.Cache)
	}
	if s.Replace[0] != "" {
		s.kernels = func(source string) string {
			if strings.Count(source, s.Replace[0]) != 1 {
				panic("the source has changed: " + s.Replace[0])
			}
			return strings.Replace(source, s.Replace[0], s.Replace[1], 1)
		}
	}
	s.patterns = s.Patterns
	fmt.Print(s.Chatter)
	if err := Serve(os.Stdin, os.Stdout, s.Native); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (s gpuSetup) command(t *testing.T) []string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return []string{os.Args[0], "-test.run=^TestGPUChildProcess$", "--", gpuChildArgument, string(b)}
}

// onPoCL is a child that may compute on the CPU, by PoCL.
func onPoCL(t *testing.T) gpuSetup {
	t.Helper()
	lib, err := opencl.Open(opencl.Options{})
	if err != nil {
		parttest.Need(t, err.Error())
	}
	devices, err := lib.Devices()
	if err != nil || slices.ContainsFunc(devices, func(d *opencl.Device) bool { return !strings.Contains(d.Platform, "Portable") }) {
		parttest.Need(t, "PoCL is not the one OpenCL platform")
	}
	return gpuSetup{Native: Native{AllowCPU: true}, Cache: t.TempDir(), Patterns: 20_000}
}

// gpuStub builds a driver of internal/opencl in one of its faults.
func gpuStub(t *testing.T, fault string) gpuSetup {
	t.Helper()
	lib := parttest.Stub(t, filepath.Join("..", "..", "internal", "opencl", "testdata", "stub.c"), fault)
	return gpuSetup{Native: Native{OpenCL: []string{lib}}}
}

func gpuProbe(t *testing.T, name string) claims.Probe {
	t.Helper()
	for _, p := range Probes() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no probe %s", name)
	return claims.Probe{}
}
