// Package opencl runs kernels through the OpenCL library of the machine, which
// it loads when it is asked to (purego, no cgo).
//
// It promises:
//
//   - A library that has no platform is passed over for the next one. NVIDIA's
//     container toolkit long put the driver's own library into containers
//     without the file by which libOpenCL finds it.
//   - A driver library that exports no OpenCL function by name, as the loader
//     extension (cl_khr_icd) allows, works all the same: the functions are taken
//     from the platform's dispatch table.
//   - Every call's return code becomes an [Error] with its name; a build that
//     fails carries the compiler's log, bounded.
//   - What is created is released by Close. Only the library stays loaded:
//     drivers leave threads behind that would run into unmapped code.
//
// It refuses to choose a device: a caller that must not run on the CPU has to
// look at [Device.Type]. It has no deadline: a driver that hangs hangs the
// caller, so callers run it in a process that can be killed.
package opencl
