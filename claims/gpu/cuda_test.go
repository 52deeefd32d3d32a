package gpu

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/parttest"
)

// onCUDA is a child without OpenCL and with a CUDA driver in one of its faults.
func onCUDA(t *testing.T, fault string) gpuSetup {
	t.Helper()
	lib := parttest.Stub(t, filepath.Join("..", "..", "internal", "cuda", "testdata", "stub.c"), fault)
	return gpuSetup{Native: Native{OpenCL: []string{"libabsent.so"}, CUDA: []string{lib}}}
}

func TestCopiesAndAllocationByCUDA(t *testing.T) {
	env := claims.Env{GPU: onCUDA(t, "NONE").command(t), Seed: 7, Deadline: 2 * time.Minute}
	for _, name := range []string{"memory_tiers/gpu_to_cpu_1mb", "kernel/gpu_allocation", pressureName} {
		t.Run(name, func(t *testing.T) {
			p := gpuProbe(t, name)
			if !strings.Contains(p.Needs, "NVIDIA's driver") {
				t.Errorf("it does not say that the driver is enough: %s", p.Needs)
			}
			r, err := p.Start(t.Context(), env)
			if err != nil {
				t.Fatal(err)
			}
			if d := r.(*gpuRunner).device; d.Backend != "cuda" || d.Name != "NVIDIA GeForce RTX 4090" {
				t.Errorf("device %+v", d)
			}
			for range 3 {
				m, err := r.Sample(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !(m.Value > 0) || m.Extra["bytes"] != 1<<20 || m.Extra["cuda"] != 1 || (name == pressureName) != (m.Batch == 1<<14) {
					t.Errorf("%+v", m)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := gpuProbe(t, "memory_tiers/gpu_to_cpu_1gb").Start(t.Context(), env); !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("more than the card has free: %v", err)
	}
}

// A bit that is stuck in the card's memory fails the probes that read it.
func TestWrongMemoryFailsByCUDA(t *testing.T) {
	env := claims.Env{GPU: onCUDA(t, "STUCK").command(t), Seed: 7, Deadline: 2 * time.Minute}
	for _, name := range []string{"memory_tiers/gpu_to_cpu_1mb", "kernel/gpu_allocation", pressureName} {
		r, err := gpuProbe(t, name).Start(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		wrong := false
		for range 20 { // the bit may be as it should, by chance
			if _, err = r.Sample(t.Context()); errors.Is(err, claims.ErrWrong) {
				wrong = true
				break
			}
		}
		if !wrong {
			t.Errorf("%s did not notice: %v", name, err)
		}
		_ = r.Close()
	}
}

// Votes and rewriting need OpenCL, and where only CUDA is there they say what to
// install; where nothing is there they name no package.
func TestOpenCLIsNamedWhereOnlyCUDAIsThere(t *testing.T) {
	with := onCUDA(t, "NONE").command(t)
	without := gpuSetup{Native: Native{OpenCL: []string{"libabsent.so"}, CUDA: []string{"libabsent.so"}}}
	for _, name := range []string{"consensus/single_vote", "synthesis/tree_rewriting", "synthesis/pattern_matching", "gpu/utilization"} {
		_, err := gpuProbe(t, name).Start(t.Context(), claims.Env{GPU: with, Deadline: 2 * time.Minute})
		if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "NVIDIA GeForce RTX 4090 is reached by the CUDA driver") || !strings.Contains(err.Error(), "nvidia-opencl-icd") {
			t.Errorf("%s: %v", name, err)
		}
		_, err = gpuProbe(t, name).Start(t.Context(), claims.Env{GPU: without.command(t), Deadline: 2 * time.Minute})
		if !errors.Is(err, claims.ErrUnavailable) || strings.Contains(err.Error(), "install") {
			t.Errorf("%s without a GPU: %v", name, err)
		}
	}
	if _, err := gpuProbe(t, "kernel/gpu_allocation").Start(t.Context(), claims.Env{GPU: without.command(t), Deadline: 2 * time.Minute}); !errors.Is(err, claims.ErrUnavailable) ||
		!strings.Contains(err.Error(), "and by CUDA") {
		t.Errorf("neither: %v", err)
	}
}
