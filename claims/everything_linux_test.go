package claims

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/simulate"
)

var updateProbes = flag.Bool("update-probes", false, "write the golden list of probes")

// Every probe runs once here, with OpenCL on the processor, except those that
// need a module, a container runtime or a real GPU. Which are which is golden:
// one that stops running shows here.
func TestRealEveryProbe(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the golden list is root's: some probes of namespaces need it")
	}
	if !onDisk(t, t.TempDir()) {
		t.Skip("the directory for temporary files is not on a disk, and some probes need one")
	}
	env := Env{
		Dir: t.TempDir(), GPU: onPoCL(t).command(t), Agent: []string{"/bin/echo", "ready"},
		EngineURL: simulated(t, simulate.DefaultConfig()), Seed: 1,
	}
	var got []string
	for _, p := range slices.Concat(HostProbes(), GPUProbes(), InferenceProbes(), []Probe{EmptyProbe()}) {
		status := once(t, p, env)
		switch {
		case strings.HasPrefix(p.Name, "spawn/container_"):
			status = "as the runtime is there or not"
		case strings.HasPrefix(p.Name, "inference/") && status != "failed":
			status = "runs where the client has processor time"
		}
		got = append(got, p.Name+": "+status)
	}
	slices.Sort(got)
	text := strings.Join(got, "\n") + "\n"
	const golden = "testdata/probes.golden"
	if *updateProbes {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("which probes run has changed; -update-probes writes the list again. Now:\n%s", text)
	}
}

// once makes a probe ready and takes one sample.
func once(t *testing.T, p Probe, env Env) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := p.Start(ctx, env)
	if errors.Is(err, ErrUnavailable) {
		t.Logf("%s: %v", p.Name, err)
		return "unavailable"
	}
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
		return "failed"
	}
	defer r.Close()
	m, err := r.Sample(ctx)
	for range 4 { // a machine that is busy makes an invalid client
		if !errors.Is(err, ErrUnavailable) {
			break
		}
		m, err = r.Sample(ctx)
	}
	if errors.Is(err, ErrUnavailable) {
		t.Logf("%s: %v", p.Name, err)
		return "unavailable"
	}
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
		return "failed"
	}
	if !(m.Value >= 0) {
		t.Errorf("%s: %g %s", p.Name, m.Value, p.Unit)
	}
	return "runs"
}
