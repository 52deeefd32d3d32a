package verify

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Model is what the maker says of one model of GPU, as one device shows itself: a
// card with two chips is two devices. A zero is not known and is not compared.
type Model struct {
	// Name is the name that the driver gives; several entries may share it, where
	// one name was sold with different silicon or memory.
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Vendor  string   `json:"vendor"`
	// SMs are NVIDIA's streaming multiprocessors or AMD's compute units.
	SMs          int     `json:"sms"`
	LanesPerSM   int     `json:"fp32_lanes_per_sm"`
	BoostHz      float64 `json:"boost_hz"`
	BusWidthBits int     `json:"bus_width_bits"`
	// MemoryBytes is the size on the box, in powers of two where the maker means
	// that; drivers show up to 12 % less.
	MemoryBytes uint64  `json:"memory_bytes"`
	FP32        float64 `json:"peak_fp32_flops"`
	Bandwidth   float64 `json:"peak_bandwidth_bytes_per_second"`
	Source      string  `json:"source"`
	Compared    string  `json:"compared"` // what a second collection has
	Note        string  `json:"note,omitempty"`
}

// Catalog is a list of models.
type Catalog []Model

//go:embed catalog.json
var catalogJSON []byte

// ShippedCatalog is the catalogue that comes with this version.
func ShippedCatalog() (Catalog, error) { return ParseCatalog(catalogJSON) }

// ParseCatalog reads a catalogue: {"models": […]}.
func ParseCatalog(b []byte) (Catalog, error) {
	var file struct {
		Models Catalog `json:"models"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return file.Models, nil
}

// Find gives the entries of a name; several are variants of one name.
func (c Catalog) Find(name string) []Model {
	want := canonicalName(name)
	if want == "" {
		return nil
	}
	var found []Model
	for _, m := range c {
		match := canonicalName(m.Name) == want
		for _, a := range m.Aliases {
			match = match || canonicalName(a) == want
		}
		if match {
			found = append(found, m)
		}
	}
	return found
}

// disagreements are the ways in which an identity is not this model. known says
// how many figures could be compared.
func (m Model) disagreements(id Identity) (bad []string, known int) {
	if id.SMs > 0 && m.SMs > 0 {
		known++
		if id.SMs != m.SMs {
			bad = append(bad, fmt.Sprintf("%d SMs by %s, the catalogue has %d", id.SMs, id.Source, m.SMs))
		}
	}
	if id.BusWidthBits > 0 && m.BusWidthBits > 0 {
		known++
		if id.BusWidthBits != m.BusWidthBits {
			bad = append(bad, fmt.Sprintf("a memory bus of %d bits by %s, the catalogue has %d", id.BusWidthBits, id.Source, m.BusWidthBits))
		}
	}
	if id.MemoryBytes > 0 && m.MemoryBytes > 0 {
		known++
		// Drivers keep a part for themselves, and ECC in ordinary memory takes a
		// sixteenth.
		if r := float64(id.MemoryBytes) / float64(m.MemoryBytes); r < 0.88 || r > 1.02 {
			bad = append(bad, fmt.Sprintf("%.1f GiB of memory by %s, the catalogue has %.1f", gib(id.MemoryBytes), id.Source, gib(m.MemoryBytes)))
		}
	}
	return bad, known
}

func gib(b uint64) float64 { return float64(b) / (1 << 30) }
