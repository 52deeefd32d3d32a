// Package gpu has the probes that need a GPU, and the child process that does
// their work: a driver that hangs or crashes takes the child with it, not us.
package gpu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// ErrNoAnswer says that the child which runs the GPU probes did not answer in time
// and was killed. Nothing is known of the probe then; the driver should be looked at.
var ErrNoAnswer = errors.New("no answer from the GPU's driver")

// Probes are the probes that need a GPU. All of them but gpu/… do their work in
// a child (claims.Env.GPU) by OpenCL, those of memory also by CUDA, and check each sample against a reference on the CPU.
func Probes() []claims.Probe {
	const needs, memoryNeeds = "a GPU with OpenCL", "a GPU with OpenCL, or NVIDIA's driver"
	seconds := func(name, help string) claims.Probe {
		return claims.Probe{Name: name, Help: help, Needs: needs, Unit: "s", Better: assay.Lower, Start: startGPU(name, 0)}
	}
	probes := []claims.Probe{
		seconds("consensus/single_vote", "one vote goes to the GPU, its 64-bit code (SipHash-2-4) is verified and it is counted into a tally that stays there; the new count comes back"),
		seconds("consensus/batch_100", "100 votes of 100 voters are verified and tallied on the GPU; the outcome and a verdict on each vote come back"),
		seconds("consensus/byzantine_100", "100 votes of which 33 are malicious (forged, replayed, two-faced): each must be found, and the honest 67 must reach the quorum"),
		{
			Name: "synthesis/pattern_matching", Needs: needs, Unit: "1/s", Better: assay.Higher, Start: startGPU("synthesis/pattern_matching", 0),
			Help: "1,000,000 patterns with wildcards are compared with each of 64 positions of a text; an operation is one symbol looked at, counted by the kernel",
		},
		seconds("synthesis/template_expansion", "10,000 templates of 16 tokens are expanded with 64 new bindings; the text comes back"),
		seconds("synthesis/tree_rewriting", "16,384 expression trees of 31 nodes are simplified by algebraic rules and come back"),
	}
	for _, c := range gpuCopies() {
		p := seconds(c.name, fmt.Sprintf("%d MiB of device memory, written by a kernel before, are copied to pageable memory of the host", c.bytes>>20))
		p.Needs = memoryNeeds
		p.Start = startGPU(c.name, 5*uint64(c.bytes)/2)
		probes = append(probes, p)
	}
	under := seconds(pressureName, "A kernel overwrites device memory line by line (64 bytes) in order; the time of one line, as the mean of a pass over a quarter of the memory, 1 GiB at most")
	allocated := seconds("kernel/gpu_allocation", "1 MiB of device memory is allocated and each of its pages written by a kernel: drivers put an allocation off until it is used")
	under.Needs, allocated.Needs = memoryNeeds, memoryNeeds
	probes = append(probes, under, allocated)
	return append(probes, readingProbes()...)
}

// startGPU starts the child with the probe. host is the memory that it takes on the
// host's side, for probes where that is much.
func startGPU(name string, host uint64) func(context.Context, claims.Env) (claims.Runner, error) {
	return func(ctx context.Context, env claims.Env) (claims.Runner, error) {
		if host > 64<<20 {
			// A machine without the memory would kill something else before it.
			if free, ok := memoryAvailable(env.ProcRoot); ok && free < host {
				return nil, fmt.Errorf("%w: it needs %d MiB of memory on the host, and %d MiB are available", claims.ErrUnavailable, host>>20, free>>20)
			}
		}
		return openGPUChild(ctx, env, name)
	}
}

// memoryAvailable is what the kernel says is available without swapping.
func memoryAvailable(procRoot string) (uint64, bool) {
	if procRoot == "" {
		procRoot = "/proc"
	}
	b, err := os.ReadFile(filepath.Join(procRoot, "meminfo"))
	if err != nil {
		return 0, false
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 50)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// gpuRunner asks the child for one sample after the other.
type gpuRunner struct {
	child   *gpuChild
	device  gpuIdentity
	samples uint64
}

func openGPUChild(ctx context.Context, env claims.Env, probe string) (*gpuRunner, error) {
	if len(env.GPU) == 0 {
		return nil, fmt.Errorf("%w: no child for GPU probes was given", claims.ErrUnavailable)
	}
	c, err := startGPUChild(env.GPU, env.Timeout())
	if err != nil {
		return nil, fmt.Errorf("%w: start the child: %w", claims.ErrUnavailable, err)
	}
	a, err := c.ask(ctx, gpuRequest{Probe: probe, Seed: env.Seed})
	if err == nil && a.Device == nil {
		err = errors.New("the child named no device")
	}
	if err != nil {
		c.end()
		if ctx.Err() == nil && !errors.Is(err, claims.ErrUnavailable) && !errors.Is(err, claims.ErrWrong) {
			err = fmt.Errorf("%w: %w", claims.ErrUnavailable, err)
		}
		return nil, err
	}
	return &gpuRunner{child: c, device: *a.Device}, nil
}

func (r *gpuRunner) Sample(ctx context.Context) (claims.Measurement, error) {
	r.samples++
	a, err := r.child.ask(ctx, gpuRequest{Sample: r.samples})
	if err != nil {
		return claims.Measurement{}, err
	}
	if !(a.Value > 0) || math.IsInf(a.Value, 0) {
		return claims.Measurement{}, fmt.Errorf("the child gave the value %g", a.Value)
	}
	if a.Batch < 0 || a.Batch > maxGPUBatch {
		return claims.Measurement{}, fmt.Errorf("the child gave a batch of %d", a.Batch)
	}
	return claims.Measurement{Value: a.Value, Batch: a.Batch, Extra: a.Extra}, nil
}

func (r *gpuRunner) Close() error {
	r.child.end()
	return nil
}
