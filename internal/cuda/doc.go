// Package cuda runs this package's own kernels through the NVIDIA driver, which
// it loads when it is asked to (libcuda.so.1 by purego, no cgo). It is for
// machines with an NVIDIA GPU on which OpenCL is not available; containers often
// hold the driver and not the OpenCL registration.
//
// It promises:
//
//   - The kernels are text ([Kernels], PTX) that the driver compiles for the
//     card. No toolkit is needed.
//   - Every call's return code becomes an [Error] with its name; a function that
//     the driver does not have is an ordinary error when the library is opened.
//   - What is created is given back by Close.
//
// It has no deadline: a driver that hangs hangs the caller, so callers run it in
// a process that can be killed.
package cuda

import _ "embed"

// Kernels is the PTX text of the kernels multiply, fill and inspect.
//
//go:embed kernels.ptx
var Kernels string
