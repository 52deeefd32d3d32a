package claims

import (
	"bytes"
	"context"
	"errors"
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
)

// system is what the machine says of itself: the texts of the info files, and
// the readings that advice rests on. A reading that was not obtained is absent.
type system struct {
	texts map[string]string // by file name
	facts map[string]string // by the path or name of the reading
	gpus  []gpuFacts
}

// gpuFacts is one GPU's section of nvidia-smi -q, by "Section/Key".
type gpuFacts struct {
	name  string
	facts map[string]string
}

// mostRead bounds a file of procfs or sysfs, and what a command may print.
const mostRead = 1 << 20

// read gives the text of a file below the machine's roots; absent is "".
func (s *system) read(root, path string) string {
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostRead))
	if err != nil {
		return ""
	}
	return string(b)
}

// readSystem collects the seed's five info files.
func readSystem(ctx context.Context, o Options) *system {
	s := &system{texts: map[string]string{}, facts: map[string]string{}}
	proc, sys := o.Env.ProcRoot, o.Env.SysRoot
	s.texts["cpu_info.txt"] = s.cpu(proc, sys)
	s.texts["memory_info.txt"] = orSay(s.read(proc, "meminfo"), "no memory information: meminfo cannot be read")
	s.texts["kernel_info.txt"] = s.kernel(proc)
	s.texts["modules_info.txt"] = s.modules(proc)
	s.texts["gpu_info.txt"] = s.gpu(ctx, o)
	s.tunables(proc, sys)
	s.counters(proc)
	return s
}

// readAgain reads the counters after the run, for what happened meanwhile.
func readAgain(before *system, o Options) *system {
	s := &system{facts: map[string]string{}, gpus: before.gpus}
	s.counters(o.Env.ProcRoot)
	return s
}

func orSay(text, say string) string {
	if strings.TrimSpace(text) == "" {
		return say + "\n"
	}
	return text
}

// cpu is what lscpu is asked for, by the files it reads: a summary, then the
// first processor's own words.
func (s *system) cpu(proc, sys string) string {
	info := s.read(proc, "cpuinfo")
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
			s.fact("cpu model", value)
		}
	}
	s.fact("cpus", strconv.Itoa(count))
	var b strings.Builder
	fmt.Fprintf(&b, "Architecture: %s\nCPUs: %d\nOnline: %s", runtime.GOARCH, count, orSay(s.read(sys, "devices/system/cpu/online"), "not known"))
	for _, level := range []string{"index0", "index1", "index2", "index3"} {
		dir := filepath.Join("devices/system/cpu/cpu0/cache", level)
		if size := strings.TrimSpace(s.read(sys, filepath.Join(dir, "size"))); size != "" {
			fmt.Fprintf(&b, "Cache: L%s %s %s\n", strings.TrimSpace(s.read(sys, filepath.Join(dir, "level"))), strings.TrimSpace(s.read(sys, filepath.Join(dir, "type"))), size)
		}
	}
	for _, kind := range []string{"vulnerabilities"} {
		entries, _ := os.ReadDir(filepath.Join(sys, "devices/system/cpu", kind))
		for _, e := range entries {
			fmt.Fprintf(&b, "%s: %s\n", e.Name(), strings.TrimSpace(s.read(sys, filepath.Join("devices/system/cpu", kind, e.Name()))))
		}
	}
	return b.String() + "\n" + strings.TrimRight(first, "\n") + "\n"
}

func (s *system) kernel(proc string) string {
	var b strings.Builder
	b.WriteString(orSay(s.read(proc, "version"), "no kernel information: version cannot be read"))
	if line := s.read(proc, "cmdline"); line != "" {
		b.WriteString("command line: " + line)
	}
	return b.String()
}

// modules are all that are loaded; the seed's own are looked for by name.
func (s *system) modules(proc string) string {
	text := s.read(proc, "modules")
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
	s.fact("modules", strings.Join(names, " "))
	return text
}

