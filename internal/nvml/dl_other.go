//go:build !linux

package nvml

import "errors"

func load(string) (uintptr, error) {
	return 0, errors.New("NVML is asked on Linux only")
}

func symbol(uintptr, string) uintptr { return 0 }

func invoke(uintptr, []uintptr) Return { return FunctionNotFound }
