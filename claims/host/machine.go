package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
)

// MachineOptions say where a machine is read. The zero value reads this one.
type MachineOptions struct {
	// ProcRoot and SysRoot are where procfs and sysfs are; empty: /proc, /sys.
	ProcRoot, SysRoot string
	// NvidiaSMI is the command that tells about NVIDIA's GPUs; nil: nvidia-smi,
	// where there is one.
	NvidiaSMI []string
}

// Machine is what the machine tells of itself: the texts of the info files, and
// the readings that advice rests on. A reading that was not obtained is absent.
type Machine struct {
	o     MachineOptions
	texts map[string]string // by file name
	facts map[string]string // by the path or name of the reading
	gpus  []gpuFacts
	at    time.Time // of the counters
}

var _ claims.Machine = (*Machine)(nil)

// gpuFacts is one GPU's section of nvidia-smi -q, by "Section/Key".
type gpuFacts struct {
	name  string
	facts map[string]string
}

// maxRead bounds a file of procfs or sysfs, and what a command may print.
const maxRead = 1 << 20

// read gives the text of a file below the machine's roots; absent is "".
func (m *Machine) read(root, path string) string {
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return ""
	}
	return string(b)
}

// ReadMachine reads the machine as it is before a run.
func ReadMachine(ctx context.Context, o MachineOptions) *Machine {
	if o.ProcRoot == "" {
		o.ProcRoot = "/proc"
	}
	if o.SysRoot == "" {
		o.SysRoot = "/sys"
	}
	m := &Machine{o: o, texts: map[string]string{}, facts: map[string]string{}}
	m.texts["cpu_info.txt"] = m.cpu(o.ProcRoot, o.SysRoot)
	m.texts["memory_info.txt"] = orSay(m.read(o.ProcRoot, "meminfo"), "no memory information: meminfo cannot be read")
	m.texts["kernel_info.txt"] = m.kernel(o.ProcRoot)
	m.texts["modules_info.txt"] = m.modules(o.ProcRoot)
	m.texts["gpu_info.txt"] = m.gpu(ctx, o.NvidiaSMI)
	m.tunables(o.ProcRoot, o.SysRoot)
	m.at = time.Now() // before the counters, as the other is taken after them
	m.counters(o.ProcRoot)
	return m
}

// Name tells this machine from others that share a history: the host's name, its
// CPU and its memory.
func (m *Machine) Name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	name := host + ", " + m.facts["cpus"] + " × " + m.facts["cpu model"]
	if kb, ok := m.number("MemTotal"); ok {
		name += fmt.Sprintf(", %.0f GiB", kb/(1<<20))
	}
	return foreign.Line(name, 300)
}

// Files are the texts of the info files by name.
func (m *Machine) Files() map[string]string { return m.texts }

// now reads the counters again, for what happened since.
func (m *Machine) now() *Machine {
	after := &Machine{facts: map[string]string{}}
	after.counters(m.o.ProcRoot)
	after.at = time.Now()
	return after
}

func orSay(text, say string) string {
	if strings.TrimSpace(text) == "" {
		return say + "\n"
	}
	return text
}

// cpu is what lscpu is asked for, by the files it reads: a summary, then the
// first processor's own words.
func (m *Machine) cpu(proc, sys string) string {
	info := m.read(proc, "cpuinfo")
	if info == "" {
		return "no CPU information: cpuinfo cannot be read\n"
	}
	first, _, _ := strings.Cut(info, "\n\n")
	count := 0
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		switch strings.TrimSpace(key) {
		case "processor":
			count++
		case "model name":
			m.fact("cpu model", value)
		}
	}
	m.fact("cpus", strconv.Itoa(count))
	var b strings.Builder
	fmt.Fprintf(&b, "Architecture: %s\nCPUs: %d\nOnline: %s", runtime.GOARCH, count, orSay(m.read(sys, "devices/system/cpu/online"), "not known"))
	for _, level := range []string{"index0", "index1", "index2", "index3"} {
		dir := filepath.Join("devices/system/cpu/cpu0/cache", level)
		if size := strings.TrimSpace(m.read(sys, filepath.Join(dir, "size"))); size != "" {
			fmt.Fprintf(&b, "Cache: L%s %s %s\n", strings.TrimSpace(m.read(sys, filepath.Join(dir, "level"))), strings.TrimSpace(m.read(sys, filepath.Join(dir, "type"))), size)
		}
	}
	for _, kind := range []string{"vulnerabilities"} {
		entries, _ := os.ReadDir(filepath.Join(sys, "devices/system/cpu", kind))
		for _, e := range entries {
			fmt.Fprintf(&b, "%s: %s\n", e.Name(), strings.TrimSpace(m.read(sys, filepath.Join("devices/system/cpu", kind, e.Name()))))
		}
	}
	return b.String() + "\n" + strings.TrimRight(first, "\n") + "\n"
}

func (m *Machine) kernel(proc string) string {
	var b strings.Builder
	b.WriteString(orSay(m.read(proc, "version"), "no kernel information: version cannot be read"))
	if line := m.read(proc, "cmdline"); line != "" {
		b.WriteString("command line: " + line)
	}
	return b.String()
}

