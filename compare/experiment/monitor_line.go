package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// metricsLine is one line of logs/system_metrics.log: the time, and words of the
// form name=value. docs/formats/experiment.md lists the names.
type metricsLine struct{ b []byte }

func (l *metricsLine) put(label string, v float64) {
	l.b = append(append(append(l.b, ' '), label...), '=')
	l.b = strconv.AppendFloat(l.b, v, 'g', 6, 64)
}

// putCores puts the readings of the cores into one word: the n-th is that of
// processor n, and one that was not read is a dash. A machine has hundreds.
func (l *metricsLine) putCores(label string, of map[int]float64) {
	if len(of) == 0 {
		return
	}
	l.b = append(append(append(l.b, ' '), label...), '=')
	for n := range slices.Max(slices.Collect(maps.Keys(of))) + 1 {
		if n > 0 {
			l.b = append(l.b, ',')
		}
		if v, ok := of[n]; ok {
			l.b = strconv.AppendFloat(l.b, v, 'g', 3, 64)
		} else {
			l.b = append(l.b, '-')
		}
	}
}

// line is the readings now; what was not read is not there.
func (m *monitor) line() string {
	l := metricsLine{[]byte(stamp(time.Now()))}
	add := func(label, name, device string) {
		if v, ok := m.value(name, device); ok {
			l.put(label, v)
		}
	}
	add("cpu_ratio", assay.HostCPU, "")
	l.putCores("core_ratios", m.cores(assay.HostCPU))
	l.putCores("core_frequencies_hertz", m.cores(assay.HostCPUFrequency))
	heat := m.devices(assay.HostTemperature)
	for _, d := range slices.Sorted(maps.Keys(heat)) {
		l.put(d+"_temperature_celsius", heat[d])
	}
	add("memory_used_bytes", assay.HostMemoryUsed, "")
	for _, g := range m.gpus {
		at := fmt.Sprintf("gpu%d_", g.Index)
		add(at+"utilization_ratio", assay.GPUUtilization, g.UUID)
		add(at+"memory_used_bytes", assay.GPUMemoryUsed, g.UUID)
		add(at+"temperature_celsius", assay.GPUTemperature, g.UUID)
		if *m.x.cfg.Monitoring.PowerMonitoring {
			add(at+"power_watts", assay.GPUPower, g.UUID)
		}
	}
	m.mu.Lock()
	engine, p := m.engine, m.p
	m.mu.Unlock()
	if engine != "" {
		l.b = append(l.b, " engine="+engine...)
		if p != nil && *m.x.cfg.Monitoring.MemoryTracking {
			if rss, ok := p.RSS(); ok {
				l.put("engine_memory_bytes", float64(rss))
			}
		}
	}
	return string(append(l.b, '\n'))
}

// devices are the last readings of a name by device, of those that still speak.
func (m *monitor) devices(name string) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]float64{}
	for k, v := range m.last {
		if k.name == name && k.device != "" && v.speaks(name) {
			out[k.device] = v.v
		}
	}
	return out
}

// cores are the last readings of a name by the number of the processor.
func (m *monitor) cores(name string) map[int]float64 {
	out := map[int]float64{}
	for device, v := range m.devices(name) {
		number, ok := strings.CutPrefix(device, "cpu")
		if n, err := strconv.Atoi(number); ok && err == nil && n >= 0 && n < maxReadings {
			out[n] = v
		}
	}
	return out
}
