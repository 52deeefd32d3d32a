package nvml

import "unsafe"

// functions are the addresses of what we call; 0 where the driver lacks it.
type functions struct {
	Init, Shutdown                                                uintptr
	SystemDriverVersion, SystemCudaDriverVersion                  uintptr
	DeviceCount, DeviceHandleByIndex                              uintptr
	DeviceName, DeviceUUID, DeviceSerial, DeviceVBIOS, DevicePart uintptr
	DevicePCI, DevicePCIOld                                       uintptr
	DeviceMaxClock, DeviceClock                                   uintptr
	DeviceCores, DeviceBusWidth, DeviceCapability                 uintptr
	DeviceMIG, DeviceVirtualization, DeviceECCMode                uintptr
	DeviceUtilization, DeviceMemory, DeviceMemory2                uintptr
	DeviceTemperature, DevicePower, DeviceEnergy, DeviceFan       uintptr
	DevicePowerLimit, DeviceReasons, DeviceFields                 uintptr
	DeviceReasonsSupported                                        uintptr
	DeviceECCTotal, DeviceRetired, DeviceRemapped                 uintptr
	DeviceReplays                                                 uintptr
	DeviceGen, DeviceGenMax, DeviceWidth, DeviceWidthMax          uintptr
	DeviceLinkState, DeviceLinkErrors, DeviceLinkRemote           uintptr
	DeviceP2P, DeviceFabric, DeviceFabricV                        uintptr
	DeviceProcesses, DeviceProcesses1                             uintptr
	EventSetCreate, EventSetFree, EventSetWait                    uintptr
	DeviceRegisterEvents                                          uintptr
}

