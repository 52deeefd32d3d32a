package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child/childtest"
	"github.com/assay-bench/assay/internal/opencl/opencltest"
	"github.com/assay-bench/assay/internal/parttest"
)

// childSetup is what a test's child does.
type childSetup struct {
	Native
	Replace opencltest.Fault // in the OpenCL source
	Chatter string           // written to standard output first, as drivers do
}

func TestMain(m *testing.M) {
	childtest.Main(childSetup.serve)
	dir, err := os.MkdirTemp("", "pocl")
	if err != nil {
		panic(err)
	}
	os.Setenv("POCL_CACHE_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func (s childSetup) serve() error {
	s.kernels = s.Replace.Kernels()
	fmt.Print(s.Chatter)
	return Serve(os.Stdin, os.Stdout, s.Native)
}

func (s childSetup) command(t *testing.T) []string {
	t.Helper()
	return childtest.Command(t, s)
}

// stub builds a driver of internal/opencl or internal/cuda in one of its faults.
func stub(t *testing.T, api, fault string) string {
	t.Helper()
	return parttest.Stub(t, filepath.Join("..", "internal", api, "testdata", "stub.c"), fault)
}

// pocl is a child that may compute on the CPU, by PoCL.
func pocl(t *testing.T) childSetup {
	t.Helper()
	opencltest.NeedPoCL(t)
	return childSetup{Native: Native{AllowCPU: true, CUDA: []string{"libabsent.so"}}}
}

func cudaStub(t *testing.T, fault string) childSetup {
	return childSetup{Native: Native{OpenCL: []string{"libabsent.so"}, CUDA: []string{stub(t, "cuda", fault)}}}
}

func check(t *testing.T, r Result, name string) assay.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s among %+v", name, r.Checks)
	return assay.Check{}
}

func verdict(t *testing.T, r Result, name string, want assay.Verdict, says string) {
	t.Helper()
	c := check(t, r, name)
	if c.Verdict != want || !strings.Contains(c.Evidence, says) {
		t.Errorf("%s is %v (%s), want %v and %q", name, c.Verdict, c.Evidence, want, says)
	}
}
