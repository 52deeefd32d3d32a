package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// timeChart is a reading that is drawn, in the unit in which people read it.
type timeChart struct {
	title string
	names []string // of readings; the first is the picture's subject
	unit  string
	scale float64
	zero  bool
}

var timeCharts = []timeChart{
	{"GPU utilization (a duty cycle)", []string{assay.GPUUtilization}, "%", 100, true},
	{"GPU memory in use", []string{assay.GPUMemoryUsed}, "GiB", 1. / (1 << 30), false},
	{"GPU temperature", []string{assay.GPUTemperature, assay.GPUMemoryTemperature}, "°C", 1, false},
	{"GPU power", []string{assay.GPUPower, assay.GPUPowerLimit}, "W", 1, true},
	{"GPU clock", []string{assay.GPUSMClock}, "MHz", 1e-6, false},
	{"GPU memory clock", []string{assay.GPUMemoryClock}, "MHz", 1e-6, false},
	{"Engine's queue", []string{assay.EngineRunning, assay.EngineWaiting}, "requests", 1, true},
	{"KV cache in use", []string{assay.EngineKVCache}, "%", 100, true},
	{"Engine's memory", []string{assay.EngineResidentMemory}, "MiB", 1. / (1 << 20), false},
	{"Host processor", []string{assay.HostCPU}, "%", 100, true},
	{"Host memory in use", []string{assay.HostMemoryUsed}, "GiB", 1. / (1 << 30), false},
}

// lineNames tells apart readings that share a chart.
var lineNames = map[string]string{
	assay.GPUMemoryTemperature: "memory", assay.GPUPowerLimit: "limit", assay.EngineRunning: "running", assay.EngineWaiting: "waiting",
}

func (in HealthInput) times(s Series) []float64 {
	x := make([]float64, min(len(s.Times), len(s.Values)))
	for i := range x {
		x[i] = in.seconds(s.Times[i])
	}
	return x
}

// gpuBlocks are everything over time, on the axis of the latencies.
func gpuBlocks(in HealthInput) []Block {
	spans, marks := throttleSpans(in), in.stageMarks()
	var out []Block
	if len(in.Summary.GPUs) > 0 {
		out = append(out, gpuTable(in))
	}
	for _, c := range timeCharts {
		chart := Chart{Title: c.title, Y: Axis{Unit: c.unit, Zero: c.zero}, Group: timeGroup, Marks: marks, Small: true}
		for _, name := range c.names {
			for _, s := range in.Series {
				// A core of many is not drawn on its own: the host's line is.
				if s.Name != name || name == assay.HostCPU && s.Device != "" {
					continue
				}
				chart.Lines = append(chart.Lines, in.readingLine(s, c.scale))
			}
		}
		if !slices.ContainsFunc(chart.Lines, func(l Line) bool { return extentOf(l.Y).N > 0 }) {
			continue
		}
		if strings.HasPrefix(c.names[0], "gpu_") {
			chart.Spans = spans
		}
		out = append(out, chart)
	}
	return out
}

func (in HealthInput) readingLine(s Series, scale float64) Line {
	var words []string
	if s.Device != "" {
		words = append(words, in.nameOf(s.Device))
	}
	if extra := lineNames[s.Name]; extra != "" {
		words = append(words, extra)
	}
	if len(words) == 0 {
		words = append(words, "total")
	}
	l := Line{Name: strings.Join(words, " "), X: in.times(s), Dashed: s.Name == assay.GPUPowerLimit}
	l.Y = make([]float64, len(l.X))
	for i := range l.Y {
		l.Y[i] = s.Values[i] * scale
	}
	return withGaps(l)
}

// withGaps puts a gap where readings stayed away for longer than five of their
// usual intervals: nobody knows what happened there.
func withGaps(l Line) Line {
	limit := longestStep(l.X)
	out := Line{Name: l.Name, Dots: l.Dots, Dashed: l.Dashed}
	for i := range l.X {
		if i > 0 && l.X[i]-l.X[i-1] > limit {
			out.X, out.Y = append(out.X, (l.X[i]+l.X[i-1])/2), append(out.Y, math.NaN())
		}
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
	}
	return out
}

// longestStep is how far apart two readings may be and still be neighbours.
func longestStep(x []float64) float64 {
	if len(x) < 3 {
		return math.Inf(1)
	}
	steps := make([]float64, 0, len(x)-1)
	for i := 1; i < len(x); i++ {
		steps = append(steps, x[i]-x[i-1])
	}
	slices.Sort(steps)
	return max(5*steps[len(steps)/2], 0.5)
}

