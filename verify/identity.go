package verify

import (
	"regexp"
	"strings"
)

// Identity is what one source says of one GPU. A field that the source did not
// give is empty or zero: it is not compared.
type Identity struct {
	Source       string  `json:"source"` // nvml, nvidia-smi, sysfs, opencl, cuda
	Name         string  `json:"name,omitempty"`
	UUID         string  `json:"uuid,omitempty"`
	Serial       string  `json:"serial,omitempty"`
	VBIOS        string  `json:"vbios,omitempty"`
	PCIBusID     string  `json:"pci_bus_id,omitempty"`
	MaxSMHz      float64 `json:"max_sm_hz,omitempty"`
	MaxMemoryHz  float64 `json:"max_memory_hz,omitempty"`
	MemoryBytes  uint64  `json:"memory_bytes,omitempty"`
	Driver       string  `json:"driver,omitempty"`
	CUDA         string  `json:"cuda,omitempty"`
	SMs          int     `json:"sms,omitempty"` // SMs, or CUs of AMD
	BusWidthBits int     `json:"bus_width_bits,omitempty"`
	// MIG and VGPU are "on" or "off"; empty is not known.
	MIG  string `json:"mig,omitempty"`
	VGPU string `json:"vgpu,omitempty"`
	// OtherProcesses counts the processes on the GPU that are not ours; nil is
	// not known.
	OtherProcesses *int `json:"other_processes,omitempty"`
}

// canonicalUUID makes GPU-xxxxxxxx-xxxx-… and bare hexadecimal the same.
func canonicalUUID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	s = strings.TrimPrefix(strings.TrimPrefix(s, "gpu-"), "mig-")
	return strings.ReplaceAll(s, "-", "")
}

// canonicalBusID makes 00000000:01:00.0 and 0000:01:00.0 the same.
func canonicalBusID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	domain, rest, ok := strings.Cut(s, ":")
	if !ok {
		return s
	}
	if !strings.Contains(rest, ":") { // without a domain
		return "0000:" + s
	}
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + rest
}

var nameNoise = regexp.MustCompile(`(?i)\((tm|r|c)\)|[™®]|\b(nvidia|amd|ati|graphics|corporation)\b`)

// canonicalName leaves of a name what tells models apart.
func canonicalName(s string) string {
	s = nameNoise.ReplaceAllString(s, " ")
	s = strings.NewReplacer("-", " ", "_", " ", "/", " ").Replace(strings.ToLower(s))
	return strings.Join(strings.Fields(s), " ")
}

// deviceName is what a GPU is called in checks: the UUID as the sources of
// readings write it, so that a check can be laid beside them; else what the
// compute API gives.
func deviceName(group []Identity, otherwise string) string {
	for _, id := range group {
		if id.UUID != "" && id.Source != "opencl" && id.Source != "cuda" {
			return id.UUID
		}
	}
	return otherwise
}

// Group puts together what is about the same GPU: by bus id, then by UUID. What
// has neither joins the only GPU there is, or the only one of its name; else it
// stands alone.
func Group(ids []Identity) [][]Identity {
	var groups [][]Identity
	var loose []Identity
	for _, id := range ids {
		if id.UUID == "" && id.PCIBusID == "" {
			loose = append(loose, id)
			continue
		}
		if i := find(groups, id.sameGPU); i >= 0 {
			groups[i] = append(groups[i], id)
		} else {
			groups = append(groups, []Identity{id})
		}
	}
	firm := len(groups)
	for _, id := range loose {
		var of []int
		for i, g := range groups[:firm] {
			if firm == 1 && !hasSource(g, id.Source) || firm > 1 && canonicalName(g[0].Name) == canonicalName(id.Name) {
				of = append(of, i)
			}
		}
		if len(of) == 1 {
			groups[of[0]] = append(groups[of[0]], id)
		} else {
			groups = append(groups, []Identity{id})
		}
	}
	return groups
}

func hasSource(g []Identity, source string) bool {
	for _, id := range g {
		if id.Source == source {
			return true
		}
	}
	return false
}

func find(groups [][]Identity, same func(Identity) bool) int {
	for i, g := range groups {
		for _, id := range g {
			if same(id) {
				return i
			}
		}
	}
	return -1
}

// sameGPU goes by the bus id where both have one: two sources that differ on the
// UUID of one slot are a mismatch to report, not two GPUs. Two lines of one
// source are two devices.
func (id Identity) sameGPU(b Identity) bool {
	if id.Source == b.Source {
		return false
	}
	if id.PCIBusID != "" && b.PCIBusID != "" {
		return canonicalBusID(id.PCIBusID) == canonicalBusID(b.PCIBusID)
	}
	return id.UUID != "" && canonicalUUID(id.UUID) == canonicalUUID(b.UUID)
}
