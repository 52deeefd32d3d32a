package nvml

import "github.com/ebitengine/purego"

func load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// symbol is a function's address, 0 where the library has no such function.
func symbol(handle uintptr, name string) uintptr {
	p, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return p
}

// invoke calls a function of the library.
func invoke(fn uintptr, args []uintptr) Return {
	r, _, _ := purego.SyscallN(fn, args...)
	return Return(int32(r))
}