// throttles are the reasons that are shaded. The software power limit is not
// among them: it is normal under load.
var throttles = []struct {
	name, label string
	kind        SpanKind
}{
	{assay.GPUThrottledSWThermal, "software thermal slowdown", SpanWarn},
	{assay.GPUThrottledHWThermal, "hardware thermal slowdown", SpanBad},
	{assay.GPUThrottledHWSlowdown, "hardware slowdown", SpanBad},
	{assay.GPUThrottledPowerBrake, "power brake", SpanBad},
}

// throttleSpans are the stretches in which a GPU was held back, from the first
// reading that says so to the first that does not, or to the last one before
// readings stayed away.
func throttleSpans(in HealthInput) []Span {
	var out []Span
	several := len(in.Manifest.Node.GPUs) > 1
	for _, why := range throttles {
		for _, s := range in.Series {
			if s.Name != why.name {
				continue
			}
			label := why.label
			if several && s.Device != "" {
				label = in.nameOf(s.Device) + " " + label
			}
			x := in.times(s)
			limit := longestStep(x)
			for i := 0; i < len(x); i++ {
				if !(s.Values[i] > 0) {
					continue
				}
				from, near := i, func(i int) bool { return i+1 < len(x) && x[i+1]-x[i] <= limit }
				for near(i) && s.Values[i+1] > 0 {
					i++
				}
				to := x[i]
				if near(i) {
					to = x[i+1]
				}
				out = append(out, Span{From: x[from], To: to, Label: label, Kind: why.kind})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return out
}

// gpuTable is each GPU under load in figures.
func gpuTable(in HealthInput) Table {
	t := Table{Title: "Under load", Columns: []Column{{Name: "GPU"}, {Group: "utilization", Name: "mean"}, {Group: "utilization", Name: "max"},
		{Group: "memory", Name: "max"}, {Group: "temperature", Name: "max"}, {Group: "power", Name: "mean"}, {Group: "clock, MHz", Name: "mean"}, {Group: "clock, MHz", Name: "min"},
		{Group: "energy, J", Name: "counter"}, {Group: "energy, J", Name: "integrated"}, {Group: "energy, J", Name: "differ"}, {Name: "held back", Words: true}, {Name: "XID", Words: true}},
		Note: "Utilization is a duty cycle: it is shown, and nothing is judged by it. Held back: share of loaded time by reason."}
	for _, g := range in.Summary.GPUs {
		stat := func(name string, of func(assay.ReadingStats) float64, write func(float64) string) string {
			if s, ok := g.Stats[name]; ok && s.N > 0 {
				return write(of(s))
			}
			return missing
		}
		mean := func(s assay.ReadingStats) float64 { return s.Mean }
		most := func(s assay.ReadingStats) float64 { return s.Max }
		least := func(s assay.ReadingStats) float64 { return s.Min }
		mhz := func(v float64) string { return number(v / 1e6) }
		counter, integrated, differ := missing, missing, missing
		if e := g.Energy; e != nil {
			counter, integrated, differ = optional(e.Counter, number), optional(e.Integrated, number), optional(e.Disagreement, signedPercent)
			if e.Refused != "" {
				counter = "refused: " + e.Refused
			}
		}
		row := []string{in.nameOf(g.UUID), stat(assay.GPUUtilization, mean, percent), stat(assay.GPUUtilization, most, percent),
			stat(assay.GPUMemoryUsed, most, bytesOf), stat(assay.GPUTemperature, most, func(v float64) string { return number(v) + " °C" }),
			stat(assay.GPUPower, mean, func(v float64) string { return number(v) + " W" }), stat(assay.GPUSMClock, mean, mhz), stat(assay.GPUSMClock, least, mhz),
			counter, integrated, differ, throttledOf(g), xidsOf(g)}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func optional(v *float64, write func(float64) string) string {
	if v == nil {
		return missing
	}
	return write(*v)
}

func signedPercent(v float64) string { return fmt.Sprintf("%+.2f %%", 100*v) }

func throttledOf(g assay.GPUSummary) string {
	if g.Throttled == nil {
		return missing
	}
	var out []string
	for reason, share := range g.Throttled {
		if share > 0 && reason != "idle" {
			out = append(out, strings.ReplaceAll(reason, "_", " ")+" "+percent(share))
		}
	}
	if len(out) == 0 {
		return "no"
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func xidsOf(g assay.GPUSummary) string {
	var out []string
	for id, n := range g.XIDs {
		out = append(out, fmt.Sprintf("%s × %d", id, n))
	}
	slices.Sort(out)
	if g.Lost {
		out = append(out, "lost")
	}
	if len(out) == 0 {
		return missing
	}
	return strings.Join(out, ", ")
}
