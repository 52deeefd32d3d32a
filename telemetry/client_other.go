//go:build !linux

package telemetry

import "errors"

var errNotHere = errors.New("not read on this operating system")

func cpuSeconds() (float64, error)      { return 0, errNotHere }
func runDelaySeconds() (float64, error) { return 0, errNotHere }
func residentBytes() (float64, error)   { return 0, errNotHere }
func openDescriptors() (float64, error) { return 0, errNotHere }
