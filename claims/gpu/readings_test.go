package gpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// amdCard writes a card as AMD's driver shows it, under a root of its own.
func amdCard(t *testing.T, root, card, bus, busy string) (file string) {
	t.Helper()
	dir := filepath.Join(root, "class", "drm", card, "device")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"vendor": "0x1002", "device": "0x744c", "uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=" + bus, "gpu_busy_percent": busy,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "gpu_busy_percent")
}

func TestGPUReadings(t *testing.T) {
	root := t.TempDir()
	busy := amdCard(t, root, "card0", "0000:03:00.0", "97")
	env := claims.Env{GPU: onPoCL(t).command(t), SysRoot: root, Deadline: 2 * time.Minute}
	r, err := gpuProbe(t, "gpu/utilization").Start(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m, err := r.Sample(t.Context())
	for range 20 { // on a busy machine the reading comes after the load
		if !errors.Is(err, errReadLate) {
			break
		}
		m, err = r.Sample(t.Context())
	}
	if err != nil || m.Value != 0.97 {
		t.Errorf("utilization %+v, %v", m, err)
	}
	if took := time.Since(start); took < loadFor {
		t.Errorf("a sample under load took %v", took)
	}
	// A reading that goes away is absent, not 0.
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	if m, err := r.Sample(t.Context()); !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("without a reading: %+v, %v", m, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Sample(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that ended: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := gpuProbe(t, "gpu/utilization").Start(t.Context(), env); !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "does not give") {
		t.Errorf("a driver without the reading: %v", err)
	}
	if _, err := gpuProbe(t, "gpu/power").Start(t.Context(), claims.Env{GPU: env.GPU, SysRoot: t.TempDir(), Deadline: env.Deadline}); !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "no source of readings knows a GPU") {
		t.Errorf("no source: %v", err)
	}
}

// A reading under a load that computes wrongly is of no load that anybody wants.
func TestReadingUnderWrongLoad(t *testing.T) {
	root := t.TempDir()
	amdCard(t, root, "card0", "0000:03:00.0", "97")
	setup := onPoCL(t)
	setup.Replace = [2]string{"out[i] = first << 16 | fits;", "out[i] = fits;"}
	r, err := gpuProbe(t, "gpu/utilization").Start(t.Context(), claims.Env{GPU: setup.command(t), SysRoot: root, Deadline: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Sample(t.Context()); !errors.Is(err, claims.ErrWrong) {
		t.Errorf("error %v", err)
	}
}

func TestReadingDevice(t *testing.T) {
	two := []assay.GPU{
		{UUID: "GPU-00112233-4455-6677-8899-aabbccddeeff", PCIBusID: "00000000:01:00.0"},
		{UUID: "GPU-ff112233-4455-6677-8899-aabbccddeeff", PCIBusID: "00000000:C1:00.0"},
	}
	for name, c := range map[string]struct {
		works gpuIdentity
		gpus  []assay.GPU
		want  string
	}{
		"by UUID":              {gpuIdentity{UUID: "ff112233445566778899aabbccddeeff"}, two, two[1].UUID},
		"by bus":               {gpuIdentity{PCIBusID: "0000:c1:00.0"}, two, two[1].UUID},
		"UUID before bus":      {gpuIdentity{UUID: "ff112233445566778899aabbccddeeff", PCIBusID: "0000:01:00.0"}, two, two[1].UUID},
		"the only one":         {gpuIdentity{}, two[:1], two[0].UUID},
		"one of two, nameless": {gpuIdentity{}, two, ""},
		"none":                 {gpuIdentity{UUID: "ff112233445566778899aabbccddeeff"}, nil, ""},
	} {
		got, err := readingDevice(c.works, c.gpus)
		if got != c.want || (c.want == "") != errors.Is(err, claims.ErrUnavailable) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
