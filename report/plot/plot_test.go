package plot

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/report"
)

var nan, inf = math.NaN(), math.Inf(1)

func draw(t *testing.T, c report.Chart, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := PNG(&b, c, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(t *testing.T, data []byte) image.Image {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// count is how many pixels have exactly the colour.
func count(m image.Image, c color.NRGBA) int {
	n := 0
	want := color.RGBAModel.Convert(c)
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if color.RGBAModel.Convert(m.At(x, y)) == want {
				n++
			}
		}
	}
	return n
}

func wave(n int, seed uint64, level float64) ([]float64, []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	x, y := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i] = float64(i) * 600 / float64(n)
		y[i] = level + 8*math.Sin(x[i]/60) + 2*r.NormFloat64()
	}
	return x, y
}

// gallery is a chart of each look, to be tested and to be looked at.
func gallery() map[string]report.Chart {
	out := map[string]report.Chart{}
	x, y := wave(600, 1, 60)
	for i := 200; i < 260; i++ {
		y[i] = nan
	}
	x2, y2 := wave(5000, 2, 75)
	out["time"] = report.Chart{Title: "Temperature", Y: report.Axis{Unit: "°C"},
		Lines: []report.Line{{Name: "GPU 0", X: x, Y: y}, {Name: "GPU 1", X: x2, Y: y2}},
		Spans: []report.Span{{From: 0, To: 120, Label: "c1"}, {From: 300, To: 380, Label: "thermal slowdown", Kind: report.SpanBad}, {From: 450, To: 500, Label: "power cap", Kind: report.SpanWarn}},
		Marks: []report.Mark{{At: 120, Label: "c8", Quiet: true}, {At: 310, Label: "knee"}}, Note: "Readings every 100 ms."}
	small := out["time"]
	small.Small, small.Note = true, ""
	out["small"] = small

	load := []float64{1, 2, 4, 8, 16, 32, 64, 128}
	line := func(name string, k float64) report.Line {
		l := report.Line{Name: name, X: load}
		for _, c := range load {
			v := 900 * k * c / (1 + c/24)
			l.Y, l.Lo, l.Hi = append(l.Y, v), append(l.Lo, v*0.94), append(l.Hi, v*1.05)
		}
		return l
	}
	fit := line("model", 1.02)
	fit.Lo, fit.Hi, fit.Dashed = nil, nil, true
	out["throughput_scaling"] = report.Chart{Title: "Throughput against concurrency", Kind: report.ChartLine, X: report.Axis{Label: "streams", Log: true},
		Y: report.Axis{Label: "output", Unit: "tokens/s", Zero: true}, Lines: []report.Line{line("vllm 0.11 fp8", 1), line("llama.cpp", 0.55), line("sglang", 0.9), fit},
		Marks: []report.Mark{{At: 24, Label: "knee of vllm at 24"}}, Note: "Bands are 95 % intervals over 12 rounds."}
	out["log"] = report.Chart{Title: "Time to first token", Kind: report.ChartLine, X: report.Axis{Label: "streams", Log: true}, Y: report.Axis{Unit: "ms", Log: true},
		Lines: []report.Line{{Name: "p50", X: load, Y: []float64{40, 41, 44, 60, nan, 220, 900, 4100}}, {Name: "p99", X: load, Y: []float64{60, 75, 0, 130, 410, 1200, 9000, inf}}}}
	r := rand.New(rand.NewPCG(7, 7))
	dots := report.Line{Name: "requests", Dots: true}
	for range 3000 {
		a := r.Float64()
		dots.X, dots.Y = append(dots.X, 20+80*a), append(dots.Y, 2000*(1-a)+200*r.NormFloat64())
	}
	out["scatter"] = report.Chart{Title: "What a user gets against what the hardware gives", Kind: report.ChartScatter,
		X: report.Axis{Label: "tokens/s a user", Zero: true}, Y: report.Axis{Unit: "tokens/s", Zero: true}, Lines: []report.Line{dots}}

	out["latency_comparison"] = report.Chart{Title: "Latency by engine", Kind: report.ChartBars, Categories: []string{"vllm", "sglang", "llama.cpp", "ollama"},
		X: report.Axis{Label: "engine"}, Y: report.Axis{Label: "end to end", Unit: "ms"},
		Lines: []report.Line{{Name: "p50", Y: []float64{412, 398, 790, nan}, Lo: []float64{400, 381, 770, nan}, Hi: []float64{425, 420, 815, nan}},
			{Name: "p99", Y: []float64{900, 870, 2100, nan}, Lo: []float64{850, 800, 1900, nan}, Hi: []float64{980, 960, 2500, nan}}},
		Note: "Medians of 12 rounds with their 95 % intervals."}
	out["bars_one"] = report.Chart{Title: "Memory", Kind: report.ChartBars, Categories: []string{"vllm", "sglang"}, Y: report.Axis{Unit: "GiB"},
		Lines: []report.Line{{Y: []float64{22.4, 19.1}}}}
	c := out["latency_comparison"]
	c.Y.Log = true
	out["bars_log"] = c
	many := report.Chart{Title: "Speed-up against the first engine", Kind: report.ChartBars, X: report.Axis{Label: "engine"}, Y: report.Axis{Unit: "%"}}
	l := report.Line{Name: "speed-up"}
	for i := range 14 {
		many.Categories = append(many.Categories, fmt.Sprintf("engine-with-a-long-name-%d", i))
		v := float64(i*i%11-4) * 3.3
		l.Y, l.Lo, l.Hi = append(l.Y, v), append(l.Lo, v-3), append(l.Hi, v+4)
	}
	many.Lines = []report.Line{l}
	out["bars_many"] = many
	out["empty"] = report.Chart{Title: "GPU utilization", Y: report.Axis{Unit: "%"}, Lines: []report.Line{{Name: "vllm"}, {Name: "sglang", X: []float64{1}, Y: []float64{inf}}}, Note: "This machine has no GPU that could be read."}
	crowd := report.Chart{Title: "Sixteen series and more", Kind: report.ChartLine, Y: report.Axis{Unit: "MB"}}
	for i := range 20 {
		crowd.Lines = append(crowd.Lines, report.Line{Name: fmt.Sprintf("a device with a name of some length %d", i), X: []float64{0, 1, 2}, Y: []float64{float64(i), float64(i + 2), float64(2 * i)}})
	}
	out["crowd"] = crowd
	return out
}

