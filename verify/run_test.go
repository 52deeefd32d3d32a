package verify

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"

	"github.com/assay-bench/assay/internal/parttest"
)

func TestWholeRunOnPoCL(t *testing.T) {
	var recorded []assay.Operation
	setup := pocl(t)
	setup.Chatter = "a driver says hello\n{\"and is\": \"json\"}\nand does not end its line"
	r, err := Run(t.Context(), Options{
		Child: setup.command(t), MinTime: 500 * time.Millisecond, Memory: true, MemoryBytes: 8 << 20,
		Record: func(op assay.Operation) { recorded = append(recorded, op) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		t.Logf("%-20s %-8v %s", c.Name, c.Verdict, c.Evidence)
		if (c.Proves != "") != (c.Verdict == assay.Pass) || (c.WouldProve != "") == (c.Proves != "") || c.DoesNotProve == "" || c.Evidence == "" || c.At == 0 || c.Device == "" {
			t.Errorf("a check that does not say what it means: %+v", c)
		}
	}
	verdict(t, r, "compute.golden", assay.Pass, golden[Size][:16])
	verdict(t, r, "compute.challenge", assay.Pass, "every row")
	verdict(t, r, "memory.pattern", assay.Pass, " 0 wrong words")
	verdict(t, r, "identity.catalogue", assay.Unknown, "does not know")
	speed := check(t, r, "compute.speed")
	for _, name := range []string{"device_flops", "wall_flops", "cpu_flops", "speedup", "device_seconds"} {
		if !(speed.Values[name] > 0) {
			t.Errorf("speed without %s: %+v", name, speed.Values)
		}
	}
	if s := speed.Values; !(s["wall_seconds"] >= 0.5 && s["device_seconds"] > 0 && s["device_seconds"] <= 1.05*s["wall_seconds"]) {
		t.Errorf("repeated for %g s, the device's events say %g s", s["wall_seconds"], s["device_seconds"])
	}
	if len(recorded) != 3 || len(r.Operations) != 3 || recorded[0].Action != "gpu_operation" || recorded[0].Component != "gpu_monitor" ||
		!strings.HasPrefix(recorded[0].Details, "Operation: matrix_multiply, Input Shape: [2000, 2000], Time: ") ||
		!strings.HasSuffix(recorded[0].Details, "ms, Device: OpenCL(0)") || recorded[2].Operation != "memory_check" {
		t.Errorf("operations %+v", recorded)
	}
	if len(r.Devices) != 1 || r.Devices[0].Type != "CPU" {
		t.Errorf("devices %+v", r.Devices)
	}
}

// One element that is off by the least that can be is caught by both means.
func TestWrongElementIsCaught(t *testing.T) {
	setup := pocl(t)
	setup.Replace = [2]string{
		"vstore16(s0, 0, c + row * n + col);",
		"if (row == 120 && col == 64) s0.s5 += 1.0f / 65536; vstore16(s0, 0, c + row * n + col);",
	}
	for name, s := range map[string]childSetup{"OpenCL": setup, "CUDA": cudaStub(t, "WRONG")} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), Options{Child: s.command(t), Size: 240, MinTime: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			verdict(t, r, "compute.golden", assay.Fail, "instead of "+golden[240][:16])
			verdict(t, r, "compute.challenge", assay.Fail, "is not the product's")
			verdict(t, r, "compute.speed", assay.Unknown, "the product was wrong")
		})
	}
}

func TestWrongMemoryIsCaught(t *testing.T) {
	setup := pocl(t)
	setup.Replace = [2]string{
		"words[i] = word(base + i, mode, arg);",
		"words[i] = word(base + i, mode, arg) | (base + i == 70000 ? 8 : 0);",
	}
	for name, c := range map[string]struct {
		setup childSetup
		says  string
	}{
		"a bit stuck at one, OpenCL": {setup, "byte 280000"},
		"a bit stuck at zero, CUDA":  {cudaStub(t, "STUCK"), "byte 4000"},
		"two chunks on one memory":   {cudaStub(t, "ALIAS"), "address in address, byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), Options{Child: c.setup.command(t), SkipCompute: true, Memory: true, MemoryBytes: 1 << 20, testChunk: 256 << 10})
			if err != nil {
				t.Fatal(err)
			}
			verdict(t, r, "memory.pattern", assay.Fail, c.says)
		})
	}
}

