package opencl

import (
	"fmt"
	"unsafe"
)

// handle is an object of the library. The library owns what it points to.
type handle = uintptr

// api is the part of OpenCL 1.2 that is used here, each function with its place
// in the dispatch table of cl_khr_icd.
type api struct {
	getPlatformInfo         func(handle, uint32, uintptr, unsafe.Pointer, *uintptr) int32
	getDeviceIDs            func(handle, uint64, uint32, *handle, *uint32) int32
	getDeviceInfo           func(handle, uint32, uintptr, unsafe.Pointer, *uintptr) int32
	createContext           func(*handle, uint32, *handle, uintptr, uintptr, *int32) handle
	releaseContext          func(handle) int32
	createCommandQueue      func(handle, handle, uint64, *int32) handle
	releaseCommandQueue     func(handle) int32
	createBuffer            func(handle, uint64, uintptr, unsafe.Pointer, *int32) handle
	releaseMemObject        func(handle) int32
	createProgramWithSource func(handle, uint32, *unsafe.Pointer, *uintptr, *int32) handle
	releaseProgram          func(handle) int32
	buildProgram            func(handle, uint32, *handle, string, uintptr, uintptr) int32
	getProgramBuildInfo     func(handle, handle, uint32, uintptr, unsafe.Pointer, *uintptr) int32
	createKernel            func(handle, string, *int32) handle
	releaseKernel           func(handle) int32
	setKernelArg            func(handle, uint32, uintptr, unsafe.Pointer) int32
	waitForEvents           func(uint32, *handle) int32
	releaseEvent            func(handle) int32
	getEventProfilingInfo   func(handle, uint32, uintptr, unsafe.Pointer, *uintptr) int32
	finish                  func(handle) int32
	enqueueReadBuffer       func(handle, handle, uint32, uintptr, uintptr, unsafe.Pointer, uint32, uintptr, uintptr) int32
	enqueueWriteBuffer      func(handle, handle, uint32, uintptr, uintptr, unsafe.Pointer, uint32, uintptr, uintptr) int32
	enqueueNDRangeKernel    func(handle, handle, uint32, *uintptr, *uintptr, *uintptr, uint32, uintptr, *handle) int32
}

type entry struct {
	name  string
	place int // in the dispatch table
	fn    any
}

func (a *api) entries() []entry {
	return []entry{
		{"clGetPlatformInfo", 1, &a.getPlatformInfo},
		{"clGetDeviceIDs", 2, &a.getDeviceIDs},
		{"clGetDeviceInfo", 3, &a.getDeviceInfo},
		{"clCreateContext", 4, &a.createContext},
		{"clReleaseContext", 7, &a.releaseContext},
		{"clCreateCommandQueue", 9, &a.createCommandQueue},
		{"clReleaseCommandQueue", 11, &a.releaseCommandQueue},
		{"clCreateBuffer", 14, &a.createBuffer},
		{"clReleaseMemObject", 18, &a.releaseMemObject},
		{"clCreateProgramWithSource", 26, &a.createProgramWithSource},
		{"clReleaseProgram", 29, &a.releaseProgram},
		{"clBuildProgram", 30, &a.buildProgram},
		{"clGetProgramBuildInfo", 33, &a.getProgramBuildInfo},
		{"clCreateKernel", 34, &a.createKernel},
		{"clReleaseKernel", 37, &a.releaseKernel},
		{"clSetKernelArg", 38, &a.setKernelArg},
		{"clWaitForEvents", 41, &a.waitForEvents},
		{"clReleaseEvent", 44, &a.releaseEvent},
		{"clGetEventProfilingInfo", 45, &a.getEventProfilingInfo},
		{"clFinish", 47, &a.finish},
		{"clEnqueueReadBuffer", 48, &a.enqueueReadBuffer},
		{"clEnqueueWriteBuffer", 49, &a.enqueueWriteBuffer},
		{"clEnqueueNDRangeKernel", 59, &a.enqueueNDRangeKernel},
	}
}

// tableSize is the length of the table in its first version (OpenCL 1.0), which
// every later version keeps.
const tableSize = 65

type table [tableSize]uintptr

// fromNames fills the api from a library that exports the functions, as
// libOpenCL does.
func (a *api) fromNames(lib uintptr) error {
	for _, e := range a.entries() {
		addr, err := dlsym(lib, e.name)
		if err != nil {
			return fmt.Errorf("function %s: %w", e.name, err)
		}
		register(e.fn, addr)
	}
	return nil
}

// fromTable fills the api from the table to which every object of a driver
// points with its first word.
func (a *api) fromTable(platform handle) error {
	object := *(**struct{ dispatch *table })(unsafe.Pointer(&platform))
	if object == nil || object.dispatch == nil {
		return fmt.Errorf("the platform has no dispatch table")
	}
	for _, e := range a.entries() {
		addr := object.dispatch[e.place]
		if addr == 0 {
			return fmt.Errorf("function %s is not in the dispatch table", e.name)
		}
		register(e.fn, addr)
	}
	return nil
}
