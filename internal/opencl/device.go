package opencl

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unsafe"

	"github.com/assay-bench/assay/internal/foreign"
)

// Type is a set of bits: what kind of device it says it is.
type Type uint64

// The kinds. A device may claim several; one that claims CPU among others runs
// on the CPU (debuggers for OpenCL do so).
const (
	TypeDefault     Type = 1 << 0
	TypeCPU         Type = 1 << 1
	TypeGPU         Type = 1 << 2
	TypeAccelerator Type = 1 << 3
	TypeCustom      Type = 1 << 4
)

func (t Type) String() string {
	var names []string
	for i, name := range []string{"default", "CPU", "GPU", "accelerator", "custom"} {
		if t&(1<<i) != 0 && name != "default" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "unknown"
	}
	return strings.Join(names, "+")
}

// Device is what a device says of itself. A value that it did not give is zero.
type Device struct {
	Platform      string
	Type          Type
	Name          string // the board's name where the vendor gives one
	Vendor        string
	Version       string
	DriverVersion string
	UUID          string // hexadecimal, without dashes
	PCIBusID      string // domain:bus:device.function
	ComputeUnits  int    // SMs, CUs
	MaxClockHz    float64
	MemoryBytes   uint64
	FreeBytes     uint64 // only AMD says
	MaxAllocBytes uint64

	api *api
	id  handle
}

type getInfo func(handle, uint32, uintptr, unsafe.Pointer, *uintptr) int32

func newDevice(p *Platform, id handle) *Device {
	get := p.api.getDeviceInfo
	d := &Device{Platform: p.Name, api: p.api, id: id}
	d.Type = Type(number[uint64](get, id, 0x1000))
	d.Name = text(get, id, 0x102B)
	d.Vendor = text(get, id, 0x102C)
	d.DriverVersion = text(get, id, 0x102D)
	d.Version = text(get, id, 0x102F)
	d.ComputeUnits = int(number[uint32](get, id, 0x1002))
	d.MaxClockHz = float64(number[uint32](get, id, 0x100C)) * 1e6
	d.MaxAllocBytes = number[uint64](get, id, 0x1010)
	d.MemoryBytes = number[uint64](get, id, 0x101F)
	if uuid := number[[16]byte](get, id, 0x106A); uuid != [16]byte{} {
		d.UUID = hex.EncodeToString(uuid[:])
	}
	d.PCIBusID = d.pciBusID(get)
	if strings.Contains(d.Vendor, "Advanced Micro") || strings.Contains(d.Vendor, "AMD") {
		if board := text(get, id, 0x4038); board != "" {
			d.Name = board
		}
		d.FreeBytes = number[[2]uint64](get, id, 0x4039)[0] << 10
	}
	return d
}

// pciBusID asks by the common extension first, then by the vendors' own.
func (d *Device) pciBusID(get getInfo) string {
	type location struct{ Domain, Bus, Device, Function uint32 }
	if l, ok := value[location](get, d.id, 0x410F); ok {
		return fmt.Sprintf("%04x:%02x:%02x.%x", l.Domain, l.Bus, l.Device, l.Function)
	}
	if strings.Contains(d.Vendor, "NVIDIA") {
		bus, okBus := value[uint32](get, d.id, 0x4008)
		slot, okSlot := value[uint32](get, d.id, 0x4009)
		if okBus && okSlot {
			domain := number[uint32](get, d.id, 0x400A)
			return fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, slot>>3, slot&7)
		}
	}
	return ""
}

// text reads a string as one line; one that is absent or too long is empty.
func text(get getInfo, id handle, what uint32) string {
	return foreign.Native(raw(get, id, what), maxText)
}

// raw reads a string as the driver left it.
func raw(get getInfo, id handle, what uint32) []byte {
	var size uintptr
	if get(id, what, 0, nil, &size) != 0 || size == 0 || size > maxText {
		return nil
	}
	buf := make([]byte, size)
	if get(id, what, size, unsafe.Pointer(&buf[0]), nil) != 0 {
		return nil
	}
	return buf
}

func value[T any](get getInfo, id handle, what uint32) (T, bool) {
	var v T
	var size uintptr
	code := get(id, what, unsafe.Sizeof(v), unsafe.Pointer(&v), &size)
	return v, code == 0 && size > 0 && size <= unsafe.Sizeof(v)
}

// number is value with zero for a value that was not obtained.
func number[T any](get getInfo, id handle, what uint32) T {
	v, ok := value[T](get, id, what)
	if !ok {
		var none T
		return none
	}
	return v
}
