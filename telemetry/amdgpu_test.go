package telemetry

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestAMDGPUTrees(t *testing.T) {
	files, err := filepath.Glob("testdata/amdgpu/*.txtar")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d trees, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			a, err := NewAMDGPU(t.Context(), AMDGPUOptions{SysRoot: tree(t, f)})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			b, err := json.MarshalIndent(a.GPUs(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(f, ".txtar")+".golden", string(b)+"\n"+lines(collect(t, a)))
		})
	}
}

func TestAMDGPUGarbageIsAbsent(t *testing.T) {
	a, err := NewAMDGPU(t.Context(), AMDGPUOptions{SysRoot: tree(t, "testdata/amdgpu/garbage.txtar")})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range collect(t, a) {
		if r.Name != assay.GPULost { // that it is there can be seen
			t.Errorf("%s %v", r.Name, *r.Value)
		}
	}
}

func TestAMDGPUWithoutCards(t *testing.T) {
	if _, err := NewAMDGPU(t.Context(), AMDGPUOptions{SysRoot: t.TempDir()}); !errors.Is(err, ErrNoCards) {
		t.Errorf("got %v", err)
	}
}

func TestAMDGPUGoesAway(t *testing.T) {
	root := tree(t, "testdata/amdgpu/mi300x.txtar")
	a, err := NewAMDGPU(t.Context(), AMDGPUOptions{SysRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, a)
	if err := os.RemoveAll(filepath.Join(root, "class/drm/card2")); err != nil {
		t.Fatal(err)
	}
	lost := map[string]bool{}
	for _, r := range collect(t, a) {
		if r.Name == assay.GPULost && *r.Value == 1 {
			lost[r.Device] = true
		} else if r.Device == "GPU-eef5a4b1c0de0002" {
			t.Errorf("a card that is gone says %s", r.Name)
		}
	}
	if len(lost) != 1 || !lost["GPU-eef5a4b1c0de0002"] {
		t.Errorf("lost: %v", lost)
	}
}

// A file whose reading hangs in the kernel, as those of a driver in trouble do.
func TestAMDGPUHangs(t *testing.T) {
	root := tree(t, "testdata/amdgpu/rx-7900-xtx.txtar")
	a, err := NewAMDGPU(t.Context(), AMDGPUOptions{SysRoot: root, Deadline: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(root, "class/drm/card0/device/gpu_busy_percent")
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(busy, 0o644); err != nil {
		t.Skipf("no file that hangs: %v", err)
	}
	// The first call is left to hang, and no second one is added to it.
	for _, says := range []string{"did not answer within", "still does not answer", "still does not answer"} {
		began := time.Now()
		err := a.Read(t.Context(), func(r assay.Reading) { t.Errorf("it gave %s", r.Name) })
		if err == nil || !strings.Contains(err.Error(), says) || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	}
	// It comes back: the one that hung is over, the next reads a number.
	w, err := os.OpenFile(busy, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(busy), os.WriteFile(busy, []byte("50\n"), 0o644), w.Close()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n := 0
		if err := a.Read(t.Context(), func(assay.Reading) { n++ }); err == nil && n > 0 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("it did not come back: %v", err)
		}
	}
}
