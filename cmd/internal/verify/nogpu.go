package verify

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
)

// noGPU says in one sentence why no GPU was found, and what to do about it, by what
// the kernel shows. The root is the machine's.
func noGPU(root fs.FS) string {
	const container = "in a container, start it with --gpus all (NVIDIA) or --device /dev/kfd --device /dev/dri (AMD)"
	if b, err := fs.ReadFile(root, "proc/driver/nvidia/version"); err == nil {
		return fmt.Sprintf("no GPU found: NVIDIA's kernel driver is loaded%s, and its libraries are not here; %s, and on the machine itself install libcuda.so.1 of the same version.",
			driverVersion(b), container)
	}
	for _, maker := range []struct{ vendor, name, driver string }{
		{"0x10de", "an NVIDIA card", "NVIDIA's driver (Debian: nvidia-driver; data centre cards: version 535 or later)"},
		{"0x1002", "an AMD card", "the amdgpu driver with ROCm's OpenCL (rocm-opencl-icd)"},
	} {
		if bus := cardOf(root, maker.vendor); bus != "" {
			return fmt.Sprintf("no GPU found: %s is in the slot %s, and no driver shows it; install %s.", maker.name, foreign.Line(bus, 40), maker.driver)
		}
	}
	return "no GPU found: this machine shows no card on its PCI bus; " + container + ", and of a rented machine ask its provider for one."
}

// driverVersion is the version in the first line of the driver's own file.
func driverVersion(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	for _, word := range strings.Fields(string(line)) {
		if strings.Trim(word, "0123456789.") == "" && strings.Contains(word, ".") {
			return " (" + foreign.Line(word, 40) + ")"
		}
	}
	return ""
}

// cardOf is the bus id of the first display controller or accelerator of a maker;
// empty: there is none.
func cardOf(root fs.FS, vendor string) string {
	const devices = "sys/bus/pci/devices"
	all, err := fs.ReadDir(root, devices)
	if err != nil {
		return ""
	}
	read := func(name, file string) string {
		b, err := fs.ReadFile(root, path.Join(devices, name, file))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	for _, d := range all {
		class := read(d.Name(), "class")
		if read(d.Name(), "vendor") == vendor && (strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12")) {
			return d.Name()
		}
	}
	return ""
}
