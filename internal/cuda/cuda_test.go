package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// stub builds testdata/stub.c in one of its faults.
func stub(t *testing.T, fault string) string {
	t.Helper()
	return parttest.Stub(t, "testdata/stub.c", fault)
}

func device(t *testing.T, lib string) *Device {
	t.Helper()
	l, err := Open(Options{Libraries: []string{lib}})
	if err != nil {
		t.Fatal(err)
	}
	devices, err := l.Devices()
	if err != nil || len(devices) != 1 {
		t.Fatalf("devices %v, %v", devices, err)
	}
	return devices[0]
}

// wellUsed fails when the stub was called wrongly or something was not given
// back.
func wellUsed(t *testing.T, lib string) {
	t.Helper()
	handle, err := dlopen(lib)
	if err != nil {
		t.Fatal(err)
	}
	var alive func() int32
	var misuse func() string
	for name, fn := range map[string]any{"stub_alive": &alive, "stub_misuse": &misuse} {
		addr, err := dlsym(handle, name)
		if err != nil {
			t.Fatal(err)
		}
		register(fn, addr)
	}
	if n := alive(); n != 0 {
		t.Errorf("%d objects were not given back", n)
	}
	if s := misuse(); s != "" {
		t.Errorf("called wrongly: %s", s)
	}
}

func TestDeviceDescribesItself(t *testing.T) {
	d := device(t, stub(t, "NONE"))
	got := *d
	got.lib = nil
	want := Device{
		Name: "NVIDIA GeForce RTX 4090", UUID: "00112233445566778899aabbccddeeff", PCIBusID: "0000:3b:00.0",
		MemoryBytes: 24564 << 20, SMs: 128, ClockHz: 2.52e9, MemoryClockHz: 10.501e9, BusWidthBits: 384, Capability: "8.9",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if v := d.lib.Version(); v != "12.4" {
		t.Errorf("version %s", v)
	}
}

func TestMultiplyThroughTheDriver(t *testing.T) {
	lib := stub(t, "NONE")
	c, err := device(t, lib).NewContext(Kernels)
	if err != nil {
		t.Fatal(err)
	}
	const n = 80
	k, err := c.Kernel("multiply")
	if err != nil {
		t.Fatal(err)
	}
	var b [3]*Buffer
	for i := range b {
		if b[i], err = c.NewBuffer(4 * n * n); err != nil {
			t.Fatal(err)
		}
	}
	// twice the unit matrix times a count
	x, y := make([]byte, 4*n*n), make([]byte, 4*n*n)
	for i := range n {
		binary.LittleEndian.PutUint32(x[4*(i*n+i):], math.Float32bits(2))
	}
	for i := range n * n {
		binary.LittleEndian.PutUint32(y[4*i:], math.Float32bits(float32(i)))
	}
	if err := errors.Join(b[0].Write(x), b[1].Write(y)); err != nil {
		t.Fatal(err)
	}
	took, err := k.Run([2]int{1, 1}, [2]int{16, 16}, b[0], b[1], b[2], uint32(n))
	if err != nil || took <= 0 {
		t.Fatalf("%v, %v", took, err)
	}
	if err := b[2].Read(x); err != nil {
		t.Fatal(err)
	}
	for i := range n * n {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:])); got != float32(2*i) {
			t.Fatalf("element %d is %g", i, got)
		}
	}
	// The context stays on its thread while others take threads for themselves:
	// each of these takes the one on which it is started, if it is available.
	stop := make(chan struct{})
	defer close(stop)
	for range 16 {
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			<-stop
		}()
		<-started
		if err := c.Synchronize(); err != nil {
			t.Fatal(err)
		}
	}
	if free, total, err := c.Free(); err != nil || free == 0 || total < free {
		t.Errorf("free %d of %d: %v", free, total, err)
	}
	if _, err := k.Run([2]int{1, 1}, [2]int{16, 16}, b[0], "matrix"); err == nil {
		t.Error("an argument that is no argument was taken")
	}
	if _, err := c.Kernel("absent"); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_NOT_FOUND (500)") {
		t.Errorf("a kernel that is not there: %v", err)
	}
	if _, err := c.NewBuffer(2 << 30); !IsOutOfMemory(err) {
		t.Errorf("too much memory: %v", err)
	}
	if b[0].Write(make([]byte, 4*n*n+1)) == nil || b[0].Read(nil) == nil {
		t.Error("a copy that does not fit was done")
	}
	if err := b[0].Free(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wellUsed(t, lib)
}

func TestFaultsAreErrors(t *testing.T) {
	for fault, want := range map[string]string{"MISSING": "cuEventDestroy_v2", "INIT": "cuInit: CUDA_ERROR_UNKNOWN (999)"} {
		if _, err := Open(Options{Libraries: []string{stub(t, fault)}}); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fault, err)
		}
	}
	if _, err := Open(Options{Libraries: []string{"libabsent.so.7"}}); !errors.Is(err, ErrNoDriver) {
		t.Errorf("no library: %v", err)
	}
	l, err := Open(Options{Libraries: []string{"libabsent.so.7", stub(t, "NODEVICE")}})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Devices(); len(d) != 0 || err != nil {
		t.Errorf("no device: %v, %v", d, err)
	}
	lib := stub(t, "LAUNCH")
	d := device(t, lib)
	if _, err := d.NewContext("// not ours"); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_INVALID_PTX (218): line 1: not our text") {
		t.Errorf("a text that does not compile must carry the log: %v", err)
	}
	c, err := d.NewContext(Kernels)
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.Kernel("fill")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Run([2]int{1, 1}, [2]int{1, 1}); err == nil || !strings.Contains(err.Error(), "cuLaunchKernel fill: CUDA_ERROR_LAUNCH_FAILED (719)") {
		t.Errorf("a launch that fails: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wellUsed(t, lib)
}

// The text is assembled for every generation of cards by NVIDIA's assembler.
func TestKernelsAssemble(t *testing.T) {
	ptxas := os.Getenv("ASSAY_PTXAS")
	if ptxas == "" {
		parttest.Need(t, "ASSAY_PTXAS is not set: .ci/parts/ptxas prints the path")
	}
	file := filepath.Join(t.TempDir(), "kernels.ptx")
	if err := os.WriteFile(file, []byte(Kernels), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"} {
		out, err := exec.Command(ptxas, "-arch="+arch, "-v", file, "-o", filepath.Join(t.TempDir(), "out")).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", arch, err, out)
		}
		if n := strings.Count(string(out), " 0 bytes spill stores"); n != 3 {
			t.Errorf("%s: registers are spilled to memory\n%s", arch, out)
		}
	}
}
