package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/network/api"
)

// machine is a root with files.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// bare are the files of a machine with one card of NVIDIA's.
func bare(change map[string]string) map[string]string {
	files := map[string]string{
		"proc/self/mountinfo":                     "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n23 22 0:21 / /proc rw - proc proc rw\n",
		"proc/self/cgroup":                        "0::/system.slice/assay-agent.service\n",
		"proc/self/uid_map":                       "         0          0 4294967295\n",
		"dev/nvidia0":                             "",
		"dev/nvidiactl":                           "",
		"dev/null":                                "",
		"sys/bus/pci/devices/0000:00:1f.0/class":  "0x060100\n",
		"sys/bus/pci/devices/0000:01:00.0/class":  "0x030200\n",
		"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
		"sys/bus/pci/devices/0000:01:00.0/device": "0x20b2\n",
	}
	for k, v := range change {
		if v == "-" {
			delete(files, k)
		} else {
			files[k] = v
		}
	}
	return files
}

const overProc = "24 23 0:30 / /proc/driver/nvidia rw - tmpfs tmpfs rw\n25 22 8:1 /x /usr/lib/libnvidia-ml.so.1 rw - ext4 /dev/sda1 rw\n26 22 8:1 /y /mnt/a\\040b rw - ext4 /dev/sda1 rw\n"

// What the kernel shows is read; who cannot tell whether it is in a container says
// that it is.
func TestDriverFiles(t *testing.T) {
	numbers := func(p string) (int, int, error) {
		switch filepath.Base(p) {
		case "nvidia0":
			return 195, 0, nil
		case "nvidiactl":
			return 195, 255, nil
		}
		return 0, 0, errors.New("no such device")
	}
	base := bare(nil)["proc/self/mountinfo"]
	for _, c := range []struct {
		name   string
		change map[string]string
		want   func(*api.DriverFiles) bool
	}{
		{"a machine", nil, func(f *api.DriverFiles) bool {
			return !f.Container && f.Mounts == nil && f.Unknown == nil && len(*f.Devices) == 2 && f.PciListed && len(*f.Pci) == 1 && (*f.Pci)[0] == api.PCIDevice{Bus: "0000:01:00.0", Vendor: "0x10de", Device: "0x20b2"}
		}},
		{"mounts over the driver", map[string]string{"proc/self/mountinfo": base + overProc}, func(f *api.DriverFiles) bool {
			return !f.Container && len(*f.Mounts) == 2 && (*f.Mounts)[0] == api.DriverMount{Path: "/proc/driver/nvidia", Type: "tmpfs"}
		}},
		{"docker", map[string]string{".dockerenv": "", "proc/self/mountinfo": base + overProc}, func(f *api.DriverFiles) bool { return f.Container && len(*f.Mounts) == 2 }},
		{"a root of layers", map[string]string{"proc/self/mountinfo": strings.Replace(base, "ext4", "overlay", 1)}, func(f *api.DriverFiles) bool { return f.Container }},
		{"kubernetes", map[string]string{"proc/self/cgroup": "0::/kubepods/burstable/pod1/abc\n"}, func(f *api.DriverFiles) bool { return f.Container }},
		{"a user namespace", map[string]string{"proc/self/uid_map": "0 1000 1\n"}, func(f *api.DriverFiles) bool { return f.Container }},
		{"lxc", map[string]string{"proc/self/mountinfo": base + "30 23 0:40 /proc/cpuinfo /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n"}, func(f *api.DriverFiles) bool { return f.Container }},
		{"no mountinfo", map[string]string{"proc/self/mountinfo": "-"}, func(f *api.DriverFiles) bool { return f.Container && len(*f.Unknown) == 1 }},
		{"garbage for mountinfo", map[string]string{"proc/self/mountinfo": "\x00\n- - -\n"}, func(f *api.DriverFiles) bool { return f.Container && f.Mounts == nil }},
		{"no cgroup", map[string]string{"proc/self/cgroup": "-"}, func(f *api.DriverFiles) bool { return f.Container }},
		{"a bus with a gap", map[string]string{"sys/bus/pci/devices/0000:00:1f.0/class": ""}, func(f *api.DriverFiles) bool { return !f.PciListed && f.Pci == nil && f.Unknown != nil }},
		{"a device that cannot be looked at", map[string]string{"dev/nvidia-uvm": ""}, func(f *api.DriverFiles) bool { return len(*f.Devices) == 2 && len(*f.Unknown) == 1 }},
		{"nothing of such a driver", map[string]string{"dev/nvidia0": "-", "dev/nvidiactl": "-", "sys/bus/pci/devices/0000:01:00.0/vendor": "0x1002"}, func(f *api.DriverFiles) bool { return f == nil }},
	} {
		if got := read(machine(t, bare(c.change)), numbers); !c.want(got) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := read(filepath.Join(t.TempDir(), "none"), numbers); got != nil {
		t.Errorf("where nothing can be read: %+v", got)
	}
}

// A device node is told from a file.
func TestDeviceNumbers(t *testing.T) {
	if major, minor, err := deviceNumbers("/dev/null"); err != nil || major != 1 || minor != 3 {
		t.Errorf("/dev/null is %d:%d, %v", major, minor, err)
	}
	if major, _, err := deviceNumbers(machine(t, map[string]string{"f": ""}) + "/f"); err != nil || major != -1 {
		t.Errorf("a file is %d, %v", major, err)
	}
}
