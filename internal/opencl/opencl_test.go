package opencl

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// PoCL looks for its cache once, when it is loaded.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pocl")
	if err != nil {
		panic(err)
	}
	os.Setenv("POCL_CACHE_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// stub builds testdata/stub.c in one of its faults.
func stub(t *testing.T, fault string) string {
	t.Helper()
	return parttest.Stub(t, "testdata/stub.c", fault)
}

// pocl is a device of PoCL, through the library given.
func pocl(t *testing.T, libraries ...string) *Device {
	t.Helper()
	lib, err := Open(Options{Libraries: libraries})
	if err != nil {
		parttest.Need(t, err.Error())
	}
	devices, err := lib.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if strings.Contains(d.Platform, "Portable") {
			return d
		}
	}
	parttest.Need(t, "no PoCL among the OpenCL platforms")
	return nil
}

const source = `
__kernel void triple(__global uint *p, const uint add, const ulong wide) {
	p[get_global_id(0)] = 3 * p[get_global_id(0)] + add + (uint)(wide >> 32);
}`

func TestDeviceDescribesItself(t *testing.T) {
	d := pocl(t)
	if d.Type&TypeCPU == 0 || d.Type.String() != "CPU" {
		t.Errorf("type %v, want CPU", d.Type)
	}
	if d.Name == "" || d.DriverVersion == "" || d.ComputeUnits < 1 || d.MemoryBytes < 1<<20 || d.MaxAllocBytes < 1<<20 {
		t.Errorf("a device that says nothing of itself: %+v", d)
	}
}

func triple(t *testing.T, d *Device) {
	t.Helper()
	c, err := d.NewContext()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	p, err := c.Build(source, "")
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Kernel("triple")
	if err != nil {
		t.Fatal(err)
	}
	const n = 1024
	b, err := c.NewBuffer(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(buf[4*i:], uint32(i))
	}
	if err := b.Write(buf); err != nil {
		t.Fatal(err)
	}
	e, err := k.Launch([]int{n}, []int{64}, b, uint32(5), uint64(7)<<32)
	if err != nil {
		t.Fatal(err)
	}
	took, err := e.Wait()
	if err != nil || took <= 0 {
		t.Fatalf("the device's clock: %v, %v", took, err)
	}
	clear(buf)
	if err := b.Read(buf); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got, want := binary.LittleEndian.Uint32(buf[4*i:]), uint32(3*i+12); got != want {
			t.Fatalf("element %d is %d, want %d", i, got, want)
		}
	}
}

func TestKernelRuns(t *testing.T) { triple(t, pocl(t)) }

// A driver's own library exports no function of OpenCL by name.
func TestDriverWithoutLoader(t *testing.T) {
	const driver = "libpocl.so.2"
	if _, err := dlopen(driver); err != nil {
		parttest.Need(t, err.Error())
	}
	triple(t, pocl(t, driver))
}

func TestLibraryWithoutPlatformFallsThrough(t *testing.T) {
	for _, fault := range []string{"EMPTY", "NONE", "TRUNCATED"} {
		t.Run(fault, func(t *testing.T) {
			lib := stub(t, fault)
			_, err := Open(Options{Libraries: []string{lib}})
			if !errors.Is(err, ErrNoPlatform) || !strings.Contains(err.Error(), lib) {
				t.Errorf("error %v, want ErrNoPlatform that names the library", err)
			}
			next := stub(t, "REFUSE")
			l, err := Open(Options{Libraries: []string{filepath.Join(t.TempDir(), "absent.so"), lib, next}})
			if err != nil {
				t.Fatal(err)
			}
			if l.Path() != next {
				t.Errorf("took %s, want %s", l.Path(), next)
			}
			if len(l.platforms) != 1 || l.platforms[0].Name != "Stub" {
				t.Errorf("platforms %+v", l.platforms)
			}
		})
	}
}

func TestFaultyDevices(t *testing.T) {
	open := func(fault string) *Library {
		l, err := Open(Options{Libraries: []string{stub(t, fault)}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if d, err := open("NODEVICE").Devices(); len(d) != 0 || err != nil {
		t.Errorf("no device: %v, %v", d, err)
	}
	var e *Error
	if _, err := open("BROKEN").Devices(); !errors.As(err, &e) || !strings.Contains(err.Error(), "clGetDeviceIDs: CL_OUT_OF_HOST_MEMORY (-6)") {
		t.Errorf("a platform that does not answer: %v", err)
	}
	d, err := open("LIAR").Devices()
	if err != nil || len(d) != 1 || d[0].Name != "" || d[0].Type != TypeGPU {
		t.Errorf("a name of a terabyte: %+v, %v", d, err)
	}
	d, err = open("REFUSE").Devices()
	if err != nil || len(d) != 1 || d[0].Name != "Stub GPU" || d[0].MemoryBytes != 0 {
		t.Fatalf("devices %+v, %v", d, err)
	}
	if _, err := d[0].NewContext(); err == nil || !strings.Contains(err.Error(), "clCreateContext: CL_DEVICE_NOT_AVAILABLE (-2)") {
		t.Errorf("a device that refuses: %v", err)
	}
}

func TestErrorsSayWhat(t *testing.T) {
	c, err := pocl(t).NewContext()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Build("__kernel void broken( { nonsense", ""); err == nil || !strings.Contains(err.Error(), "CL_BUILD_PROGRAM_FAILURE") || len(err.Error()) < 60 {
		t.Errorf("a build that fails must carry the log: %v", err)
	}
	if _, err := c.Build("", ""); err == nil {
		t.Error("an empty source was built")
	}
	p, err := c.Build(source, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Kernel("absent"); err == nil || !strings.Contains(err.Error(), "CL_INVALID_KERNEL_NAME") {
		t.Errorf("a kernel that is not there: %v", err)
	}
	k, err := p.Kernel("triple")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.NewBuffer(64)
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]any{
		"wrong type": {b, "five", uint64(0)}, "wrong size": {b, uint64(5), uint64(0)}, "too many": {b, uint32(1), uint64(0), uint32(1)},
	} {
		if _, err := k.Launch([]int{4}, nil, args...); err == nil {
			t.Errorf("arguments that do not fit were taken: %s", name)
		}
	}
	if _, err := k.Launch(nil, nil, b, uint32(1), uint64(0)); err == nil {
		t.Error("a launch over nothing")
	}
	if err := b.Write(make([]byte, 65)); err == nil {
		t.Error("a write beyond the buffer")
	}
	if err := b.Read(make([]byte, 65)); err == nil {
		t.Error("a read beyond the buffer")
	}
	if _, err := c.NewBuffer(0); err == nil {
		t.Error("a buffer of nothing")
	}
	if _, err := c.NewBuffer(1 << 50); !IsOutOfMemory(err) {
		t.Errorf("a petabyte: %v, want out of memory", err)
	}
}
