package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// Check compares the machine with what a file requires, and says what to do about
// what is missing. What cannot be read is unknown, with the reason.
func (m *Machine) Check(r claims.Requirements, dir string) []claims.Prerequisite {
	var out []claims.Prerequisite
	if r.CPUs > 0 {
		have, ok := m.number("cpus")
		out = append(out, enough("CPUs", float64(r.CPUs), have, ok, "cpuinfo cannot be read", "", func(v float64) string { return strconv.Itoa(int(v)) }))
	}
	bytes := func(v float64) string { return claims.FormatValue(v, "bytes") }
	if r.Memory > 0 {
		kb, ok := m.number("MemTotal")
		out = append(out, enough("memory", r.Memory, kb*1024, ok, "meminfo cannot be read", "", bytes))
	}
	if r.Disk > 0 {
		have, err := freeDisk(dir)
		why := ""
		if err != nil {
			why = err.Error()
		}
		out = append(out, enough("disk", r.Disk, have, err == nil, why, "free some of "+dir+", or name another directory by --scratch", bytes))
	}
	if r.Kernel != "" {
		out = append(out, newer("kernel", r.Kernel, m.release(), "neither sys/kernel/osrelease nor version can be read", "install a newer kernel"))
	}
	if r.CUDA != "" {
		out = append(out, newer("CUDA", r.CUDA, m.facts["cuda"], m.noGPU(), "install NVIDIA's driver, which says the CUDA version that it supports in nvidia-smi"))
	}
	if r.GPUMemory > 0 {
		have, ok := m.gpuMemory()
		out = append(out, enough("GPU memory", r.GPUMemory, have, ok, m.noGPU(), "", bytes))
	}
	for _, name := range r.Modules {
		out = append(out, m.module(name))
	}
	for _, name := range r.Programs {
		p := claims.Prerequisite{What: "program " + name, Wanted: "in PATH", Verdict: assay.Pass}
		path, err := exec.LookPath(name)
		if p.Have = path; err != nil {
			p.Have, p.Verdict, p.Do = "none", assay.Fail, "install it"
		}
		out = append(out, p)
	}
	return out
}

// enough compares an amount.
func enough(what string, want, have float64, known bool, why, do string, format func(float64) string) claims.Prerequisite {
	p := claims.Prerequisite{What: what, Wanted: "at least " + format(want)}
	switch {
	case !known:
		p.Have = why
	case have >= want:
		p.Have, p.Verdict = format(have), assay.Pass
	default:
		p.Have, p.Verdict, p.Do = format(have), assay.Fail, do
	}
	return p
}

// newer compares a version.
func newer(what, want, have, why, do string) claims.Prerequisite {
	p := claims.Prerequisite{What: what, Wanted: "at least " + want, Have: have}
	switch is, known := claims.AtLeast(have, want); {
	case !known:
		p.Have, p.Do = why, do
	case is:
		p.Verdict = assay.Pass
	default:
		p.Verdict, p.Do = assay.Fail, do
	}
	return p
}

// release is the kernel's version; empty: it cannot be read.
func (m *Machine) release() string {
	if text := strings.TrimSpace(m.read(m.o.ProcRoot, "sys/kernel/osrelease")); text != "" {
		return text
	}
	if f := strings.Fields(m.read(m.o.ProcRoot, "version")); len(f) >= 3 {
		return f[2] // Linux version 6.14.0-…
	}
	return ""
}

// module looks among those that are loaded and those that are part of the kernel.
func (m *Machine) module(name string) claims.Prerequisite {
	p := claims.Prerequisite{What: "kernel module " + name, Wanted: "loaded", Have: "loaded", Verdict: assay.Pass}
	file := strings.ReplaceAll(name, "-", "_") // as the kernel names it
	if slices.Contains(strings.Fields(m.facts["modules"]), file) {
		return p
	}
	if _, err := os.Stat(filepath.Join(m.o.SysRoot, "module", file)); err == nil {
		p.Have = "part of the kernel"
		return p
	}
	p.Have, p.Verdict, p.Do = "none of this name", assay.Fail, "sudo modprobe "+name
	return p
}

// noGPU is why nothing is known of one.
func (m *Machine) noGPU() string {
	first, _, _ := strings.Cut(m.texts["gpu_info.txt"], "\n")
	if text, ok := strings.CutPrefix(first, "no GPU information: "); ok {
		return text
	}
	return "nvidia-smi -q does not say"
}

// gpuMemory is that of the GPU with the most.
func (m *Machine) gpuMemory() (bytes float64, ok bool) {
	for _, g := range m.gpus {
		v, err := strconv.ParseFloat(strings.TrimSuffix(g.facts["FB Memory Usage/Total"], " MiB"), 64)
		if err == nil && v > 0 {
			bytes, ok = max(bytes, v*(1<<20)), true
		}
	}
	return bytes, ok
}

// cudaVersion is what stands in the head of nvidia-smi -q.
func cudaVersion(text string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, " : ")
		switch {
		case strings.HasPrefix(line, "GPU "):
			return ""
		case ok && strings.TrimSpace(key) == "CUDA Version":
			return strings.TrimSpace(value)
		}
	}
	return ""
}

var errNoDirectory = errors.New("no directory was given to write to")