// modules are all that are loaded.
func (m *Machine) modules(proc string) string {
	text := m.read(proc, "modules")
	if text == "" {
		return "no modules: the list cannot be read or is empty\n"
	}
	var names []string
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, " "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	m.fact("modules", strings.Join(names, " "))
	return text
}

func (m *Machine) gpu(ctx context.Context, argv []string) string {
	if argv == nil {
		path, err := exec.LookPath("nvidia-smi")
		if err != nil {
			return "no GPU information: nvidia-smi is not installed\n"
		}
		argv = []string{path}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := child.Output(ctx, child.Spec{Command: append(slices.Clone(argv), "-q"), MaxAnswer: maxRead}, nil)
	text := string(out.Stdout)
	if err != nil {
		why := err.Error()
		if ctx.Err() != nil {
			why = "it did not end in 20 s"
		}
		return fmt.Sprintf("no GPU information: nvidia-smi: %s\n%s", why, text)
	}
	m.gpus = parseSMI(text)
	m.fact("cuda", cudaVersion(text))
	return text
}

// parseSMI reads the text of nvidia-smi -q: sections by indentation, "key :
// value" lines in them.
func parseSMI(text string) []gpuFacts {
	var all []gpuFacts
	var sections []string
	var indents []int
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == "" {
			continue
		}
		indent := len(line) - len(trimmed)
		if indent == 0 && strings.HasPrefix(trimmed, "GPU ") {
			if len(all) == 64 {
				break
			}
			all = append(all, gpuFacts{name: strings.TrimSpace(strings.TrimPrefix(trimmed, "GPU ")), facts: map[string]string{}})
			sections, indents = nil, nil
			continue
		}
		if len(all) == 0 {
			continue
		}
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			sections, indents = sections[:len(sections)-1], indents[:len(indents)-1]
		}
		key, value, ok := strings.Cut(trimmed, " : ")
		if !ok {
			sections, indents = append(sections, trimmed), append(indents, indent)
			continue
		}
		key = strings.TrimSpace(key)
		path := strings.Join(append(slices.Clone(sections), key), "/")
		value = strings.TrimSpace(value)
		sections, indents = append(sections, key), append(indents, indent) // it may have keys below it
		if len(all[len(all)-1].facts) < 2000 && value != "N/A" && value != "[N/A]" && value != "" {
			all[len(all)-1].facts[path] = foreign.Line(value, 200)
		}
	}
	return all
}

func (m *Machine) fact(name, value string) {
	if value = strings.TrimSpace(value); value != "" {
		m.facts[name] = foreign.Line(value, 8192)
	}
}

// tunables are the settings that advice is given on.
func (m *Machine) tunables(proc, sys string) {
	governors, _ := filepath.Glob(filepath.Join(sys, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	var kinds []string
	for _, path := range governors {
		g := strings.TrimSpace(m.read("", path))
		if g != "" && !slices.Contains(kinds, g) {
			kinds = append(kinds, g)
		}
	}
	slices.Sort(kinds)
	m.fact("governors", strings.Join(kinds, " "))
	for name, path := range map[string]string{
		"no_turbo": "devices/system/cpu/intel_pstate/no_turbo", "boost": "devices/system/cpu/cpufreq/boost",
		"thp": "kernel/mm/transparent_hugepage/enabled", "smt": "devices/system/cpu/smt/active",
	} {
		m.fact(name, m.read(sys, path))
	}
	for _, name := range []string{"swappiness", "dirty_ratio", "dirty_background_ratio", "overcommit_memory", "zone_reclaim_mode", "max_map_count"} {
		m.fact("vm."+name, m.read(proc, "sys/vm/"+name))
	}
	m.fact("kernel.numa_balancing", m.read(proc, "sys/kernel/numa_balancing"))
}

// counters are readings whose change over the run says what happened.
func (m *Machine) counters(proc string) {
	for line := range strings.Lines(m.read(proc, "meminfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			switch key {
			case "MemTotal", "MemAvailable", "SwapTotal", "SwapFree":
				m.fact(key, strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			}
		}
	}
	for line := range strings.Lines(m.read(proc, "vmstat")) {
		if key, value, ok := strings.Cut(line, " "); ok {
			switch key {
			case "pswpin", "pswpout", "pgmajfault", "oom_kill":
				m.fact(key, value)
			}
		}
	}
	if line, _, ok := strings.Cut(m.read(proc, "stat"), "\n"); ok {
		m.fact("stat", line)
	}
	for _, what := range []string{"cpu", "memory", "io"} {
		for line := range strings.Lines(m.read(proc, "pressure/"+what)) {
			if rest, ok := strings.CutPrefix(line, "some "); ok {
				_, total, _ := strings.Cut(rest, "total=")
				m.fact("pressure "+what, total)
			}
		}
	}
	m.fact("loadavg", m.read(proc, "loadavg"))
}

// number is a fact as a number; ok is false when it is absent or none.
func (m *Machine) number(name string) (float64, bool) {
	v, err := strconv.ParseFloat(m.facts[name], 64)
	return v, err == nil
}