// Every look is drawn in its size, with its colours, and the same twice. With
// ASSAY_SCREENSHOTS the pictures are kept.
func TestGallery(t *testing.T) {
	seen := map[string]string{}
	for name, c := range gallery() {
		t.Run(name, func(t *testing.T) {
			data := draw(t, c, Options{})
			if dir := os.Getenv("ASSAY_SCREENSHOTS"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, "plot-"+name+".png"), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(data, draw(t, c, Options{})) {
				t.Error("drawn twice, it differs")
			}
			if other, ok := seen[string(data)]; ok {
				t.Errorf("looks as %s", other)
			}
			seen[string(data)] = name
			m := decode(t, data)
			want := image.Pt(900, 540)
			if c.Small {
				want.Y = 340
			}
			if m.Bounds().Size() != want {
				t.Errorf("size %v, want %v", m.Bounds().Size(), want)
			}
			if n := count(m, paper); n < want.X*want.Y/4 {
				t.Errorf("%d pixels of paper only", n)
			}
			if n := count(m, grid); (n > 200) == (name == "empty") {
				t.Errorf("%d pixels of grid", n)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	c := gallery()["latency_comparison"]
	for _, tt := range []struct {
		o    Options
		w, h int // 0: refused
	}{
		{Options{}, 900, 540},
		{Options{DPI: 192}, 1800, 1080},
		{Options{Width: 301, Height: 199}, 301, 199},
		{Options{Width: 1201, Height: 701, DPI: 144}, 1201, 701},
		{Options{Width: 100}, 0, 0},
		{Options{Width: -1}, 0, 0},
		{Options{Height: 1 << 30}, 0, 0},
		{Options{DPI: 1}, 0, 0},
		{Options{DPI: 1 << 40}, 0, 0},
	} {
		var b bytes.Buffer
		err := PNG(&b, c, tt.o)
		if tt.w == 0 {
			if err == nil || b.Len() > 0 {
				t.Errorf("%+v is accepted", tt.o)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt.o, err)
			continue
		}
		if got := decode(t, b.Bytes()).Bounds().Size(); got != image.Pt(tt.w, tt.h) {
			t.Errorf("%+v: size %v", tt.o, got)
		}
	}
}

// What differs in the data differs in the picture.
func TestEveryPartIsDrawn(t *testing.T) {
	base := func() report.Chart {
		return report.Chart{Title: "t", Kind: report.ChartLine, Y: report.Axis{Unit: "ms"}, Lines: []report.Line{
			{Name: "a", X: []float64{0, 0.5, 1, 2, 3}, Y: []float64{1, 4, 2, 3, 3}, Lo: []float64{0.9, 3.5, 1.8, 2.5, 2.8}, Hi: []float64{1.2, 4.5, 2.4, 3.5, 3.2}},
			{Name: "b", X: []float64{0, 0.5, 1, 2, 3}, Y: []float64{4, 3, 2.5, 2, 1}}}, // fewer points would be dots
			Spans: []report.Span{{From: 0.5, To: 2.8, Label: "a span"}}, Marks: []report.Mark{{At: 1.5, Label: "m"}}, Note: "note"}
	}
	bars := func() report.Chart {
		c := base()
		c.Kind, c.Categories, c.X.Label = report.ChartBars, []string{"p", "q", "r", "s", "t"}, "engine"
		return c
	}
	for name, tt := range map[string]struct {
		from   func() report.Chart
		change func(*report.Chart)
	}{
		"title":         {base, func(c *report.Chart) { c.Title = "u" }},
		"unit":          {base, func(c *report.Chart) { c.Y.Unit = "s" }},
		"label":         {base, func(c *report.Chart) { c.Y.Label = "TTFT" }},
		"x label":       {base, func(c *report.Chart) { c.X.Label = "streams" }},
		"name":          {base, func(c *report.Chart) { c.Lines[0].Name = "A" }},
		"value":         {base, func(c *report.Chart) { c.Lines[0].Y[2] = 2.4 }},
		"gap":           {base, func(c *report.Chart) { c.Lines[0].Y[1] = nan }},
		"band":          {base, func(c *report.Chart) { c.Lines[0].Lo[1] = 3 }},
		"no band":       {base, func(c *report.Chart) { c.Lines[0].Lo, c.Lines[0].Hi = nil, nil }},
		"dashed":        {base, func(c *report.Chart) { c.Lines[1].Dashed = true }},
		"dots":          {base, func(c *report.Chart) { c.Lines[1].Dots = true }},
		"scatter":       {base, func(c *report.Chart) { c.Kind = report.ChartScatter }},
		"time":          {base, func(c *report.Chart) { c.Kind = report.ChartTime }},
		"log":           {base, func(c *report.Chart) { c.Y.Log = true }},
		"zero":          {base, func(c *report.Chart) { c.Lines[0].Y[0], c.Lines[0].Lo[0], c.Y.Zero = 2, 2, true }},
		"span":          {base, func(c *report.Chart) { c.Spans[0].To = 2.5 }},
		"span's kind":   {base, func(c *report.Chart) { c.Spans[0].Kind = report.SpanWarn }},
		"span's name":   {base, func(c *report.Chart) { c.Spans[0].Label = "stage" }},
		"mark":          {base, func(c *report.Chart) { c.Marks[0].At = 1 }},
		"mark's name":   {base, func(c *report.Chart) { c.Marks[0].Label = "n" }},
		"quiet mark":    {base, func(c *report.Chart) { c.Marks[0].Quiet = true }},
		"note":          {base, func(c *report.Chart) { c.Note = "another" }},
		"lost value":    {base, func(c *report.Chart) { c.Lines[1].X, c.Lines[1].Y = append(c.Lines[1].X, 3), append(c.Lines[1].Y, inf) }},
		"bar":           {bars, func(c *report.Chart) { c.Lines[0].Y[2] = 2.1 }},
		"bar's low":     {bars, func(c *report.Chart) { c.Lines[0].Lo[2] = 1 }},
		"bar's high":    {bars, func(c *report.Chart) { c.Lines[0].Hi[2] = 3 }},
		"absent bar":    {bars, func(c *report.Chart) { c.Lines[0].Y[2] = nan }},
		"category":      {bars, func(c *report.Chart) { c.Categories[3] = "S" }},
		"category word": {bars, func(c *report.Chart) { c.X.Label = "model" }},
		"bars' log":     {bars, func(c *report.Chart) { c.Y.Log = true }},
	} {
		c, o := tt.from(), Options{Width: 480, Height: 320}
		tt.change(&c)
		if bytes.Equal(draw(t, tt.from(), o), draw(t, c, o)) {
			t.Errorf("%s: makes no difference", name)
		}
	}
}

// A gap is not drawn across: where it is, there is no ink of the line.
func TestGapStaysGap(t *testing.T) {
	line := func(hole float64) int {
		m := decode(t, draw(t, report.Chart{Title: "t", Kind: report.ChartLine, Lines: []report.Line{
			{X: []float64{0, 1, 2, 3, 4}, Y: []float64{5, 5, hole, 5, 5}}}}, Options{}))
		return count(m, series[0])
	}
	if whole, broken := line(5), line(nan); broken > whole*6/10 {
		t.Errorf("%d pixels with a gap of half, %d without", broken, whole)
	}
}

// An interval is drawn from end to end, and shading that costs is hatched, so
// that it shows without colour.
func TestIntervalAndHatchAreDrawn(t *testing.T) {
	bar := func(lo, hi float64) int {
		m := decode(t, draw(t, report.Chart{Kind: report.ChartBars, Categories: []string{"a"},
			Lines: []report.Line{{Y: []float64{100}, Lo: []float64{lo}, Hi: []float64{hi}}}}, Options{}))
		dark := 0
		for y := range 540 {
			for x := range 900 {
				if r, g, b, _ := m.At(x, y).RGBA(); max(r, g, b) < 0x6000 {
					dark++
				}
			}
		}
		return dark
	}
	if narrow, wide := bar(95, 100), bar(5, 100); wide < narrow+200 {
		t.Errorf("%d pixels of ink for a wide interval, %d for a narrow one", wide, narrow)
	}
	tones := func(k report.SpanKind) int {
		m := decode(t, draw(t, report.Chart{Kind: report.ChartLine, Lines: []report.Line{{X: []float64{0, 1}, Y: []float64{0, 1}}},
			Spans: []report.Span{{From: 0.2, To: 0.8, Kind: k}}}, Options{}))
		seen := map[color.Color]bool{}
		for x := 300; x < 600; x++ {
			seen[m.At(x, 120)] = true
		}
		return len(seen)
	}
	if note, warned := tones(report.SpanNote), tones(report.SpanWarn); warned < note+3 {
		t.Errorf("%d tones across a warning, %d across a note", warned, note)
	}
}

// Nothing reaches the rasterizer that is far from the sheet: it would not end.
func TestNoPathLeavesTheSheet(t *testing.T) {
	s := newSheet(Options{Width: 900, Height: 540, DPI: baseDPI})
	for _, v := range []float64{nan, inf, -inf, 1e300, -1e300, 1e12} {
		p := s.at(point{v, v})
		if !(math.Abs(float64(p.X)) <= 2000 && math.Abs(float64(p.Y)) <= 2000) {
			t.Errorf("%v is drawn at %v", v, p)
		}
	}
}

// Without data the picture says so, and why when a note does.
func TestEmptySaysSo(t *testing.T) {
	blank := draw(t, report.Chart{}, Options{})
	if n := count(decode(t, blank), dim); n < 20 {
		t.Errorf("an empty chart has %d pixels of text", n)
	}
	for name, c := range map[string]report.Chart{
		"NaN":  {Lines: []report.Line{{Name: "a", X: []float64{1, 2}, Y: []float64{nan, nan}}}},
		"Inf":  {Lines: []report.Line{{Name: "a", X: []float64{1, 2}, Y: []float64{inf, -inf}}}},
		"log":  {Y: report.Axis{Log: true}, Lines: []report.Line{{Name: "a", X: []float64{1, 2}, Y: []float64{0, -1}}}},
		"bars": {Kind: report.ChartBars, Categories: []string{"a"}, Lines: []report.Line{{Name: "b", Y: []float64{nan}}}},
		"note": {Note: "the driver did not answer"},
	} {
		data := draw(t, c, Options{})
		if count(decode(t, data), grid) > 0 {
			t.Errorf("%s: an empty frame is drawn", name)
		}
		if bytes.Equal(data, blank) {
			t.Errorf("%s: nothing says what is missing", name)
		}
	}
	if !bytes.Equal(blank, draw(t, report.Chart{Kind: report.ChartBars, Categories: []string{"a"}}, Options{})) {
		t.Error("bars without lines are not an empty chart")
	}
}

// Whatever comes in, a picture comes out, soon.
func TestHostileCharts(t *testing.T) {
	long := strings.Repeat("</script>\x1b[31m\u202e界", 50_000)
	values := []float64{0, -1, 1, 1e-320, 5e-324, 1e300, -1e300, math.MaxFloat64, -math.MaxFloat64, nan, inf, -inf, 1e-300, 1 + 1e-15, 1}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		pick := func() float64 { return values[r.IntN(len(values))] }
		list := func() []float64 {
			out := make([]float64, r.IntN(6))
			for k := range out {
				out[k] = pick()
			}
			return out
		}
		c := report.Chart{Title: long, Note: long, Kind: report.ChartKind(r.IntN(6)), X: report.Axis{Label: long, Unit: long, Log: r.IntN(2) == 0, Zero: r.IntN(2) == 0},
			Y: report.Axis{Label: "y", Log: r.IntN(2) == 0, Zero: r.IntN(2) == 0}, Small: r.IntN(2) == 0}
		for range r.IntN(4) {
			c.Lines = append(c.Lines, report.Line{Name: long, X: list(), Y: list(), Lo: list(), Hi: list(), Dots: r.IntN(2) == 0, Dashed: r.IntN(2) == 0})
			c.Spans = append(c.Spans, report.Span{From: pick(), To: pick(), Label: long, Kind: report.SpanKind(r.IntN(5))})
			c.Marks = append(c.Marks, report.Mark{At: pick(), Label: long, Quiet: r.IntN(2) == 0})
			c.Categories = append(c.Categories, long)
		}
		o := Options{Width: 240, Height: 160}
		if i%10 == 0 {
			o = Options{Width: 600, Height: 400}
		}
		decode(t, draw(t, c, o))
	}
	var big report.Chart
	big.Kind = report.ChartBars
	for range 2000 {
		big.Categories = append(big.Categories, "c")
		big.Lines = append(big.Lines, report.Line{Y: make([]float64, 2000)})
		big.Spans = append(big.Spans, report.Span{From: r.Float64(), To: 1})
		big.Marks = append(big.Marks, report.Mark{At: r.Float64(), Label: "m"})
	}
	decode(t, draw(t, big, Options{}))
	big.Kind = report.ChartLine
	for i := range big.Lines {
		big.Lines[i].X, big.Lines[i].Y = wave(2000, uint64(i), 1)
	}
	decode(t, draw(t, big, Options{}))
}

// A long name keeps its end, where versions stand.
func TestNamesKeepTheirEnds(t *testing.T) {
	s := newSheet(Options{Width: 900, Height: 540, DPI: baseDPI})
	const name = "an-engine-with-a-very-long-name-v0.11.2"
	for _, width := range []float64{10, 60, 120, 200} {
		for what, got := range map[string]string{"cut": s.cut(name, s.font, width), "squeezed": s.squeeze(name, s.font, width)} {
			if w := s.measure(got, s.font); w > max(width, s.measure("…", s.font)) {
				t.Errorf("%s to %v: %q is %.1f wide", what, width, got, w)
			}
		}
	}
	if got := s.squeeze(name, s.font, 120); !strings.HasPrefix(got, "an-eng") || !strings.HasSuffix(got, "v0.11.2") {
		t.Errorf("squeezed to %q", got)
	}
	if got := s.cut("short", s.font, 100); got != "short" {
		t.Errorf("cut to %q", got)
	}
}

func TestTicks(t *testing.T) {
	text := func(ticks []tick) string {
		var out []string
		for _, t := range ticks {
			out = append(out, t.label)
		}
		return strings.Join(out, " ")
	}
	whole := func(low, high float64) string {
		_, ticks := steps(reach{low, high, true}.apart(), 6, true)
		return text(ticks)
	}
	for _, tt := range []struct{ got, want string }{
		{whole(0, 97), "0 20 40 60 80 100"},
		{whole(-13, 21), "-20 -10 0 10 20 30"},
		{whole(1000.01, 1000.06), "1000.01 1000.02 1000.03 1000.04 1000.05 1000.06"},
		{whole(0, 24_000), "0 5 k 10 k 15 k 20 k 25 k"},
		{whole(0, 2_400_000), "0 0.5 M 1.0 M 1.5 M 2.0 M 2.5 M"},
		{whole(5, 5), "4.7 4.8 4.9 5.0 5.1 5.2 5.3"},
		{whole(0, 5e-324), "-1.0 -0.5 0 0.5 1.0"},
		{text(times(reach{0, 600, true}, 10)), "0:00 1:00 2:00 3:00 4:00 5:00 6:00 7:00 8:00 9:00 10:00"},
		{text(times(reach{-1, 1, true}, 5)), "−0:01 −0:00.5 0:00 0:00.5 0:01"},
		{text(times(reach{0, 86400 * 50, true}, 6)), "0 d 10 d 20 d 30 d 40 d 50 d"},
	} {
		if tt.got != tt.want {
			t.Errorf("ticks %q, want %q", tt.got, tt.want)
		}
	}
	if r, _ := powers(reach{30, 900, true}); r.low != 20 || r.high != 1000 {
		t.Errorf("a logarithmic axis from %v to %v", r.low, r.high)
	}
	if _, ticks := powers(reach{1e-300, 1e300, true}); len(ticks) > 20 {
		t.Errorf("%d ticks", len(ticks))
	}
}

func BenchmarkPNG(b *testing.B) {
	c := gallery()["throughput_scaling"]
	for b.Loop() {
		if err := PNG(io.Discard, c, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// The picture's colours are the page's.
func TestColoursOfThePage(t *testing.T) {
	css, err := os.ReadFile("../asset/page.css")
	if err != nil {
		t.Fatal(err)
	}
	light, _, _ := strings.Cut(string(css), "@media")
	names := map[string]color.NRGBA{"ink": ink, "dim": dim, "rule": rule, "grid": grid, "warn": warn, "bad": bad, "mark": mark}
	for i, c := range series {
		names[fmt.Sprintf("s%d", i)] = c
	}
	for name, c := range names {
		if want := fmt.Sprintf("--%s:#%02x%02x%02x", name, c.R, c.G, c.B); !strings.Contains(light, want) {
			t.Errorf("the page's style has no %s", want)
		}
	}
	if !strings.Contains(light, "--paper:#fff;") {
		t.Error("the page's paper is not white")
	}
}
