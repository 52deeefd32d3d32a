package experiment

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestSystemMetricsLine(t *testing.T) {
	x := &trial{}
	x.cfg.fill()
	m := &monitor{x: x, last: map[reading]valued{}, gpus: []assay.GPU{{UUID: "g", Index: 1}}, engine: "e"}
	see := func(name, device string, v float64) { m.see(assay.Reading{Name: name, Device: device, Value: &v}) }
	see(assay.HostCPU, "", 0.5)
	see(assay.HostCPU, "cpu0", 0.25)
	see(assay.HostCPU, "cpu2", 1)
	see(assay.HostCPU, "cpufreq", 1) // no core
	see(assay.HostCPUFrequency, "cpu1", 3.4e9)
	see(assay.HostTemperature, "coretemp1", 51.5)
	see(assay.HostTemperature, "coretemp0", 50)
	see(assay.HostMemoryUsed, "", 1<<30)
	see(assay.GPUTemperature, "g", 60)
	_, got, _ := strings.Cut(m.line(), " ")
	const want = "cpu_ratio=0.5 core_ratios=0.25,-,1 core_frequencies_hertz=-,3.4e+09 coretemp0_temperature_celsius=50 " +
		"coretemp1_temperature_celsius=51.5 memory_used_bytes=1.07374e+09 gpu1_temperature_celsius=60 engine=e\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	// A clock speaks longer than a load, and nothing speaks for ever.
	for k, v := range m.last {
		v.at = time.Now().Add(-2 * staleAfter)
		m.last[k] = v
	}
	if _, got, _ = strings.Cut(m.line(), " "); got != "core_frequencies_hertz=-,3.4e+09 coretemp0_temperature_celsius=50 coretemp1_temperature_celsius=51.5 engine=e\n" {
		t.Errorf("later: %s", got)
	}
	if !m.saw(assay.HostTemperature) || m.saw(assay.HostDiskRead) {
		t.Error("what was ever read is not known")
	}
}
