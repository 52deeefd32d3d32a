package nvml

import (
	"fmt"
	"unsafe"
)

// Device is one GPU.
type Device struct {
	UUID  string
	Index int

	l *Library
	h uintptr
	// What this GPU was found not to have, so that it is not asked again at
	// every sample.
	noInstant, noMemory2 bool
	throttle             uint32 // where this GPU's throttle counters begin; 0: not found yet
}

// Identity is what a GPU says that it is. Empty text and 0 mean that it does
// not say: none of these can be empty or 0.
type Identity struct {
	Index             int    `json:"index"`
	UUID              string `json:"uuid"`
	Name              string `json:"name,omitempty"`
	Serial            string `json:"serial,omitempty"`
	VBIOS             string `json:"vbios,omitempty"`
	BoardPart         string `json:"board_part,omitempty"`
	PCIBusID          string `json:"pci_bus_id,omitempty"` // as sysfs writes it: 0000:1b:00.0
	PCIDevice         uint32 `json:"pci_device,omitempty"` // device id in the upper half, vendor's in the lower
	MemoryBytes       uint64 `json:"memory_bytes,omitempty"`
	BusWidthBits      uint32 `json:"bus_width_bits,omitempty"`
	Cores             uint32 `json:"cores,omitempty"`
	ComputeCapability string `json:"compute_capability,omitempty"`
	// SMCount is reckoned from cores and compute capability: NVML gives it for
	// MIG slices only.
	SMCount          uint32  `json:"sm_count,omitempty"`
	MaxSMClockHz     float64 `json:"max_sm_clock_hertz,omitempty"`
	MaxMemoryClockHz float64 `json:"max_memory_clock_hertz,omitempty"`
	PowerLimitWatts  float64 `json:"power_limit_watts,omitempty"`
	Driver           string  `json:"driver,omitempty"`
	CUDA             string  `json:"cuda,omitempty"`
	MIG              string  `json:"mig,omitempty"`  // enabled, disabled
	VGPU             string  `json:"vgpu,omitempty"` // none, passthrough, vgpu, host-vgpu, host-vsga
	ECC              string  `json:"ecc,omitempty"`  // enabled, disabled
}

// Identity asks a GPU for everything that names it. The return is that of a
// GPU which cannot be asked at all; single answers may be missing without it.
func (d *Device) Identity() (Identity, Return) {
	l, s := d.l, d.l.s
	id := Identity{Index: d.Index, Driver: l.driver, CUDA: l.CUDA()}
	var r Return
	if id.UUID, r = l.text(l.fn.DeviceUUID, d.h, 96); r != Success {
		return Identity{}, r
	}
	id.Name, _ = l.text(l.fn.DeviceName, d.h, 96)
	id.Serial, _ = l.text(l.fn.DeviceSerial, d.h, 30)
	id.VBIOS, _ = l.text(l.fn.DeviceVBIOS, d.h, 32)
	id.BoardPart, _ = l.text(l.fn.DevicePart, d.h, 80)
	id.PCIBusID, id.PCIDevice = d.pci()
	if m, r := d.Memory(); r == Success {
		id.MemoryBytes = m.Total
	}
	id.BusWidthBits = d.number(l.fn.DeviceBusWidth)
	id.Cores = d.number(l.fn.DeviceCores)
	if r := l.call(l.fn.DeviceCapability, d.h, s.addr32(0), s.addr32(1)); r == Success && s.u32[0] < 100 && s.u32[1] < 10 {
		id.ComputeCapability = fmt.Sprintf("%d.%d", s.u32[0], s.u32[1])
		if per := coresPerSM(s.u32[0], s.u32[1]); per != 0 && id.Cores%per == 0 {
			id.SMCount = id.Cores / per
		}
	}
	id.MaxSMClockHz, _ = d.MaxClock(SM)
	id.MaxMemoryClockHz, _ = d.MaxClock(MemoryClock)
	id.PowerLimitWatts, _ = d.PowerLimit()
	if r := l.call(l.fn.DeviceMIG, d.h, s.addr32(0), s.addr32(1)); r == Success {
		id.MIG = onOff(s.u32[0])
	}
	if r := l.call(l.fn.DeviceECCMode, d.h, s.addr32(0), s.addr32(1)); r == Success {
		id.ECC = onOff(s.u32[0])
	}
	if r := l.call(l.fn.DeviceVirtualization, d.h, s.addr32(0)); r == Success {
		if modes := []string{"none", "passthrough", "vgpu", "host-vgpu", "host-vsga"}; int(s.u32[0]) < len(modes) {
			id.VGPU = modes[s.u32[0]]
		}
	}
	return id, Success
}

// number asks for a whole number that cannot be 0; 0 says that it is not known.
func (d *Device) number(fn uintptr) uint32 {
	if d.l.call(fn, d.h, d.l.s.addr32(0)) != Success {
		return 0
	}
	return d.l.s.u32[0]
}

func (d *Device) pci() (string, uint32) {
	l, s := d.l, d.l.s
	s.pci, s.pciOld = pciInfo{}, pciOld{}
	domain, bus, dev, id := &s.pci.Domain, &s.pci.Bus, &s.pci.Device, &s.pci.ID
	r := l.call(l.fn.DevicePCI, d.h, uintptr(unsafe.Pointer(&s.pci)))
	if r == FunctionNotFound {
		r = l.call(l.fn.DevicePCIOld, d.h, uintptr(unsafe.Pointer(&s.pciOld)))
		domain, bus, dev, id = &s.pciOld.Domain, &s.pciOld.Bus, &s.pciOld.Device, &s.pciOld.ID
	}
	if r != Success || *bus > 0xff || *dev > 0x1f {
		return "", 0
	}
	// NVML writes eight digits of domain and capitals, the kernel four and small.
	return fmt.Sprintf("%04x:%02x:%02x.0", *domain, *bus, *dev), *id
}

func onOff(v uint32) string {
	if v == 0 {
		return "disabled"
	}
	return "enabled"
}

// coresPerSM is how many cores NVIDIA counts to a multiprocessor, by compute
// capability; from the CUDA programming guide. 0: not known.
func coresPerSM(major, minor uint32) uint32 {
	switch {
	case major == 3:
		return 192
	case major == 5, major == 6 && minor > 0:
		return 128
	case major == 6, major == 7, major == 8 && minor == 0:
		return 64
	case major >= 8 && major <= 12:
		return 128
	}
	return 0
}
