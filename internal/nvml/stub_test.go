package nvml

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/internal/nvml/nvmltest"
)

// openStub loads the stub into this process. It parses its scenario once, so
// only one test here can have one; what needs others runs in children, in
// telemetry's tests.
func openStub(t *testing.T) *Library {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the stub is built for Linux")
	}
	t.Setenv(nvmltest.Variable, nvmltest.Scenario(t, "foreign_pids"))
	l, err := Open(nvmltest.Library(t, nvmltest.Today))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestStub(t *testing.T) {
	l := openStub(t)
	if len(l.Devices()) != 1 || len(l.Lost()) != 0 {
		t.Fatalf("devices %v, lost %v", l.Devices(), l.Lost())
	}
	d := l.Devices()[0]
	t.Run("identity", func(t *testing.T) {
		id, r := d.Identity()
		if r != Success {
			t.Fatal(r)
		}
		want := Identity{
			UUID: "GPU-57ab0000-0000-4000-8000-000000000000", Name: "NVIDIA H100 80GB HBM3", Serial: "1652023000000", VBIOS: "96.00.74.00.01",
			BoardPart: "692-2G520-0200-000", PCIBusID: "0000:1b:00.0", PCIDevice: 0x233010de, MemoryBytes: 85520e6, BusWidthBits: 5120, Cores: 16896,
			ComputeCapability: "9.0", SMCount: 132, MaxSMClockHz: 1980e6, MaxMemoryClockHz: 2619e6, PowerLimitWatts: 700,
			Driver: "580.82.07", CUDA: "13.0", MIG: "disabled", VGPU: "none", ECC: "enabled",
		}
		if diff := cmp.Diff(want, id); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("processes", func(t *testing.T) {
		list, n, r := d.Processes(nil)
		if diff := cmp.Diff([]Process{{3141592, 59e9}, {3141600, 7e8}}, list); diff != "" || n != 2 || r != Success {
			t.Errorf("%d %v %s", n, r, diff)
		}
	})
	t.Run("events", func(t *testing.T) {
		e, err := l.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if x, r := e.Next(); r != Timeout {
			t.Errorf("%v %v", x, r)
		}
	})
	t.Run("a sample allocates next to nothing", func(t *testing.T) {
		processes := make([]Process, 0, 16)
		n := testing.AllocsPerRun(100, func() {
			_, _, a := d.Power()
			_, b := d.Energy()
			_, _, c := d.Utilization()
			_, m := d.Memory()
			_, e := d.Temperature()
			_, f := d.Clock(SM)
			_, g := d.ClockReasons()
			_, h := d.ThrottleTimes()
			_, _, i := d.ECC()
			processes, _, _ = d.Processes(processes)
			for _, r := range []Return{a, b, c, m, e, f, g, h, i} {
				if r != Success {
					t.Error(r)
				}
			}
		})
		if n > 6 { // none, but that the race detector makes pools forget
			t.Errorf("%v allocations", n)
		}
	})
}
