package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/child/childtest"
	"github.com/assay-bench/assay/internal/opencl/opencltest"
	"github.com/assay-bench/assay/internal/parttest"
)

// gpuSetup is what a test's child does.
type gpuSetup struct {
	Native
	Replace opencltest.Fault // in the OpenCL source
	Chatter string           // written to standard output first, as drivers do
	Cache   string           // PoCL's
	// Patterns to match; 0: as many as the shipped program.
	Patterns int
}

func TestMain(m *testing.M) {
	childtest.Main(gpuSetup.serve)
	os.Exit(m.Run())
}

func (s gpuSetup) serve() error {
	if s.Cache != "" {
		os.Setenv("POCL_CACHE_DIR", s.Cache)
	}
	s.kernels, s.patterns = s.Replace.Kernels(), s.Patterns
	fmt.Print(s.Chatter)
	return Serve(os.Stdin, os.Stdout, s.Native)
}

func (s gpuSetup) command(t *testing.T) []string {
	t.Helper()
	return childtest.Command(t, s)
}

// onPoCL is a child that may compute on the CPU, by PoCL.
func onPoCL(t *testing.T) gpuSetup {
	t.Helper()
	opencltest.NeedPoCL(t)
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
