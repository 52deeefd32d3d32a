// Package driver looks at what a node's kernel shows of NVIDIA's driver, for the
// server to compare with what the driver says of itself: mounts at its places, its
// device nodes, and the cards on the PCI bus.
//
// It promises to read only, within bounds, and to name what it could not read: who
// cannot tell whether it is in a container says that it is, as there the driver's
// files are mounts for honest reasons. It refuses to judge.
package driver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// Bounds of what is read and sent of the driver's files.
const (
	maxFiles     = 64
	maxMountinfo = 4 << 20
	maxPCI       = 4096
	maxUnknown   = 16
)

// look is a look at what the kernel shows of NVIDIA's driver.
type look struct {
	root  string                                          // of the file system; a test's
	stat  func(path string) (major, minor int, err error) // of a device node
	out   api.DriverFiles
	found bool // something is NVIDIA's
}

// Read looks at the file system under a root. Nil: there is nothing of such a
// driver.
func Read(root string) *api.DriverFiles { return read(root, deviceNumbers) }

func read(root string, stat func(string) (int, int, error)) *api.DriverFiles {
	d := &look{root: root, stat: stat}
	mounts, err := d.mountinfo()
	if err != nil {
		d.unknown("mounts", err)
	}
	// Who cannot tell is as one in a container: nothing is concluded from mounts.
	d.out.Container = err != nil || d.inContainer(mounts)
	d.mounts(mounts)
	d.devices()
	d.pci()
	if !d.found {
		return nil
	}
	return &d.out
}

func (d *look) at(p string) string { return filepath.Join(d.root, p) }

func (d *look) unknown(what string, err error) {
	list := []string{}
	if d.out.Unknown != nil {
		list = *d.out.Unknown
	}
	if len(list) >= maxUnknown {
		return
	}
	list = append(list, foreign.Line(fmt.Sprintf("%s: %v", what, err), 200))
	d.out.Unknown = &list
}

// mount is a line of mountinfo.
type mount struct{ at, kind string }

func (d *look) mountinfo() ([]mount, error) {
	b, err := head(d.at("/proc/self/mountinfo"), maxMountinfo)
	if err != nil {
		return nil, err
	}
	var out []mount
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		fields, kinds := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kinds) < 1 {
			continue
		}
		out = append(out, mount{at: unescape(fields[4]), kind: kinds[0]})
	}
	if len(out) == 0 {
		return nil, errors.New("no mount was read")
	}
	return out, nil
}

// unescape reads the kernel's \040 for a space and its like.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// inContainer looks for what containers of the usual runtimes have. A root that is
// laid over others, or a user namespace, is as good as one: who made it may mount
// what they like.
func (d *look) inContainer(mounts []mount) bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/.singularity.d", "/dev/.lxc-boot-id"} {
		if _, err := os.Lstat(d.at(mark)); err == nil {
			return true
		}
	}
	for _, m := range mounts {
		if m.kind == "fuse.lxcfs" || m.at == "/" && slices.Contains([]string{"overlay", "aufs", "fuse.fuse-overlayfs", "9p", "virtiofs", "zfs-overlay", "tmpfs"}, m.kind) {
			return true
		}
	}
	b, err := head(d.at("/proc/self/cgroup"), 64<<10)
	if err != nil {
		return true // nobody knows
	}
	for _, word := range []string{"docker", "kubepods", "containerd", "crio", "libpod", "/lxc", "machine.slice", "/actions_job"} {
		if strings.Contains(string(b), word) {
			return true
		}
	}
	ids, err := head(d.at("/proc/self/uid_map"), 4<<10)
	if err != nil {
		return true
	}
	return strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295"
}

// mounts keeps those at the driver's places. The server looks again which they are.
func (d *look) mounts(all []mount) {
	var list []api.DriverMount
	for _, m := range all {
		if len(list) < maxFiles && (strings.HasPrefix(m.at, "/proc/driver/nvidia") || strings.HasPrefix(m.at, "/dev/nvidia") || strings.Contains(m.at, "libnvidia-ml.so")) {
			list = append(list, api.DriverMount{Path: foreign.Line(m.at, 200), Type: foreign.Line(m.kind, 50)})
		}
	}
	if len(list) > 0 {
		d.found, d.out.Mounts = true, &list
	}
}

// devices keeps the driver's device nodes.
func (d *look) devices() {
	entries, err := os.ReadDir(d.at("/dev"))
	if err != nil {
		d.unknown("/dev", err)
		return
	}
	var list []api.DriverDevice
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "nvidia") || e.IsDir() || len(list) >= maxFiles {
			continue
		}
		major, minor, err := d.stat(d.at("/dev/" + e.Name()))
		if err != nil {
			d.unknown("/dev/"+e.Name(), err)
			continue
		}
		list = append(list, api.DriverDevice{Path: foreign.Line("/dev/"+e.Name(), 200), Major: major, Minor: minor})
	}
	if len(list) > 0 {
		d.found, d.out.Devices = true, &list
	}
}

// pci keeps the cards on the bus: class 03 is a display controller, 12 an
// accelerator.
func (d *look) pci() {
	const dir = "/sys/bus/pci/devices"
	entries, err := os.ReadDir(d.at(dir))
	if err != nil || len(entries) == 0 || len(entries) > maxPCI {
		d.unknown(dir, errors.Join(err, fmt.Errorf("%d devices", len(entries))))
		return
	}
	var list []api.PCIDevice
	for _, e := range entries {
		word := func(file string) string {
			b, err := head(d.at(dir+"/"+e.Name()+"/"+file), 20)
			if err != nil {
				return ""
			}
			return foreign.Line(strings.TrimSpace(string(b)), 10)
		}
		if class := word("class"); !strings.HasPrefix(class, "0x03") && !strings.HasPrefix(class, "0x12") {
			if class == "" {
				d.unknown(dir+"/"+e.Name(), errors.New("its class cannot be read"))
				return // a list with a gap is none
			}
			continue
		}
		if len(list) >= maxFiles {
			d.unknown(dir, fmt.Errorf("it has more than %d cards", maxFiles))
			return
		}
		one := api.PCIDevice{Bus: foreign.Line(e.Name(), 100), Vendor: word("vendor"), Device: word("device")}
		d.found = d.found || one.Vendor == "0x10de"
		list = append(list, one)
	}
	d.out.PciListed, d.out.Pci = true, &list
}

// head is the beginning of a file.
func head(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
