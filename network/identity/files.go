package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/network/control"
)

// Files is what a node's kernel shows of its driver, as its agent saw it. What could
// not be read is absent and said in Unknown; nothing is concluded from it.
type Files struct {
	Container bool // or nobody knows that it is none
	Mounts    []Mount
	Devices   []Device
	PCI       []PCI
	PCIListed bool // the bus was listed, whether or not it has a card
}

// Mount is a mount at a place of the driver.
type Mount struct{ Path, Type string }

// Device is a device node of the driver. Major and Minor are -1 for what is no
// device.
type Device struct {
	Path         string
	Major, Minor int
}

// PCI is a display controller or accelerator on the bus.
type PCI struct {
	Bus            string
	Vendor, Device string // as sysfs has them: 0x10de
}

const nvidiaMajor = 195 // character devices of the driver

var (
	driverPlace = regexp.MustCompile(`^(/proc/driver/nvidia(/.*)?|/dev/nvidia[^/]*|.*/libnvidia-ml\.so(\.[0-9.]+)?)$`)
	cardNode    = regexp.MustCompile(`^/dev/nvidia([0-9]{1,3})$`)
)

// IsDriverPlace says whether a path is one that belongs to NVIDIA's driver.
func IsDriverPlace(path string) bool { return driverPlace.MatchString(path) }

// DriverFiles judges what the kernel shows against what the driver says of the
// node's cards.
func DriverFiles(node string, f Files, cards []Card) (out []Finding) {
	out = append(out, mounted(node, f)...)
	if x, ok := devices(node, f); ok {
		out = append(out, x)
	}
	for _, c := range cards {
		if x, ok := onBus(node, f, c); ok {
			out = append(out, x)
		}
	}
	return out
}

// mounted: a driver that was installed has no mounts. NVIDIA's container toolkit
// makes them, so in a container they tell nothing.
func mounted(node string, f Files) []Finding {
	var at []string
	for _, m := range f.Mounts {
		if IsDriverPlace(m.Path) {
			at = append(at, m.Path)
		}
	}
	if len(at) == 0 {
		return nil
	}
	slices.Sort(at)
	text := fmt.Sprintf("%d of the driver's files are mounts, as %s", len(at), strings.Join(at[:min(3, len(at))], ", "))
	if f.Container {
		return []Finding{unknown(node, control.FindMounted, "driver", text+": in a container that is how they come")}
	}
	return []Finding{found(node, control.FindMounted, "driver", text+", and it is no container")}
}

// devices: the node of card N is the character device 195:N, on every system.
func devices(node string, f Files) (Finding, bool) {
	for _, d := range f.Devices {
		m := cardNode.FindStringSubmatch(d.Path)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err == nil && (d.Major != nvidiaMajor || d.Minor != n) {
			what := fmt.Sprintf("the device %d:%d", d.Major, d.Minor)
			if d.Major < 0 {
				what = "no device"
			}
			return found(node, control.FindMismatch, "device "+d.Path, fmt.Sprintf("%s is %s, and the driver's is %d:%d", d.Path, what, nvidiaMajor, n)), true
		}
	}
	return Finding{}, false
}

// onBus looks for a card where the driver says that it is.
func onBus(node string, f Files, c Card) (Finding, bool) {
	makes := generationOf(c.Name)
	if makes == nil || c.Bus == "" || !f.PCIListed {
		return Finding{}, false // not NVIDIA's, of a model that is not known, or not to be seen
	}
	at := bus(c.Bus)
	i := slices.IndexFunc(f.PCI, func(p PCI) bool { return bus(p.Bus) == at })
	subject := "gpu " + c.UUID
	if i < 0 {
		text := fmt.Sprintf("the driver shows %s at %s, and there is nothing on the bus", c.Name, c.Bus)
		if f.Container {
			return unknown(node, control.FindMismatch, subject, text+" that a container can see"), true
		}
		return found(node, control.FindMismatch, subject, text), true
	}
	p := f.PCI[i]
	vendor, device := hex16(p.Vendor), hex16(p.Device)
	switch {
	case vendor == "" || device == "":
		return Finding{}, false
	case vendor != "10de":
		return found(node, control.FindMismatch, subject, fmt.Sprintf("the driver shows %s at %s, and the card there is of the vendor %s", c.Name, c.Bus, vendor)), true
	case knownGeneration(device) && !slices.Contains(makes, device[:2]):
		return found(node, control.FindMismatch, subject, fmt.Sprintf("the driver shows %s at %s, and the card there has the device id %s, of another generation", c.Name, c.Bus, device)), true
	}
	return Finding{}, false
}

var fourDigits = regexp.MustCompile(`^[0-9a-f]{4}$`)

// hex16 is a PCI id of four digits; empty for what is none.
func hex16(s string) string {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "0x")
	if !fourDigits.MatchString(s) {
		return ""
	}
	return s
}
