package telemetry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/common"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"github.com/assay-bench/assay"
)

// HostOptions say where to look.
type HostOptions struct {
	// ProcRoot and SysRoot are where procfs and sysfs are; empty: /proc, /sys.
	ProcRoot, SysRoot string
	// Deadline is how long a reading may take; 0: 2 s.
	Deadline time.Duration
}

// Host reads the machine: processors, their temperature, memory, pressure, disks,
// networks. It has a cadence of its own: on a machine with hundreds of processors
// /proc/stat alone takes the kernel milliseconds.
type Host struct {
	o      HostOptions
	guard  guard
	filter *filter
	env    context.Context // tells gopsutil the roots
	next   time.Time       // of what is read once a second
	clock  time.Time       // of the frequencies and temperatures
	cores  map[string]cpu.TimesStat
}

// clockEvery is how often frequencies and temperatures are read: asking interrupts
// the core.
const clockEvery = 5 * time.Second

// NewHost makes the source. It reads nothing yet.
func NewHost(o HostOptions) (*Host, error) {
	if o.ProcRoot == "" {
		o.ProcRoot = "/proc"
	}
	if o.SysRoot == "" {
		o.SysRoot = "/sys"
	}
	if o.Deadline <= 0 {
		o.Deadline = 2 * time.Second
	}
	env := context.WithValue(context.Background(), common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: o.ProcRoot, common.HostSysEnvKey: o.SysRoot,
	})
	return &Host{o: o, guard: guard{what: "the host", deadline: o.Deadline}, filter: newFilter(), env: env, cores: map[string]cpu.TimesStat{}}, nil
}

// Name is "host".
func (h *Host) Name() string { return "host" }

// Close ends the source.
func (h *Host) Close() error {
	h.guard.closed.Store(true)
	return nil
}

// Read gives what there is to say now: pressure each time, the rest once a
// second, frequencies and temperatures every five.
func (h *Host) Read(ctx context.Context, emit func(assay.Reading)) error {
	return h.guard.read(ctx, h.read, emit)
}

func (h *Host) read(emit func(assay.Reading)) error {
	for kind, name := range map[string]string{
		"cpu": assay.HostPressureCPU, "memory": assay.HostPressureMemory, "io": assay.HostPressureIO,
	} {
		if v, ok := pressure(fileText(filepath.Join(h.o.ProcRoot, "pressure", kind))); ok {
			h.filter.emit(emit, name, "", v)
		}
	}
	now := time.Now()
	if now.Before(h.next) {
		return nil
	}
	h.next = now.Add(slowEvery - tickSlack)
	if !now.Before(h.clock) {
		h.clock = now.Add(clockEvery - tickSlack)
		h.frequencies(emit)
		h.temperatures(emit)
	}
	return errors.Join(h.processors(emit), h.memory(emit), h.disks(emit), h.networks(emit))
}

// pressure reads the total of "some avg10=0.00 avg60=0.00 avg300=0.00 total=12":
// microseconds in which something had to wait.
func pressure(text string) (float64, bool) {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "some ") {
		return 0, false
	}
	_, total, ok := strings.Cut(line, "total=")
	v, number := decimal(strings.TrimSpace(total))
	return v * 1e-6, ok && number
}

// processors gives the share of time that each core, and all together, were
// busy since the last look; the first look has nothing to compare with.
func (h *Host) processors(emit func(assay.Reading)) error {
	all, err := cpu.TimesWithContext(h.env, false)
	if err != nil {
		return err
	}
	each, err := cpu.TimesWithContext(h.env, true)
	if err != nil {
		return err
	}
	for _, t := range append(all, each...) {
		before, ok := h.cores[t.CPU]
		h.cores[t.CPU] = t
		if !ok {
			continue
		}
		// The kernel lets idle and iowait go back a little; a core that was away
		// starts anew.
		busy := busyTime(t) - busyTime(before)
		idle := max(0, t.Idle-before.Idle) + max(0, t.Iowait-before.Iowait)
		if busy < 0 || busy+idle <= 0 {
			continue
		}
		device := t.CPU
		if device == "cpu-total" {
			device = ""
		}
		h.filter.emit(emit, assay.HostCPU, device, busy/(busy+idle))
	}
	return nil
}

// busyTime sums what does not contain one another: guests are in User already.
func busyTime(t cpu.TimesStat) float64 {
	return t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal
}

// frequencies gives the clock of each core where the kernel says it. What
// /proc/cpuinfo has in a virtual machine is a constant, and is not given.
func (h *Host) frequencies(emit func(assay.Reading)) {
	files, err := filepath.Glob(filepath.Join(h.o.SysRoot, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
	if err != nil {
		return
	}
	for _, f := range files {
		if v, ok := fileNumber(f); ok {
			h.filter.emit(emit, assay.HostCPUFrequency, filepath.Base(filepath.Dir(filepath.Dir(f))), v*1e3)
		}
	}
}

func (h *Host) memory(emit func(assay.Reading)) error {
	m, err := mem.VirtualMemoryWithContext(h.env)
	if err != nil {
		return err
	}
	if m.Total == 0 {
		return nil
	}
	h.filter.emit(emit, assay.HostMemoryUsed, "", float64(m.Used))
	h.filter.emit(emit, assay.HostMemoryAvailable, "", float64(m.Available))
	return nil
}

// disks sums the devices that are hardware: a partition, a volume or an array
// would count the same bytes again.
func (h *Host) disks(emit func(assay.Reading)) error {
	hard := h.disksOfHardware()
	if len(hard) == 0 {
		return nil
	}
	devices, err := disk.IOCountersWithContext(h.env, hard...)
	if err != nil || len(devices) == 0 {
		return err
	}
	var read, written float64
	for _, d := range devices {
		read += float64(d.ReadBytes)
		written += float64(d.WriteBytes)
	}
	h.filter.emit(emit, assay.HostDiskRead, "", read)
	h.filter.emit(emit, assay.HostDiskWritten, "", written)
	return nil
}

// networks sums the interfaces that are hardware; where none is (a container
// sees only its end of a virtual cable), all but loopback.
func (h *Host) networks(emit func(assay.Reading)) error {
	nics, err := net.IOCountersWithContext(h.env, true)
	if err != nil {
		return err
	}
	var hard, soft [2]float64
	var anyHard, anySoft bool
	for _, n := range nics {
		if n.Name == "lo" {
			continue
		}
		if h.isHardware("class/net", n.Name) {
			anyHard = true
			hard[0] += float64(n.BytesRecv)
			hard[1] += float64(n.BytesSent)
		}
		anySoft = true
		soft[0] += float64(n.BytesRecv)
		soft[1] += float64(n.BytesSent)
	}
	if anyHard {
		soft = hard
	}
	if anySoft {
		h.filter.emit(emit, assay.HostNetworkReceived, "", soft[0])
		h.filter.emit(emit, assay.HostNetworkSent, "", soft[1])
	}
	return nil
}

// isHardware says whether a block device or an interface has a device behind it.
func (h *Host) isHardware(class, name string) bool {
	_, err := os.Stat(filepath.Join(h.o.SysRoot, class, name, "device"))
	return err == nil
}

func (h *Host) disksOfHardware() []string {
	entries, err := os.ReadDir(filepath.Join(h.o.SysRoot, "block"))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if h.isHardware("block", e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}
