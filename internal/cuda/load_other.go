//go:build !(darwin || freebsd || linux || netbsd)

package cuda

import "errors"

var errPlatform = errors.New("loading the CUDA driver is not supported on this operating system")

func dlopen(string) (uintptr, error)         { return 0, errPlatform }
func dlsym(uintptr, string) (uintptr, error) { return 0, errPlatform }
func register(any, uintptr)                  {}
