//go:build darwin || freebsd || linux || netbsd

package cuda

import "github.com/ebitengine/purego"

// dlopen keeps the library's names to itself: a driver must not resolve its own
// symbols against another one's.
func dlopen(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func dlsym(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }

func register(fn any, addr uintptr) { purego.RegisterFunc(fn, addr) }