func (s *system) gpu(ctx context.Context, o Options) string {
	argv := o.NvidiaSMI
	if argv == nil {
		path, err := exec.LookPath("nvidia-smi")
		if err != nil {
			return "no GPU information: nvidia-smi is not installed\n"
		}
		argv = []string{path}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], append(slices.Clone(argv[1:]), "-q")...)
	cmd.WaitDelay = 2 * time.Second
	out := &headOf{most: mostRead}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		why := err.Error()
		if ctx.Err() != nil {
			why = "it did not end in 20 s"
		}
		return fmt.Sprintf("no GPU information: nvidia-smi: %s\n%s", why, out.b.String())
	}
	s.gpus = parseSMI(out.b.String())
	return out.b.String()
}

// headOf keeps the first bytes that are written to it and takes the rest.
type headOf struct {
	most int
	b    bytes.Buffer
}

func (h *headOf) Write(p []byte) (int, error) {
	h.b.Write(p[:max(0, min(len(p), h.most-h.b.Len()))])
	return len(p), nil
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
			all[len(all)-1].facts[path] = clip(value, 200)
		}
	}
	return all
}

func (s *system) fact(name, value string) {
	if value = strings.TrimSpace(value); value != "" {
		s.facts[name] = clip(value, 8192)
	}
}

// tunables are the settings that advice is given on.
func (s *system) tunables(proc, sys string) {
	governors, _ := filepath.Glob(filepath.Join(sys, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	var kinds []string
	for _, path := range governors {
		g := strings.TrimSpace(s.read("", path))
		if g != "" && !slices.Contains(kinds, g) {
			kinds = append(kinds, g)
		}
	}
	slices.Sort(kinds)
	s.fact("governors", strings.Join(kinds, " "))
	for name, path := range map[string]string{
		"no_turbo": "devices/system/cpu/intel_pstate/no_turbo", "boost": "devices/system/cpu/cpufreq/boost",
		"thp": "kernel/mm/transparent_hugepage/enabled", "smt": "devices/system/cpu/smt/active",
	} {
		s.fact(name, s.read(sys, path))
	}
	for _, name := range []string{"swappiness", "dirty_ratio", "dirty_background_ratio", "overcommit_memory", "zone_reclaim_mode", "max_map_count"} {
		s.fact("vm."+name, s.read(proc, "sys/vm/"+name))
	}
	s.fact("kernel.numa_balancing", s.read(proc, "sys/kernel/numa_balancing"))
}

// counters are readings whose change over the run says what happened.
func (s *system) counters(proc string) {
	for line := range strings.Lines(s.read(proc, "meminfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			switch key {
			case "MemTotal", "MemAvailable", "SwapTotal", "SwapFree":
				s.fact(key, strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			}
		}
	}
	for line := range strings.Lines(s.read(proc, "vmstat")) {
		if key, value, ok := strings.Cut(line, " "); ok {
			switch key {
			case "pswpin", "pswpout", "pgmajfault", "oom_kill":
				s.fact(key, value)
			}
		}
	}
	if line, _, ok := strings.Cut(s.read(proc, "stat"), "\n"); ok {
		s.fact("stat", line)
	}
	for _, what := range []string{"cpu", "memory", "io"} {
		for line := range strings.Lines(s.read(proc, "pressure/"+what)) {
			if rest, ok := strings.CutPrefix(line, "some "); ok {
				_, total, _ := strings.Cut(rest, "total=")
				s.fact("pressure "+what, total)
			}
		}
	}
	s.fact("loadavg", s.read(proc, "loadavg"))
}

// number is a fact as a number; ok is false when it is absent or none.
func (s *system) number(name string) (float64, bool) {
	v, err := strconv.ParseFloat(s.facts[name], 64)
	return v, err == nil
}

// write puts the info files into the results directory.
func (s *system) write(dir string) error {
	var errs []error
	for name, text := range s.texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("write system information: %w", err))
		}
	}
	return errors.Join(errs...)
}

// machineName tells this machine from others that share a history.
func machineName(proc string) string {
	s := &system{facts: map[string]string{}}
	s.cpu(proc, os.DevNull)
	s.counters(proc)
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	name := host + ", " + s.facts["cpus"] + " × " + s.facts["cpu model"]
	if kb, ok := s.number("MemTotal"); ok {
		name += fmt.Sprintf(", %.0f GiB", kb/(1<<20))
	}
	return clip(name, 300)
}
