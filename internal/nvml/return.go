package nvml

import "fmt"

// Return is what an NVML call answers. It is an error only when it is not
// [Success]; compare it, or ask [Return.Absent].
type Return int32

// The returns that something depends on. The numbers are NVML's.
const (
	Success                 Return = 0
	Uninitialized           Return = 1
	InvalidArgument         Return = 2
	NotSupported            Return = 3
	NoPermission            Return = 4
	NotFound                Return = 6
	InsufficientSize        Return = 7
	DriverNotLoaded         Return = 9
	Timeout                 Return = 10
	FunctionNotFound        Return = 13
	GPUIsLost               Return = 15
	ResetRequired           Return = 16
	NoData                  Return = 21
	ArgumentVersionMismatch Return = 25
	Deprecated              Return = 26
	NotReady                Return = 27
	Unknown                 Return = 999
)

var returnWords = map[Return]string{
	Success:                 "done",
	Uninitialized:           "the library was not initialised",
	InvalidArgument:         "an argument is not valid",
	NotSupported:            "this GPU does not support it",
	NoPermission:            "no permission",
	5:                       "already initialised",
	NotFound:                "not found",
	InsufficientSize:        "the room offered is too small",
	8:                       "the GPU's power cables are not attached",
	DriverNotLoaded:         "the driver is not loaded",
	Timeout:                 "the driver's own time limit passed",
	11:                      "the kernel has trouble with the GPU's interrupts",
	12:                      "the library was not found",
	FunctionNotFound:        "this driver does not have the function",
	14:                      "the GPU's infoROM is corrupted",
	GPUIsLost:               "the GPU has fallen off the bus",
	ResetRequired:           "the GPU must be reset before it can be used again",
	17:                      "the operating system blocks the GPU's control device",
	18:                      "library and kernel module of the driver differ in version",
	19:                      "the GPU is in use",
	20:                      "out of memory",
	NoData:                  "no data",
	22:                      "not available with ECC enabled",
	23:                      "out of resources",
	24:                      "this frequency is not supported",
	ArgumentVersionMismatch: "this driver does not know this version of the structure",
	Deprecated:              "no longer supported",
	NotReady:                "not ready",
	28:                      "no GPU was found",
	29:                      "not possible in the present state",
	Unknown:                 "an internal error of the driver",
}

// Error says in words what the return means.
func (r Return) Error() string {
	if w, ok := returnWords[r]; ok {
		return fmt.Sprintf("%s (NVML return %d)", w, int32(r))
	}
	return fmt.Sprintf("NVML return %d", int32(r))
}

// Absent says that the driver works and has no such value, or none for us.
func (r Return) Absent() bool {
	switch r {
	case NotSupported, NoPermission, NotFound, FunctionNotFound, NoData, ArgumentVersionMismatch, Deprecated, NotReady:
		return true
	}
	return false
}