func TestCUDAThroughTheStub(t *testing.T) {
	r, err := Run(t.Context(), Options{Child: cudaStub(t, "NONE").command(t), Size: 240, MinTime: 50 * time.Millisecond, Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	verdict(t, r, "compute.golden", assay.Pass, "as it must be")
	verdict(t, r, "compute.challenge", assay.Pass, "every row")
	verdict(t, r, "memory.pattern", assay.Pass, "0.01 GiB in 35 passes")
	verdict(t, r, "identity.catalogue", assay.Pass, "figures are those of NVIDIA GeForce RTX 4090")
	if c := check(t, r, "compute.golden"); c.Device != "00112233445566778899aabbccddeeff" {
		t.Errorf("device %q", c.Device)
	}
	if op := r.Operations[0]; op.Device != "Cuda(0)" || op.Seconds <= 0 {
		t.Errorf("operation %+v", op)
	}
	// The stub computes on one core of the CPU: it cannot be twice as fast.
	verdict(t, r, "compute.speed", assay.Fail, "2 are needed")
}

func TestImpostor(t *testing.T) {
	r, err := Run(t.Context(), Options{Child: cudaStub(t, "IMPOSTOR").command(t), SkipCompute: true})
	if err != nil {
		t.Fatal(err)
	}
	verdict(t, r, "identity.catalogue", assay.Fail, "82 SMs by cuda, the catalogue has 128")
}

func TestDriverFaultsAreUnknown(t *testing.T) {
	for fault, says := range map[string]string{
		"LAUNCH": "CUDA_ERROR_LAUNCH_FAILED", "SMALL": "CUDA_ERROR_OUT_OF_MEMORY",
	} {
		r, err := Run(t.Context(), Options{Child: cudaStub(t, fault).command(t), Size: 240, MinTime: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		verdict(t, r, "compute.golden", assay.Unknown, says)
		verdict(t, r, "compute.challenge", assay.Unknown, says)
		verdict(t, r, "compute.speed", assay.Unknown, says)
		if len(r.Operations) == 0 || !strings.Contains(r.Operations[0].Error, says) {
			t.Errorf("operations %+v", r.Operations)
		}
	}
	r, err := Run(t.Context(), Options{Child: cudaStub(t, "CLOCK").command(t), Size: 240, MinTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	verdict(t, r, "compute.golden", assay.Pass, "")
	verdict(t, r, "compute.speed", assay.Unknown, "")
}

func TestCPUDeviceIsRefused(t *testing.T) {
	setup := pocl(t)
	setup.AllowCPU = false
	r, err := Run(t.Context(), Options{Child: setup.command(t), Size: 240})
	if !errors.Is(err, ErrCPUDevice) {
		t.Fatalf("error %v, want ErrCPUDevice", err)
	}
	verdict(t, r, "compute.device", assay.Fail, "the device is a CPU")
	if len(r.Operations) != 0 {
		t.Errorf("something ran on the CPU: %+v", r.Operations)
	}
}

// Where there is a GPU, a CPU beside it is not used and not refused.
func TestGPUBesideCPU(t *testing.T) {
	setup := pocl(t)
	setup.AllowCPU = false
	setup.CUDA = []string{stub(t, "cuda", "NONE")}
	r, err := Run(t.Context(), Options{Child: setup.command(t), Size: 240, MinTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Devices) != 1 || r.Devices[0].Backend != "cuda" {
		t.Errorf("devices %+v", r.Devices)
	}
	if _, err = Run(t.Context(), Options{Child: setup.command(t), Backend: "opencl"}); !errors.Is(err, ErrCPUDevice) {
		t.Errorf("OpenCL alone: %v, want ErrCPUDevice", err)
	}
}

func TestNoDevice(t *testing.T) {
	absent := []string{"libabsent.so"}
	for name, c := range map[string]struct {
		native Native
		o      Options
	}{
		"no library":            {Native{OpenCL: absent, CUDA: absent}, Options{}},
		"no platform":           {Native{OpenCL: []string{stub(t, "opencl", "EMPTY")}, CUDA: absent}, Options{}},
		"no device":             {Native{OpenCL: []string{stub(t, "opencl", "NODEVICE")}, CUDA: []string{stub(t, "cuda", "NODEVICE")}}, Options{}},
		"a function is missing": {Native{OpenCL: []string{stub(t, "opencl", "TRUNCATED")}, CUDA: []string{stub(t, "cuda", "MISSING")}}, Options{}},
		"no such device":        {Native{OpenCL: absent, CUDA: []string{stub(t, "cuda", "NONE")}}, Options{Devices: []int{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Child = childSetup{Native: c.native}.command(t)
			r, err := Run(t.Context(), c.o)
			if !errors.Is(err, ErrNoDevice) {
				t.Fatalf("error %v, want ErrNoDevice", err)
			}
			verdict(t, r, "compute.device", assay.Unknown, "no GPU found")
		})
	}
}

// libOpenCL without a platform falls through to the driver's own library.
func TestFallThroughToTheDriver(t *testing.T) {
	setup := pocl(t)
	setup.OpenCL = []string{stub(t, "opencl", "EMPTY"), "libpocl.so.2"}
	r, err := Run(t.Context(), Options{Child: setup.command(t), Size: 240, MinTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	verdict(t, r, "compute.golden", assay.Pass, "as it must be")
}

func TestHangingDriver(t *testing.T) {
	for name, setup := range map[string]childSetup{
		"OpenCL": {Native: Native{OpenCL: []string{stub(t, "opencl", "HANG")}}},
		"CUDA":   cudaStub(t, "HANG"),
	} {
		t.Run(name, func(t *testing.T) {
			// It hangs for ever, but must have had the time to come so far.
			var r Result
			for deadline := time.Second; len(r.Devices) == 0 && deadline < time.Minute; deadline *= 3 {
				var err error
				r, err = Run(t.Context(), Options{Child: setup.command(t), Deadline: deadline, Size: 240})
				if !errors.Is(err, ErrDeadline) {
					t.Fatalf("error %v, want ErrDeadline", err)
				}
				if name == "OpenCL" {
					return // it hangs before it names a device
				}
			}
			if name == "CUDA" { // it had named itself before it hung
				verdict(t, r, "compute.golden", assay.Unknown, ErrDeadline.Error())
				verdict(t, r, "identity.catalogue", assay.Pass, "")
			}
		})
	}
}

func TestCrashingDriver(t *testing.T) {
	r, err := Run(t.Context(), Options{Child: cudaStub(t, "CRASH").command(t), Size: 240})
	if !errors.Is(err, ErrDriver) || !strings.Contains(err.Error(), "the stub driver dies here") {
		t.Fatalf("error %v, want ErrDriver with what it said", err)
	}
	verdict(t, r, "compute.golden", assay.Unknown, "ended early")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Run(ctx, Options{Child: cudaStub(t, "HANG").command(t), Size: 240})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrDeadline) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestHostileChild(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		parttest.Need(t, "no sh")
	}
	dev := `{"device":{"backend":"cuda"}}`
	for name, script := range map[string]string{
		"nothing":           "exit 0",
		"an endless line":   "yes | tr -d '\\n'",
		"endless lines":     "yes {}",
		"unknown device":    `echo '{"product":{"n":240}}'`,
		"device twice":      "echo '" + dev + "'; echo '" + dev + "'",
		"product not whole": "echo '" + dev + `'; echo '{"product":{"n":240,"seed":1}}'`,
		"chunk outside":     "echo '" + dev + `'; echo '{"chunk":{"offset":99999999,"data":"AAAA"}}'`,
		"negative chunk":    "echo '" + dev + `'; echo '{"chunk":{"offset":-4,"data":"AAAA"}}'`,
		"unknown failure":   `echo '{"failure":{"code":"made up","text":"x"}}'`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), Options{Child: []string{sh, "-c", script}, Size: 240})
			if !errors.Is(err, ErrDriver) {
				t.Errorf("error %v, want ErrDriver", err)
			}
		})
	}
}

func TestRequestCannotAllowTheCPU(t *testing.T) {
	for _, line := range []string{
		`{"n":240,"AllowCPU":true}`, `{"n":240,"allow_cpu":true}`, `{"n":240,"native":{"AllowCPU":true}}`, `{"n":240,"OpenCL":["x"]}`,
		`{"n":4000}`, `{"n":-80}`, `{"n":241}`, `nonsense`, ``,
	} {
		var out bytes.Buffer
		if err := Serve(strings.NewReader(line+"\n"), &out, Native{OpenCL: []string{"libabsent.so"}, CUDA: []string{"libabsent.so"}}); err == nil {
			t.Errorf("request %q was taken: %s", line, out.String())
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no child": {}, "size": {Child: []string{"x"}, Size: 81}, "too large": {Child: []string{"x"}, Size: 4000},
		"share": {Child: []string{"x"}, MemoryShare: 2}, "no such program": {Child: []string{"/absent/program"}},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: options were taken", name)
		}
	}
}
