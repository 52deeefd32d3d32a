package opencl

import (
	"errors"
	"fmt"
)

// Bounds on what a driver may claim.
const (
	maxPlatforms = 32
	maxDevices   = 256 // a platform
	maxText      = 64 << 10
	maxLog       = 4 << 10 // of a compiler, as shown
)

// Options says where to look.
type Options struct {
	// Libraries are tried in order until one has a platform; nil is
	// DefaultLibraries.
	Libraries []string
}

// DefaultLibraries are the loader that every vendor registers with, and
// NVIDIA's driver itself for containers that lack the registration.
func DefaultLibraries() []string { return []string{"libOpenCL.so.1", "libnvidia-opencl.so.1"} }

// Library is a loaded OpenCL library with at least one platform.
type Library struct {
	path      string
	platforms []*Platform
}

// Platform is one vendor's OpenCL.
type Platform struct {
	Name, Vendor, Version string

	api *api
	id  handle
}

// Open loads the first library that has a platform. The error is ErrNoPlatform
// with each library's reason.
func Open(o Options) (*Library, error) {
	paths := o.Libraries
	if paths == nil {
		paths = DefaultLibraries()
	}
	why := []error{ErrNoPlatform}
	for _, path := range paths {
		platforms, err := load(path)
		if err != nil {
			why = append(why, fmt.Errorf("%s: %w", path, err))
			continue
		}
		return &Library{path: path, platforms: platforms}, nil
	}
	return nil, errors.Join(why...)
}

// Path is the library that was loaded, as it was asked for.
func (l *Library) Path() string { return l.path }

type getPlatformIDs func(uint32, *handle, *uint32) int32

func load(path string) ([]*Platform, error) {
	lib, err := dlopen(path)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if addr, err := dlsym(lib, "clGetPlatformIDs"); err == nil {
		var a api
		if err := a.fromNames(lib); err != nil {
			return nil, err
		}
		var get getPlatformIDs
		register(&get, addr)
		return platforms("clGetPlatformIDs", get, func(handle) (*api, error) { return &a, nil })
	}
	get, err := driverPlatformIDs(lib)
	if err != nil {
		return nil, err
	}
	return platforms("clIcdGetPlatformIDsKHR", get, func(id handle) (*api, error) {
		var a api
		return &a, a.fromTable(id)
	})
}

// driverPlatformIDs finds the one function by which a loader enters a driver.
func driverPlatformIDs(lib uintptr) (getPlatformIDs, error) {
	const name = "clIcdGetPlatformIDsKHR"
	addr, err := dlsym(lib, name)
	if err != nil {
		ext, err := dlsym(lib, "clGetExtensionFunctionAddress")
		if err != nil {
			return nil, fmt.Errorf("neither clGetPlatformIDs nor the driver's entry: %w", err)
		}
		var find func(string) uintptr
		register(&find, ext)
		if addr = find(name); addr == 0 {
			return nil, fmt.Errorf("the driver has no %s", name)
		}
	}
	var get getPlatformIDs
	register(&get, addr)
	return get, nil
}

func platforms(call string, get getPlatformIDs, functions func(handle) (*api, error)) ([]*Platform, error) {
	var ids [maxPlatforms]handle
	var n uint32
	if err := check(call, get(maxPlatforms, &ids[0], &n)); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, check(call, platformNotFound)
	}
	var all []*Platform
	for _, id := range ids[:min(n, maxPlatforms)] {
		a, err := functions(id)
		if err != nil {
			return nil, err
		}
		p := &Platform{api: a, id: id}
		p.Name = text(a.getPlatformInfo, id, 0x0902)
		p.Vendor = text(a.getPlatformInfo, id, 0x0903)
		p.Version = text(a.getPlatformInfo, id, 0x0901)
		all = append(all, p)
	}
	return all, nil
}

// Devices are the devices of every platform. A platform that has none, or that
// does not answer, is passed over if another one has a device; else its error
// is given.
func (l *Library) Devices() ([]*Device, error) {
	var all []*Device
	var why []error
	for _, p := range l.platforms {
		devices, err := p.devices()
		if err != nil {
			why = append(why, fmt.Errorf("devices of %s: %w", p.Name, err))
			continue
		}
		all = append(all, devices...)
	}
	if len(all) == 0 {
		return nil, errors.Join(why...)
	}
	return all, nil
}

func (p *Platform) devices() ([]*Device, error) {
	var ids [maxDevices]handle
	var n uint32
	switch code := p.api.getDeviceIDs(p.id, 0xFFFFFFFF, maxDevices, &ids[0], &n); code {
	case 0:
	case deviceNotFound:
		return nil, nil
	default:
		return nil, check("clGetDeviceIDs", code)
	}
	var all []*Device
	for _, id := range ids[:min(n, maxDevices)] {
		all = append(all, newDevice(p, id))
	}
	return all, nil
}
