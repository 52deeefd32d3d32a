package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// AMDGPUOptions say where to look.
type AMDGPUOptions struct {
	// SysRoot is where sysfs is; empty: /sys.
	SysRoot string
	// Deadline is how long a reading of all cards may take; 0: 2 s.
	Deadline time.Duration
}

// ErrNoCards says that no card of the driver is there. Go on without this
// source.
var ErrNoCards = errors.New("no cards")

// AMDGPU reads AMD cards from the files of their kernel driver.
//
// Throttling is absent. The driver's gpu_metrics table has bits for it, but
// they name the limit that is nearest, not one that was exceeded: cards show
// the hot spot's bit at their highest clock. Table versions of the data-centre
// cards have no such bits at all.
type AMDGPU struct {
	guard  guard
	filter *filter
	cards  []amdCard
}

type amdCard struct {
	gpu   assay.GPU
	dir   string // …/card0/device
	hwmon string // …/hwmon/hwmon3; empty: none
	// Files by what they are labelled, found once.
	temperature, memoryTemperature, smClock, memoryClock string
}

// NewAMDGPU looks which cards there are. Without any it is ErrNoCards.
func NewAMDGPU(ctx context.Context, o AMDGPUOptions) (*AMDGPU, error) {
	if o.SysRoot == "" {
		o.SysRoot = "/sys"
	}
	if o.Deadline <= 0 {
		o.Deadline = 2 * time.Second
	}
	a := &AMDGPU{guard: guard{what: "the amdgpu driver", deadline: o.Deadline}, filter: newFilter()}
	found := make(chan []amdCard, 1)
	// The guard of a first look is one of its own: what hangs here is not
	// waited for.
	first := guard{what: "the amdgpu driver", deadline: o.Deadline}
	err := first.read(ctx, func(func(assay.Reading)) error {
		cards, err := amdCards(o.SysRoot)
		found <- cards
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	if a.cards = <-found; len(a.cards) == 0 {
		return nil, fmt.Errorf("amdgpu: %w", ErrNoCards)
	}
	return a, nil
}

// GPUs are the cards that were there at the start.
func (a *AMDGPU) GPUs() []assay.GPU {
	var out []assay.GPU
	for _, c := range a.cards {
		out = append(out, c.gpu)
	}
	return out
}

// Name is "amdgpu".
func (a *AMDGPU) Name() string { return "amdgpu" }

// Close ends the source.
func (a *AMDGPU) Close() error {
	a.guard.closed.Store(true)
	return nil
}

// Read gives what each card's files say. A file that is not there or holds no
// number is a reading that is absent.
func (a *AMDGPU) Read(ctx context.Context, emit func(assay.Reading)) error {
	return a.guard.read(ctx, func(emit func(assay.Reading)) error {
		for i := range a.cards {
			a.cards[i].read(a.filter, emit)
		}
		return nil
	}, emit)
}

func (c *amdCard) read(s *filter, emit func(assay.Reading)) {
	id := c.gpu.UUID
	if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		s.emitChange(emit, assay.GPULost, id, 1)
		return
	}
	s.emitChange(emit, assay.GPULost, id, 0)
	fast := func(name, file string, factor float64) bool {
		v, ok := fileNumber(file)
		return ok && s.emit(emit, name, id, v*factor)
	}
	slow := func(name, file string, factor float64) {
		if v, ok := fileNumber(file); ok {
			s.emitEvery(emit, name, id, v*factor)
		}
	}
	fast(assay.GPUUtilization, c.dir+"/gpu_busy_percent", 0.01)
	fast(assay.GPUMemoryUtilization, c.dir+"/mem_busy_percent", 0.01)
	used, haveUsed := fileNumber(c.dir + "/mem_info_vram_used")
	if haveUsed {
		s.emit(emit, assay.GPUMemoryUsed, id, used)
	}
	fast(assay.GPUTemperature, c.temperature, 1e-3)
	// power1_input is of the instant, power1_average is not.
	if fast(assay.GPUPower, c.sensor("power1_input"), 1e-6) {
		s.emitEvery(emit, assay.GPUPowerInstant, id, 1)
	} else if fast(assay.GPUPower, c.sensor("power1_average"), 1e-6) {
		s.emitEvery(emit, assay.GPUPowerInstant, id, 0)
	}
	c.clock(s, emit, assay.GPUSMClock, c.smClock, "pp_dpm_sclk")
	c.clock(s, emit, assay.GPUMemoryClock, c.memoryClock, "pp_dpm_mclk")

	// What follows changes seldom, and is not even opened more often.
	if h, ok := s.last[key{assay.GPUMemoryTotal, id}]; ok && s.now().Sub(h.at) < slowEvery-tickSlack {
		return
	}
	if total, ok := fileNumber(c.dir + "/mem_info_vram_total"); ok {
		s.emitEvery(emit, assay.GPUMemoryTotal, id, total)
		if haveUsed && used <= total {
			s.emitEvery(emit, assay.GPUMemoryFree, id, total-used)
		}
	}
	slow(assay.GPUMemoryTemperature, c.memoryTemperature, 1e-3)
	slow(assay.GPUPowerLimit, c.sensor("power1_cap"), 1e-6)
	if pwm, ok := fileNumber(c.sensor("pwm1")); ok {
		s.emitEvery(emit, assay.GPUFanSpeed, id, pwm/255)
	}
	if c.gpu.MaxSMClockHz > 0 {
		s.emitEvery(emit, assay.GPUSMClockMax, id, c.gpu.MaxSMClockHz)
	}
	if c.gpu.MaxMemoryClockHz > 0 {
		s.emitEvery(emit, assay.GPUMemoryClockMax, id, c.gpu.MaxMemoryClockHz)
	}
	slow(assay.GPUPCIeReplays, c.dir+"/pcie_replay_count", 1)
	slow(assay.GPUPCIeLinkWidth, c.dir+"/current_link_width", 1)
	slow(assay.GPUPCIeLinkWidthMax, c.dir+"/max_link_width", 1)
	for file, name := range map[string]string{
		"current_link_speed": assay.GPUPCIeLinkGeneration, "max_link_speed": assay.GPUPCIeLinkGenMax,
	} {
		if g, ok := pcieGeneration(fileText(c.dir + "/" + file)); ok {
			s.emitEvery(emit, name, id, g)
		}
	}
	c.errors(s, emit)
}

func (c *amdCard) sensor(name string) string {
	if c.hwmon == "" {
		return ""
	}
	return c.hwmon + "/" + name
}

// clock gives the sensor's frequency, or else the level that the driver marks.
func (c *amdCard) clock(s *filter, emit func(assay.Reading), name, sensor, levels string) {
	if v, ok := fileNumber(sensor); ok && s.emit(emit, name, c.gpu.UUID, v) {
		return
	}
	if now, _, ok := dpmLevels(fileText(c.dir + "/" + levels)); ok && now > 0 {
		s.emit(emit, name, c.gpu.UUID, now)
	}
}

// errors sums the error counters of the card's blocks: "ue: 0\nce: 0\n".
func (c *amdCard) errors(s *filter, emit func(assay.Reading)) {
	files, err := filepath.Glob(filepath.Join(c.dir, "ras", "*_err_count"))
	if err != nil {
		return
	}
	sum, seen := map[string]float64{}, map[string]bool{}
	for _, f := range files[:min(len(files), 64)] {
		for line := range strings.Lines(fileText(f)) {
			kind, n, ok := strings.Cut(line, ":")
			if v, num := decimal(strings.TrimSpace(n)); ok && num {
				sum[kind] += v
				seen[kind] = true
			}
		}
	}
	if seen["ce"] {
		s.emitChange(emit, assay.GPUECCCorrected, c.gpu.UUID, sum["ce"])
	}
	if seen["ue"] {
		s.emitChange(emit, assay.GPUECCUncorrected, c.gpu.UUID, sum["ue"])
	}
}
