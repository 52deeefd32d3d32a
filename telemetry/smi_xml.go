package telemetry

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/assay-bench/assay"
)

// smiLog is what is taken from nvidia-smi -q -x. Names changed between drivers;
// both are read.
type smiLog struct {
	Driver string   `xml:"driver_version"`
	CUDA   string   `xml:"cuda_version"`
	GPUs   []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	ID      string `xml:"id,attr"`
	Name    string `xml:"product_name"`
	UUID    string `xml:"uuid"`
	Serial  string `xml:"serial"`
	VBIOS   string `xml:"vbios_version"`
	MIG     string `xml:"mig_mode>current_mig"`
	Virtual string `xml:"gpu_virtualization_mode>virtualization_mode"`
	BusID   string `xml:"pci>pci_bus_id"`
	Memory  string `xml:"fb_memory_usage>total"`
	SM      string `xml:"max_clocks>sm_clock"`
	Mem     string `xml:"max_clocks>mem_clock"`
	// Drivers up to 530 say power_readings, later ones gpu_power_readings.
	LimitOld string `xml:"power_readings>enforced_power_limit"`
	Limit    string `xml:"gpu_power_readings>current_power_limit"`
}

// parseSMILog reads nvidia-smi -q -x. What is not said there stays empty.
func parseSMILog(r io.Reader) ([]assay.GPU, error) {
	limited := &io.LimitedReader{R: r, N: maxPage}
	dec := xml.NewDecoder(limited)
	var log smiLog
	if err := dec.Decode(&log); err != nil {
		if limited.N <= 0 {
			return nil, fmt.Errorf("the answer is longer than %d bytes", maxPage)
		}
		return nil, err
	}
	if len(log.GPUs) > maxGPUs {
		return nil, fmt.Errorf("%d GPUs in one machine are not believed", len(log.GPUs))
	}
	var gpus []assay.GPU
	for i, g := range log.GPUs {
		gpu := assay.GPU{
			UUID: spoken(g.UUID), Name: spoken(g.Name), Index: i, Source: "nvidia-smi",
			PCIBusID: spoken(g.BusID), Serial: spoken(g.Serial), VBIOS: spoken(g.VBIOS),
			Driver: spoken(log.Driver), CUDA: spoken(log.CUDA),
			MemoryBytes:      int64(quantity(g.Memory, "MiB", 1<<20, "bytes")),
			MaxSMClockHz:     quantity(g.SM, "MHz", 1e6, "hertz"),
			MaxMemoryClockHz: quantity(g.Mem, "MHz", 1e6, "hertz"),
			PowerLimitWatts:  quantity(g.Limit, "W", 1, "watts"),
		}
		if gpu.PCIBusID == "" {
			gpu.PCIBusID = spoken(g.ID)
		}
		if gpu.PowerLimitWatts == 0 {
			gpu.PowerLimitWatts = quantity(g.LimitOld, "W", 1, "watts")
		}
		switch strings.ToLower(spoken(g.MIG)) {
		case "enabled":
			gpu.MIG = "enabled"
		case "disabled":
			gpu.MIG = "disabled"
		}
		switch strings.ToLower(spoken(g.Virtual)) {
		case "none":
			gpu.VGPU = "none"
		case "pass-through":
			gpu.VGPU = "passthrough"
		case "vgpu":
			gpu.VGPU = "vgpu"
		case "host vgpu":
			gpu.VGPU = "host-vgpu"
		case "host vsga":
			gpu.VGPU = "host-vsga"
		}
		gpus = append(gpus, gpu)
	}
	return gpus, nil
}

// spoken is a word that says something: not one of nvidia-smi's ways of saying
// nothing.
func spoken(s string) string {
	s = word(s)
	switch low := strings.ToLower(strings.Trim(s, "[]")); {
	case low == "n/a", low == "not supported", low == "unknown error", low == "err!", low == "unknown",
		low == "insufficient permissions", low == "gpu requires reset", saysLost(low),
		strings.HasPrefix(low, "requested functionality"):
		return ""
	}
	return s
}

// quantity reads "24564 MiB"; 0 is what is not said.
func quantity(s, unit string, factor float64, base string) float64 {
	digits, ok := strings.CutSuffix(strings.TrimSpace(s), " "+unit)
	if !ok {
		return 0
	}
	v, ok := decimal(strings.TrimSpace(digits))
	if !ok {
		return 0
	}
	if v, ok = plausible("", base, v*factor); !ok {
		return 0
	}
	return v
}
