package cuda

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/assay-bench/assay/internal/foreign"
)

const (
	maxDevices = 256     // bounds what a driver may claim
	maxText    = 256     // bytes of a name, as shown
	maxLog     = 8 << 10 // bytes of a compiler's log
)

type handle = uintptr

// api is the part of the driver that is used. Names with _v2 are the 64-bit
// forms that the driver has had since CUDA 3.2, except where noted.
type api struct {
	init             func(uint32) int32
	driverGetVersion func(*int32) int32
	deviceGetCount   func(*int32) int32
	deviceGet        func(*int32, int32) int32
	deviceGetName    func(*byte, int32, int32) int32
	deviceGetUUID    func(*[16]byte, int32) int32
	deviceGetBusID   func(*byte, int32, int32) int32
	deviceTotalMem   func(*uintptr, int32) int32
	deviceAttribute  func(*int32, int32, int32) int32
	ctxCreate        func(*handle, uint32, int32) int32
	ctxDestroy       func(handle) int32
	ctxSynchronize   func() int32
	moduleLoad       func(*handle, *byte, uint32, *int32, *uintptr) int32
	moduleUnload     func(handle) int32
	moduleFunction   func(*handle, handle, string) int32
	memAlloc         func(*handle, uintptr) int32
	memFree          func(handle) int32
	memGetInfo       func(*uintptr, *uintptr) int32
	memcpyHtoD       func(handle, *byte, uintptr) int32
	memcpyDtoH       func(*byte, handle, uintptr) int32
	launchKernel     func(fn handle, gx, gy, gz, bx, by, bz, shared uint32, stream handle, args *unsafe.Pointer, extra uintptr) int32
	eventCreate      func(*handle, uint32) int32
	eventRecord      func(handle, handle) int32
	eventSynchronize func(handle) int32
	eventElapsed     func(*float32, handle, handle) int32
	eventDestroy     func(handle) int32
}

func (a *api) load(lib uintptr) error {
	for _, e := range []struct {
		name string
		fn   any
	}{
		{"cuInit", &a.init}, {"cuDriverGetVersion", &a.driverGetVersion},
		{"cuDeviceGetCount", &a.deviceGetCount}, {"cuDeviceGet", &a.deviceGet},
		{"cuDeviceGetName", &a.deviceGetName}, {"cuDeviceGetUuid", &a.deviceGetUUID},
		{"cuDeviceGetPCIBusId", &a.deviceGetBusID}, {"cuDeviceTotalMem_v2", &a.deviceTotalMem},
		{"cuDeviceGetAttribute", &a.deviceAttribute},
		{"cuCtxCreate_v2", &a.ctxCreate}, {"cuCtxDestroy_v2", &a.ctxDestroy}, {"cuCtxSynchronize", &a.ctxSynchronize},
		{"cuModuleLoadDataEx", &a.moduleLoad}, {"cuModuleUnload", &a.moduleUnload}, {"cuModuleGetFunction", &a.moduleFunction},
		{"cuMemAlloc_v2", &a.memAlloc}, {"cuMemFree_v2", &a.memFree}, {"cuMemGetInfo_v2", &a.memGetInfo},
		{"cuMemcpyHtoD_v2", &a.memcpyHtoD}, {"cuMemcpyDtoH_v2", &a.memcpyDtoH}, {"cuLaunchKernel", &a.launchKernel},
		{"cuEventCreate", &a.eventCreate}, {"cuEventRecord", &a.eventRecord}, {"cuEventSynchronize", &a.eventSynchronize},
		{"cuEventElapsedTime", &a.eventElapsed}, {"cuEventDestroy_v2", &a.eventDestroy},
	} {
		addr, err := dlsym(lib, e.name)
		if err != nil {
			return fmt.Errorf("function %s: %w", e.name, err)
		}
		register(e.fn, addr)
	}
	return nil
}

// Options says where the driver is.
type Options struct {
	// Libraries are tried in order; nil is libcuda.so.1.
	Libraries []string
}

// Library is the loaded and initialised driver.
type Library struct {
	api     api
	version int32
}

// Open loads the driver. The error is ErrNoDriver with each library's reason.
func Open(o Options) (*Library, error) {
	paths := o.Libraries
	if paths == nil {
		paths = []string{"libcuda.so.1"}
	}
	why := []error{ErrNoDriver}
	for _, path := range paths {
		l, err := open(path)
		if err == nil {
			return l, nil
		}
		why = append(why, fmt.Errorf("%s: %w", path, err))
	}
	return nil, errors.Join(why...)
}

func open(path string) (*Library, error) {
	lib, err := dlopen(path)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	l := &Library{}
	if err := l.api.load(lib); err != nil {
		return nil, err
	}
	if err := check("cuInit", l.api.init(0)); err != nil {
		return nil, err
	}
	if err := check("cuDriverGetVersion", l.api.driverGetVersion(&l.version)); err != nil {
		return nil, err
	}
	return l, nil
}

// Version is the CUDA version that the driver supports, for example 12.4.
func (l *Library) Version() string {
	return fmt.Sprintf("%d.%d", l.version/1000, l.version%1000/10)
}

// Device is what the driver says of a GPU. A value that it did not give is zero.
type Device struct {
	Name          string
	UUID          string // hexadecimal, without dashes
	PCIBusID      string
	MemoryBytes   uint64
	SMs           int
	ClockHz       float64 // the rated boost clock, not the highest that NVML allows
	MemoryClockHz float64
	BusWidthBits  int
	Capability    string // compute capability, for example 8.9
	Integrated    bool   // shares the host's memory
	ECC           bool

	lib *Library
	id  int32
}

// Devices are the GPUs that the driver shows to this process.
func (l *Library) Devices() ([]*Device, error) {
	var n int32
	switch code := l.api.deviceGetCount(&n); {
	case code == noDevice:
		return nil, nil
	case code != 0:
		return nil, check("cuDeviceGetCount", code)
	}
	var all []*Device
	for i := range min(max(n, 0), maxDevices) {
		d := &Device{lib: l}
		if err := check("cuDeviceGet", l.api.deviceGet(&d.id, i)); err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		d.describe()
		all = append(all, d)
	}
	return all, nil
}

func (d *Device) describe() {
	a := &d.lib.api
	var buf [256]byte
	if a.deviceGetName(&buf[0], int32(len(buf)-1), d.id) == 0 {
		d.Name = foreign.Native(buf[:], maxText)
	}
	buf = [256]byte{}
	if a.deviceGetBusID(&buf[0], int32(len(buf)-1), d.id) == 0 {
		d.PCIBusID = strings.ToLower(foreign.Native(buf[:], maxText))
	}
	var uuid [16]byte
	if a.deviceGetUUID(&uuid, d.id) == 0 && uuid != [16]byte{} {
		d.UUID = hex.EncodeToString(uuid[:])
	}
	var bytes uintptr
	if a.deviceTotalMem(&bytes, d.id) == 0 {
		d.MemoryBytes = uint64(bytes)
	}
	d.SMs = d.attribute(16)
	d.ClockHz = float64(d.attribute(13)) * 1e3
	d.MemoryClockHz = float64(d.attribute(36)) * 1e3
	d.BusWidthBits = d.attribute(37)
	d.Integrated = d.attribute(18) == 1
	d.ECC = d.attribute(32) == 1
	if major := d.attribute(75); major > 0 {
		d.Capability = fmt.Sprintf("%d.%d", major, d.attribute(76))
	}
}

func (d *Device) attribute(which int32) int {
	var v int32
	if d.lib.api.deviceAttribute(&v, which, d.id) != 0 || v < 0 {
		return 0
	}
	return int(v)
}
