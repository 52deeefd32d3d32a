package nvml

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// The sizes and offsets are those that a C compiler gives for nvml.h of CUDA
// 13.3 on amd64. The stub cannot show a mistake in them: it was written by the
// same hand.
func TestStructuresAreLaidOutAsInTheHeader(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"nvmlPciInfo_t", unsafe.Sizeof(pciInfo{}), 68},
		{"nvmlPciInfo_t.pciDeviceId", unsafe.Offsetof(pciInfo{}.ID), 28},
		{"nvmlPciInfo_t.busId", unsafe.Offsetof(pciInfo{}.BusID), 36},
		{"nvmlUtilization_t", unsafe.Sizeof(utilization{}), 8},
		{"nvmlMemory_t", unsafe.Sizeof(memory{}), 24},
		{"nvmlMemory_t.used", unsafe.Offsetof(memory{}.Used), 16},
		{"nvmlMemory_v2_t", unsafe.Sizeof(memory2{}), 40},
		{"nvmlMemory_v2_t.reserved", unsafe.Offsetof(memory2{}.Reserved), 16},
		{"nvmlMemory_v2_t.used", unsafe.Offsetof(memory2{}.Used), 32},
		{"nvmlMemory_v2", uintptr(version(unsafe.Sizeof(memory2{}), 2)), 0x2000028},
		{"nvmlProcessInfo_v1_t", unsafe.Sizeof(process1{}), 16},
		{"nvmlProcessInfo_v2_t", unsafe.Sizeof(process2{}), 24},
		{"nvmlProcessInfo_v2_t.usedGpuMemory", unsafe.Offsetof(process2{}.Bytes), 8},
		{"nvmlFieldValue_t", unsafe.Sizeof(fieldValue{}), 40},
		{"nvmlFieldValue_t.valueType", unsafe.Offsetof(fieldValue{}.Type), 24},
		{"nvmlFieldValue_t.nvmlReturn", unsafe.Offsetof(fieldValue{}.Ret), 28},
		{"nvmlFieldValue_t.value", unsafe.Offsetof(fieldValue{}.Value), 32},
		{"nvmlEventData_t", unsafe.Sizeof(eventData{}), 32},
		{"nvmlEventData_t.eventData", unsafe.Offsetof(eventData{}.Data), 16},
		{"nvmlGpuFabricInfo_t", unsafe.Sizeof(fabricInfo{}), 28},
		{"nvmlGpuFabricInfo_t.status", unsafe.Offsetof(fabricInfo{}.Status), 16},
		{"nvmlGpuFabricInfo_t.state", unsafe.Offsetof(fabricInfo{}.State), 24},
		{"nvmlGpuFabricInfo_v2_t", unsafe.Sizeof(fabricInfo2{}), 36},
		{"nvmlGpuFabricInfo_v2_t.status", unsafe.Offsetof(fabricInfo2{}.Status), 20},
		{"nvmlGpuFabricInfo_v2_t.state", unsafe.Offsetof(fabricInfo2{}.State), 28},
		{"nvmlGpuFabricInfo_v2", uintptr(version(unsafe.Sizeof(fabricInfo2{}), 2)), 0x2000024},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}

func TestFieldValues(t *testing.T) {
	v := func(b ...byte) (a [8]byte) { copy(a[:], b); return a }
	for _, c := range []struct {
		f       fieldValue
		want    uint64
		r       Return
		counter Return
	}{
		{fieldValue{Type: 1, Value: v(1, 2, 0, 0, 9)}, 513, Success, NoData},
		{fieldValue{Type: 3, Value: v(1, 2, 0, 0, 1)}, 1<<32 + 513, Success, Success},
		{fieldValue{Type: 2, Value: v(7)}, 7, Success, Success},
		{fieldValue{Type: 6, Value: v(1, 1, 1)}, 257, Success, NoData},
		{fieldValue{Type: 5, Value: v(255, 255, 255, 255)}, 0, NoData, NoData},
		{fieldValue{Type: 4, Value: v(255, 255, 255, 255, 255, 255, 255, 255)}, 0, NoData, NoData},
		{fieldValue{Type: 0, Value: v(0, 0, 0, 0, 0, 0, 0xf8, 0x7f)}, 0, NoData, NoData}, // NaN
		{fieldValue{Type: 0, Value: v(0, 0, 0, 0, 0, 0, 4, 0x40)}, 2, Success, NoData},   // 2.5
		{fieldValue{Type: 77, Value: v(1)}, 0, NoData, NoData},
		{fieldValue{Type: 3, Ret: 3, Value: v(1)}, 0, NotSupported, NotSupported},
		{fieldValue{Type: 3, Ret: 15, Value: v(1)}, 0, GPUIsLost, GPUIsLost},
	} {
		if got, r := c.f.whole(); got != c.want || r != c.r {
			t.Errorf("%+v: %d, %v", c.f, got, r)
		}
		if _, r := c.f.counter(); r != c.counter {
			t.Errorf("%+v as a counter: %v", c.f, r)
		}
	}
}

func TestThrottleFieldsFollowTheDriver(t *testing.T) {
	for driver, want := range map[string][]uint32{
		"": nil, "unknown": nil, "390.116": nil, "550.54.14": nil, "570.86.15": nil,
		"575.51.03": {251, 269}, "580.82.07": {251, 269}, "590.44.01": {269}, "610.10": {269},
	} {
		if got := throttleFields(driver); !slices.Equal(got, want) {
			t.Errorf("driver %q: fields %d, want %d", driver, got, want)
		}
	}
}

func TestMultiprocessorsFromCores(t *testing.T) {
	for _, c := range []struct {
		card                string
		cores, major, minor uint32
		want                uint32
	}{
		{"V100", 5120, 7, 0, 80}, {"T4", 2560, 7, 5, 40}, {"A100", 6912, 8, 0, 108}, {"3090", 10496, 8, 6, 82},
		{"4090", 16384, 8, 9, 128}, {"H100 SXM", 16896, 9, 0, 132}, {"B200", 18944, 10, 0, 148}, {"5090", 21760, 12, 0, 170}, {"P100", 3584, 6, 0, 56},
	} {
		if got := c.cores / coresPerSM(c.major, c.minor); got != c.want {
			t.Errorf("%s: %d, want %d", c.card, got, c.want)
		}
	}
	if coresPerSM(99, 0) != 0 {
		t.Error("an architecture of the future is not known")
	}
}

func TestReturns(t *testing.T) {
	if s := GPUIsLost.Error(); s != "the GPU has fallen off the bus (NVML return 15)" {
		t.Error(s)
	}
	if s := Return(777).Error(); s != "NVML return 777" {
		t.Error(s)
	}
	for _, r := range []Return{Success, GPUIsLost, ResetRequired, Unknown, Timeout, Uninitialized} {
		if r.Absent() {
			t.Errorf("%v is called absent", r)
		}
	}
	for _, r := range []Return{NotSupported, NoPermission, FunctionNotFound} {
		if !r.Absent() {
			t.Errorf("%v is not called absent", r)
		}
	}
}

func TestOpenWithoutALibrary(t *testing.T) {
	_, err := Open("/nonexistent/libnvidia-ml.so.1")
	if err == nil || !strings.Contains(err.Error(), "loading /nonexistent/libnvidia-ml.so.1") {
		t.Errorf("error %v", err)
	}
}
