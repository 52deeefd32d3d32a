package telemetry

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// amdCards finds the cards and says what they are.
func amdCards(root string) ([]amdCard, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "class/drm/card[0-9]*/device"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(dirs, func(a, b string) int { return cardNumber(a) - cardNumber(b) })
	var cards []amdCard
	for _, dir := range dirs {
		// card0-HDMI-A-1 is a socket of card0.
		if cardNumber(dir) < 0 || strings.TrimSpace(fileText(dir+"/vendor")) != "0x1002" || len(cards) == maxGPUs {
			continue
		}
		event := fileText(dir + "/uevent")
		if driver := keyed(event, "DRIVER"); driver != "" && driver != "amdgpu" {
			continue
		}
		bus := keyed(event, "PCI_SLOT_NAME")
		if strings.Trim(bus, "0123456789abcdefABCDEF:.") != "" {
			bus = ""
		}
		cards = append(cards, newAMDCard(root, dir, len(cards), bus))
	}
	return cards, nil
}

func newAMDCard(root, dir string, index int, bus string) amdCard {
	text := func(name string) string { return word(fileText(dir + "/" + name)) }
	c := amdCard{dir: dir, gpu: assay.GPU{
		Index: index, Source: "amdgpu", Name: text("product_name"), PCIBusID: bus,
		Serial: text("serial_number"), VBIOS: text("vbios_version"),
		Driver: word(fileText(filepath.Join(root, "module/amdgpu/version"))),
	}}
	if c.gpu.Name == "" {
		c.gpu.Name = "AMD " + strings.TrimPrefix(text("device"), "0x")
	}
	switch id := text("unique_id"); {
	case strings.Trim(id, "0") != "" && strings.Trim(strings.TrimPrefix(id, "0x"), "0123456789abcdef") == "":
		c.gpu.UUID = "GPU-" + strings.TrimPrefix(id, "0x")
	case bus != "":
		c.gpu.UUID = "PCI-" + bus
	default:
		c.gpu.UUID = "amdgpu-" + strconv.Itoa(index)
	}
	if v, ok := fileNumber(dir + "/mem_info_vram_total"); ok {
		if v, ok = plausible("", "bytes", v); ok {
			c.gpu.MemoryBytes = int64(v)
		}
	}
	_, c.gpu.MaxSMClockHz, _ = dpmLevels(fileText(dir + "/pp_dpm_sclk"))
	_, c.gpu.MaxMemoryClockHz, _ = dpmLevels(fileText(dir + "/pp_dpm_mclk"))
	if mons, err := filepath.Glob(dir + "/hwmon/hwmon[0-9]*"); err == nil && len(mons) > 0 {
		c.hwmon = mons[0]
		c.sensors()
	}
	if v, ok := fileNumber(c.sensor("power1_cap")); ok {
		if v, ok = plausible("", "watts", v*1e-6); ok {
			c.gpu.PowerLimitWatts = v
		}
	}
	return c
}

// sensors finds what the numbered sensors measure. The chip's temperature is
// the edge's; newer data-centre cards have only the junction's, the hottest
// spot.
func (c *amdCard) sensors() {
	byLabel := func(kind, unlabelled string) map[string]string {
		out := map[string]string{}
		for i := 1; i <= 8; i++ {
			base := c.hwmon + "/" + kind + strconv.Itoa(i)
			label := strings.TrimSpace(fileText(base + "_label"))
			if label == "" && i == 1 {
				label = unlabelled
			}
			if _, ok := fileNumber(base + "_input"); ok && label != "" {
				out[label] = base + "_input"
			}
		}
		return out
	}
	temps, clocks := byLabel("temp", "edge"), byLabel("freq", "sclk")
	if c.temperature = temps["edge"]; c.temperature == "" {
		c.temperature = temps["junction"]
	}
	c.memoryTemperature = temps["mem"]
	c.smClock, c.memoryClock = clocks["sclk"], clocks["mclk"]
}

func cardNumber(dir string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "card"))
	if err != nil {
		return -1
	}
	return n
}

// dpmLevels reads the driver's list of clocks, the present one marked:
// "0: 500Mhz\n1: 2304Mhz *\n".
func dpmLevels(text string) (now, highest float64, ok bool) {
	for line := range strings.Lines(text) {
		_, level, found := strings.Cut(strings.TrimSpace(line), ":")
		level, marked := strings.CutSuffix(strings.TrimSpace(level), "*")
		digits, unit := strings.CutSuffix(strings.ToLower(strings.TrimSpace(level)), "mhz")
		v, number := decimal(digits)
		if !found || !unit || !number {
			continue
		}
		if v, number = plausible("", "hertz", v*1e6); !number {
			continue
		}
		if marked {
			now = v
		}
		highest, ok = max(highest, v), true
	}
	return now, highest, ok
}

// pcieGeneration reads "16.0 GT/s PCIe".
func pcieGeneration(speed string) (float64, bool) {
	rate, _, _ := strings.Cut(strings.TrimSpace(speed), " ")
	g, ok := map[string]float64{"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6, "64": 6}[rate]
	return g, ok
}