// find looks every function up, by the newest name that the library has.
func (f *functions) find(h uintptr) {
	for _, w := range []struct {
		into  *uintptr
		names []string
	}{
		{&f.Init, []string{"nvmlInit_v2", "nvmlInit"}},
		{&f.Shutdown, []string{"nvmlShutdown"}},
		{&f.SystemDriverVersion, []string{"nvmlSystemGetDriverVersion"}},
		{&f.SystemCudaDriverVersion, []string{"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"}},
		{&f.DeviceCount, []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
		{&f.DeviceHandleByIndex, []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
		{&f.DeviceName, []string{"nvmlDeviceGetName"}},
		{&f.DeviceUUID, []string{"nvmlDeviceGetUUID"}},
		{&f.DeviceSerial, []string{"nvmlDeviceGetSerial"}},
		{&f.DeviceVBIOS, []string{"nvmlDeviceGetVbiosVersion"}},
		{&f.DevicePart, []string{"nvmlDeviceGetBoardPartNumber"}},
		// The first two versions share a structure that is shorter than the third's.
		{&f.DevicePCI, []string{"nvmlDeviceGetPciInfo_v3"}},
		{&f.DevicePCIOld, []string{"nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"}},
		{&f.DeviceMaxClock, []string{"nvmlDeviceGetMaxClockInfo"}},
		{&f.DeviceClock, []string{"nvmlDeviceGetClockInfo"}},
		{&f.DeviceCores, []string{"nvmlDeviceGetNumGpuCores"}},
		{&f.DeviceBusWidth, []string{"nvmlDeviceGetMemoryBusWidth"}},
		{&f.DeviceCapability, []string{"nvmlDeviceGetCudaComputeCapability"}},
		{&f.DeviceMIG, []string{"nvmlDeviceGetMigMode"}},
		{&f.DeviceVirtualization, []string{"nvmlDeviceGetVirtualizationMode"}},
		{&f.DeviceECCMode, []string{"nvmlDeviceGetEccMode"}},
		{&f.DeviceUtilization, []string{"nvmlDeviceGetUtilizationRates"}},
		{&f.DeviceMemory, []string{"nvmlDeviceGetMemoryInfo"}},
		{&f.DeviceMemory2, []string{"nvmlDeviceGetMemoryInfo_v2"}},
		{&f.DeviceTemperature, []string{"nvmlDeviceGetTemperature"}},
		{&f.DevicePower, []string{"nvmlDeviceGetPowerUsage"}},
		{&f.DeviceEnergy, []string{"nvmlDeviceGetTotalEnergyConsumption"}},
		{&f.DeviceFan, []string{"nvmlDeviceGetFanSpeed"}},
		{&f.DevicePowerLimit, []string{"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"}},
		{&f.DeviceReasons, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
		{&f.DeviceReasonsSupported, []string{"nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons"}},
		{&f.DeviceFields, []string{"nvmlDeviceGetFieldValues"}},
		{&f.DeviceECCTotal, []string{"nvmlDeviceGetTotalEccErrors"}},
		{&f.DeviceRetired, []string{"nvmlDeviceGetRetiredPages"}},
		{&f.DeviceRemapped, []string{"nvmlDeviceGetRemappedRows"}},
		{&f.DeviceReplays, []string{"nvmlDeviceGetPcieReplayCounter"}},
		{&f.DeviceGen, []string{"nvmlDeviceGetCurrPcieLinkGeneration"}},
		{&f.DeviceGenMax, []string{"nvmlDeviceGetMaxPcieLinkGeneration"}},
		{&f.DeviceWidth, []string{"nvmlDeviceGetCurrPcieLinkWidth"}},
		{&f.DeviceWidthMax, []string{"nvmlDeviceGetMaxPcieLinkWidth"}},
		{&f.DeviceLinkState, []string{"nvmlDeviceGetNvLinkState"}},
		{&f.DeviceLinkErrors, []string{"nvmlDeviceGetNvLinkErrorCounter"}},
		{&f.DeviceLinkRemote, []string{"nvmlDeviceGetNvLinkRemoteDeviceType"}},
		{&f.DeviceP2P, []string{"nvmlDeviceGetP2PStatus"}},
		{&f.DeviceFabric, []string{"nvmlDeviceGetGpuFabricInfo"}},
		{&f.DeviceFabricV, []string{"nvmlDeviceGetGpuFabricInfoV"}},
		{&f.DeviceProcesses, []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}},
		{&f.DeviceProcesses1, []string{"nvmlDeviceGetComputeRunningProcesses"}},
		{&f.EventSetCreate, []string{"nvmlEventSetCreate"}},
		{&f.EventSetFree, []string{"nvmlEventSetFree"}},
		{&f.EventSetWait, []string{"nvmlEventSetWait_v2", "nvmlEventSetWait"}},
		{&f.DeviceRegisterEvents, []string{"nvmlDeviceRegisterEvents"}},
	} {
		for _, name := range w.names {
			if *w.into = symbol(h, name); *w.into != 0 {
				break
			}
		}
	}
}

// The structures of nvml.h, on a 64-bit machine.
type (
	pciOld struct {
		Legacy                          [16]byte
		Domain, Bus, Device, ID, SubSys uint32
		_                               [4]uint32
	}
	pciInfo struct {
		Legacy                          [16]byte
		Domain, Bus, Device, ID, SubSys uint32
		BusID                           [32]byte
	}
	utilization struct{ GPU, Memory uint32 }
	memory      struct{ Total, Free, Used uint64 }
	memory2     struct {
		Version                     uint32
		Total, Reserved, Free, Used uint64
	}
	process1 struct {
		PID   uint32
		Bytes uint64
	}
	process2 struct {
		PID              uint32
		Bytes            uint64
		GPUInst, CompIns uint32
	}
	fieldValue struct {
		ID, Scope      uint32
		Stamp, Latency int64
		Type           uint32
		Ret            int32
		Value          [8]byte
	}
	eventData struct {
		Device           uintptr
		Type, Data       uint64
		GPUInst, CompIns uint32
	}
	fabricInfo struct {
		UUID   [16]byte
		Status int32
		Clique uint32
		State  uint8
	}
	fabricInfo2 struct {
		Version uint32
		UUID    [16]byte
		Status  int32
		Clique  uint32
		State   uint8
		Health  uint32
	}
)

// version is how NVML marks a structure that has versions.
func version(size uintptr, v uint32) uint32 { return uint32(size) | v<<24 }

const (
	maxFields    = 8
	maxProcesses = 256
	maxRetired   = 1024
)

// scratch is the one piece of memory that the driver writes into. There is a
// little more of everything than is offered, for drivers that write past it.
type scratch struct {
	args      [6]uintptr
	ptr       uintptr
	u32       [8]uint32
	u64       [8]uint64
	util      utilization
	mem       memory
	mem2      memory2
	pciOld    pciOld
	pci       pciInfo
	fabric    fabricInfo
	fabric2   fabricInfo2
	event     eventData
	fields    [maxFields + 1]fieldValue
	text      [128]byte
	processes [maxProcesses + 16]process2
	retired   [maxRetired + 16]uint64
}

func (s *scratch) addr32(i int) uintptr { return uintptr(unsafe.Pointer(&s.u32[i])) }
func (s *scratch) addr64(i int) uintptr { return uintptr(unsafe.Pointer(&s.u64[i])) }
func (s *scratch) addrPtr() uintptr     { return uintptr(unsafe.Pointer(&s.ptr)) }
func (s *scratch) addrText() uintptr    { return uintptr(unsafe.Pointer(&s.text[0])) }

// call calls a function of the library, if it has it. Addresses among the
// arguments are of the scratch, which does not move; so are the arguments
// themselves, which would otherwise be allocated at each call.
func (l *Library) call(fn uintptr, args ...uintptr) Return {
	if fn == 0 {
		return FunctionNotFound
	}
	return invoke(fn, l.s.args[:copy(l.s.args[:], args)])
}
