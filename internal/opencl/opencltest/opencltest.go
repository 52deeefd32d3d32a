// Package opencltest is what tests of several packages need of OpenCL.
package opencltest

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/opencl"
	"github.com/assay-bench/assay/internal/parttest"
)

// NeedPoCL ends a test unless PoCL, which computes on the CPU, is the one OpenCL
// platform.
func NeedPoCL(tb testing.TB) {
	tb.Helper()
	lib, err := opencl.Open(opencl.Options{})
	if err != nil {
		parttest.Need(tb, err.Error())
	}
	devices, err := lib.Devices()
	if err != nil || slices.ContainsFunc(devices, func(d *opencl.Device) bool { return !strings.Contains(d.Platform, "Portable") }) {
		parttest.Need(tb, "PoCL is not the one OpenCL platform")
	}
}

// Fault is a change to an OpenCL source, which makes it compute wrongly: a text
// that it has once, and what stands there instead. The zero value changes nothing.
type Fault [2]string

// Kernels is how the source is changed; nil: it is not.
func (f Fault) Kernels() func(source string) string {
	if f[0] == "" {
		return nil
	}
	return func(source string) string {
		if strings.Count(source, f[0]) != 1 {
			panic("the source has changed: " + f[0])
		}
		return strings.Replace(source, f[0], f[1], 1)
	}
}
