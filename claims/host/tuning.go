package host

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/claims"
)

// tuning is advice on the host's settings.
func (m *Machine) tuning() []claims.Advice {
	var out []claims.Advice
	add := func(about, text, evidence, command string) {
		out = append(out, claims.Advice{Kind: "tuning", About: about, Text: text, Evidence: []string{evidence}, Command: command})
	}
	if g := m.facts["governors"]; g != "" && g != "performance" {
		add("CPU governor", "CPU clocks follow the load, so short work meets slow clocks and latencies vary.",
			"scaling_governor: "+g, "sudo cpupower frequency-set -g performance")
	}
	if m.facts["no_turbo"] == "1" {
		add("CPU turbo", "Turbo clocks are off: steadier, and slower. Leave it off where steadiness is what is promised.",
			"intel_pstate/no_turbo: 1", "echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo")
	}
	if m.facts["boost"] == "0" {
		add("CPU turbo", "Boost clocks are off: steadier, and slower. Leave it off where steadiness is what is promised.",
			"cpufreq/boost: 0", "echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost")
	}
	switch chosen(m.facts["thp"]) {
	case "always":
		add("transparent huge pages", "The kernel makes huge pages for everybody and compacts memory while programs wait; programs that gain from them can ask by madvise.",
			"transparent_hugepage/enabled: "+m.facts["thp"], "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
	case "never":
		add("transparent huge pages", "Huge pages are off even for programs that ask for them; large models and pinned buffers gain from them.",
			"transparent_hugepage/enabled: "+m.facts["thp"], "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
	}
	out = append(out, m.memoryTuning()...)
	return out
}

func (m *Machine) memoryTuning() []claims.Advice {
	var out []claims.Advice
	add := func(about, text, evidence, command string) {
		out = append(out, claims.Advice{Kind: "tuning", About: about, Text: text, Evidence: []string{evidence}, Command: command})
	}
	total, okTotal := m.number("SwapTotal")
	free, okFree := m.number("SwapFree")
	swappiness, okSwappiness := m.number("vm.swappiness")
	switch used := total - free; {
	case okTotal && okFree && used > 1024: // kB: less is left over from boot
		add("swap", "Memory lies in swap: what is touched there takes a disk's time.",
			fmt.Sprintf("meminfo: %.0f of %.0f MB of swap in use", used/1000, total/1000), "sudo swapoff -a")
	case okTotal && total > 0 && okSwappiness && swappiness > 10:
		add("vm.swappiness", "The kernel swaps programs out in favour of the page cache; an inference node wants its programs in memory.",
			fmt.Sprintf("vm.swappiness = %s, %.0f MB of swap", m.facts["vm.swappiness"], total/1000), "sudo sysctl -w vm.swappiness=10")
	}
	if v, ok := m.number("vm.zone_reclaim_mode"); ok && v != 0 {
		add("vm.zone_reclaim_mode", "A node's memory is reclaimed before that of another node is used: allocations stall.",
			"vm.zone_reclaim_mode = "+m.facts["vm.zone_reclaim_mode"], "sudo sysctl -w vm.zone_reclaim_mode=0")
	}
	memory, okMemory := m.number("MemTotal")
	// A fifth of 64 GB is 13 GB that a sync may have to wait for.
	if v, ok := m.number("vm.dirty_ratio"); ok && okMemory && v >= 20 && memory > 32<<20 {
		add("vm.dirty_ratio", "Much written data may wait in memory and then go out at once, holding up whoever writes.",
			fmt.Sprintf("vm.dirty_ratio = %s of %.0f GB", m.facts["vm.dirty_ratio"], memory/1e6), "sudo sysctl -w vm.dirty_ratio=10 vm.dirty_background_ratio=5")
	}
	if v, ok := m.number("vm.overcommit_memory"); ok && v == 2 {
		add("vm.overcommit_memory", "Memory is promised strictly: large reservations, as CUDA makes them, are refused.",
			"vm.overcommit_memory = 2", "sudo sysctl -w vm.overcommit_memory=0")
	}
	if v, ok := m.number("vm.max_map_count"); ok && v < 65530 {
		add("vm.max_map_count", "Fewer mappings than usual are allowed to a process; engines map many files.",
			"vm.max_map_count = "+m.facts["vm.max_map_count"], "sudo sysctl -w vm.max_map_count=262144")
	}
	if v, ok := m.number("kernel.numa_balancing"); ok && v > 0 {
		add("kernel.numa_balancing", "The kernel moves pages between memory nodes and makes page faults to learn where they are used; programs that are bound to a node pay for nothing.",
			"kernel.numa_balancing = "+m.facts["kernel.numa_balancing"], "sudo sysctl -w kernel.numa_balancing=0")
	}
	return out
}

// chosen is the word in brackets: "always [madvise] never".
func chosen(text string) string {
	_, after, _ := strings.Cut(text, "[")
	word, _, ok := strings.Cut(after, "]")
	if !ok {
		return ""
	}
	return word
}

// gpuTuning is advice on each NVIDIA GPU's settings.
func (m *Machine) gpuTuning() []claims.Advice {
	var out []claims.Advice
	for i, g := range m.gpus {
		about := "GPU " + strconv.Itoa(i)
		if name := g.facts["Product Name"]; name != "" {
			about += " (" + name + ")"
		}
		at := "-i " + strconv.Itoa(i)
		if g.facts["Persistence Mode"] == "Disabled" {
			out = append(out, claims.Advice{Kind: "tuning", About: about, Text: "Persistence mode is off: the driver unloads when nobody uses the GPU, and the next start takes seconds.",
				Evidence: []string{"nvidia-smi -q: Persistence Mode: Disabled"}, Command: "sudo nvidia-smi " + at + " -pm 1"})
		}
		now, okNow := megahertz(g.facts["Applications Clocks/Graphics"])
		highest, okHighest := megahertz(g.facts["Max Clocks/Graphics"])
		memory, okMemory := megahertz(g.facts["Max Clocks/Memory"])
		if okNow && okHighest && now < highest {
			command := fmt.Sprintf("sudo nvidia-smi %s -lgc %d", at, highest)
			if okMemory {
				command = fmt.Sprintf("sudo nvidia-smi %s -ac %d,%d", at, memory, highest)
			}
			out = append(out, claims.Advice{Kind: "tuning", About: about, Text: "The application clock is below the highest: a limit that somebody set, or the default of this card. Higher needs power and cooling.",
				Evidence: []string{fmt.Sprintf("nvidia-smi -q: application clock %d MHz, highest %d MHz", now, highest)}, Command: command})
		}
		for _, section := range []string{"Clocks Event Reasons", "Clocks Throttle Reasons"} {
			for _, reason := range []string{"HW Slowdown", "HW Slowdown/HW Thermal Slowdown", "HW Slowdown/HW Power Brake Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown"} {
				if g.facts[section+"/"+reason] == "Active" {
					out = append(out, claims.Advice{Kind: "hardware", About: about, Text: "The GPU was slowed down when the run began: look at its cooling and its power supply before its figures.",
						Evidence: []string{"nvidia-smi -q: " + section + ": " + reason + ": Active"}})
				}
			}
		}
	}
	return out
}

func megahertz(text string) (int, bool) {
	v, err := strconv.Atoi(strings.TrimSuffix(text, " MHz"))
	return v, err == nil && v > 0
}
