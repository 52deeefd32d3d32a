package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/opencl"
	"github.com/assay-bench/assay/internal/parttest"
)

// childSetup is what a test's child does. It comes by the command line of the
// test's own binary; the shipped program has nothing like it.
type childSetup struct {
	Native
	Replace [2]string // in the OpenCL source
	Chatter string    // written to standard output first, as drivers do
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		os.Exit(serveChild(os.Args[2]))
	}
	dir, err := os.MkdirTemp("", "pocl")
	if err != nil {
		panic(err)
	}
	os.Setenv("POCL_CACHE_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func serveChild(setup string) int {
	var s childSetup
	if err := json.Unmarshal([]byte(setup), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if s.Replace[0] != "" {
		s.kernels = func(source string) string {
			if strings.Count(source, s.Replace[0]) != 1 {
				panic("the source has changed: " + s.Replace[0])
			}
			return strings.Replace(source, s.Replace[0], s.Replace[1], 1)
		}
	}
	fmt.Print(s.Chatter)
	if err := Serve(os.Stdin, os.Stdout, s.Native); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (s childSetup) command(t *testing.T) []string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return []string{os.Args[0], "child", string(b)}
}

// stub builds a driver of internal/opencl or internal/cuda in one of its faults.
func stub(t *testing.T, api, fault string) string {
	t.Helper()
	return parttest.Stub(t, filepath.Join("..", "internal", api, "testdata", "stub.c"), fault)
}

// pocl is a child that may compute on the CPU, by PoCL.
func pocl(t *testing.T) childSetup {
	t.Helper()
	lib, err := opencl.Open(opencl.Options{})
	if err != nil {
		parttest.Need(t, err.Error())
	}
	devices, err := lib.Devices()
	if err != nil || slices.ContainsFunc(devices, func(d *opencl.Device) bool { return !strings.Contains(d.Platform, "Portable") }) {
		parttest.Need(t, "PoCL is not the one OpenCL platform")
	}
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
