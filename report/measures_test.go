package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// byEngine has all that bars can have: several lines, an interval, none, a
// value that is missing, one that cannot be drawn.
func byEngine() Chart {
	nan := math.NaN()
	return Chart{Title: "Latency by engine", Kind: ChartBars, Categories: []string{"vllm", "llama.cpp <b>", "ollama"}, X: Axis{Label: "engine"},
		Y: Axis{Label: "end to end", Unit: "ms"}, Note: "Medians of 12 rounds.",
		Lines: []Line{{Name: "p50", Y: []float64{400, 800, nan}, Lo: []float64{380, nan, nan}, Hi: []float64{430, 820, nan}},
			{Name: "p99", Y: []float64{1600, math.Inf(1), 100}, Lo: []float64{1500}, Hi: []float64{1700}}, {Name: "p99.9"}}}
}

func TestMeasures(t *testing.T) {
	page := Page{Title: "Bars", Blocks: []Block{byEngine()}}
	var text, md, html bytes.Buffer
	for _, err := range []error{Text(&text, page), Markdown(&md, page), HTML(&html, page)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	bar := func(full int) string { return strings.Repeat("█", full) + strings.Repeat("░", 32-full) }
	wantText := `Bars

Latency by engine (end to end, ms)
  vllm           p50  ` + bar(8) + `  400 [380, 430]
                 p99  ` + bar(30) + `  1600 [1500, 1700]
  llama.cpp <b>  p50  ` + bar(15) + `  800
                 p99  no data
  ollama         p50  no data
                 p99  ` + bar(2) + `  100
  no data: p99.9
  1 value is not drawn: infinite or without a place
  Medians of 12 rounds.
`
	if text.String() != wantText {
		t.Errorf("text is\n%s\nwant\n%s", text.String(), wantText)
	}
	wantMD := `# Bars

### Latency by engine (ms)

| engine | p50 | p99 |
| --- | ---: | ---: |
| vllm | 400 \[380, 430\] | 1600 \[1500, 1700\] |
| llama.cpp &lt;b&gt; | 800 | no data |
| ollama | no data | 100 |

no data: p99.9

1 value is not drawn: infinite or without a place

Medians of 12 rounds.
`
	if md.String() != wantMD {
		t.Errorf("Markdown is\n%s\nwant\n%s", md.String(), wantMD)
	}
	for _, want := range []string{`<th scope="rowgroup" rowspan="2">llama.cpp &lt;b&gt;</th>`, `<td class="value">400 [380, 430]</td>`,
		`<rect class="s0" x="0" width="94.12" height="12"/><rect class="halo" x="89.41"`, `<td class="bar"></td><td class="value">no data</td>`,
		`<p>No data: p99.9.</p>`, `<p>Medians of 12 rounds.</p>`} {
		if !strings.Contains(html.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(html.String(), `id="charts"`) {
		t.Error("bars need the script")
	}
}

func TestMeasuresScale(t *testing.T) {
	at := func(log bool, values ...float64) string {
		var all []measure
		for _, v := range values {
			all = append(all, measure{value: v, lo: math.NaN(), hi: math.NaN()})
		}
		s := barScaleOf(all, log)
		var out []string
		for _, v := range values {
			from, to := s.stretch(v, 0.02)
			out = append(out, fmt.Sprintf("%.2f-%.2f", from, to))
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		log    bool
		values []float64
		want   string
	}{
		{false, []float64{1, 2, 4}, "0.00-0.25 0.00-0.50 0.00-1.00"},
		{false, []float64{-1, 3}, "0.00-0.25 0.25-1.00"},
		{false, []float64{-2, -1}, "0.00-1.00 0.50-1.00"},
		{false, []float64{0, 0}, "0.00-0.00 0.00-0.00"},
		{false, []float64{-1e300, 1e300}, "0.00-0.50 0.50-1.00"},
		{true, []float64{1, 10, 100}, "0.04-0.06 0.49-0.51 0.94-0.96"},
		{true, []float64{7}, "0.49-0.51"},
	} {
		if got := at(tt.log, tt.values...); got != tt.want {
			t.Errorf("log %v, %v: %s, want %s", tt.log, tt.values, got, tt.want)
		}
	}
}

// Nothing to draw is said in every rendering, and a crowd is bounded.
func TestMeasuresEmptyAndMany(t *testing.T) {
	many := Chart{Title: "many", Kind: ChartBars}
	for i := range 1000 {
		many.Categories = append(many.Categories, fmt.Sprint("c", i))
	}
	for range 100 {
		many.Lines = append(many.Lines, Line{Name: "l", Y: make([]float64, 1000)})
	}
	for name, tt := range map[string]struct {
		c    Chart
		want string
	}{
		"nothing":       {Chart{Title: "t", Kind: ChartBars}, "no data"},
		"no values":     {Chart{Title: "t", Kind: ChartBars, Categories: []string{"a"}, Lines: []Line{{Name: "x", Y: []float64{math.NaN()}}}}, "no data"},
		"no categories": {Chart{Title: "t", Kind: ChartBars, Lines: []Line{{Name: "x", Y: []float64{1}}}}, "no data"},
		"many":          {many, "960 more categories are not drawn"},
	} {
		page := Page{Blocks: []Block{tt.c}}
		for kind, render := range map[string]func(*bytes.Buffer) error{
			"text": func(b *bytes.Buffer) error { return Text(b, page) }, "Markdown": func(b *bytes.Buffer) error { return Markdown(b, page) },
			"HTML": func(b *bytes.Buffer) error { return HTML(b, page) },
		} {
			var b bytes.Buffer
			if err := render(&b); err != nil {
				t.Fatal(err)
			}
			says := strings.Contains(strings.ToLower(b.String()), tt.want)
			if empty := tt.want == "no data"; kind == "HTML" && empty { // a page leaves an empty picture out
				says = !strings.Contains(b.String(), "<figure")
			}
			if !says {
				t.Errorf("%s as %s does not say %q", name, kind, tt.want)
			}
			if b.Len() > 500_000 {
				t.Errorf("%s as %s: %d bytes", name, kind, b.Len())
			}
		}
	}
	d, remarks := many.Drawable()
	if len(d.Categories) != mostCategories || len(d.Lines) != mostLines || len(remarks) != 2 {
		t.Errorf("%d categories, %d lines, remarks %q", len(d.Categories), len(d.Lines), remarks)
	}
}

// The bars in a real browser: nothing is asked of the network, nothing
// complained of, and they fit a phone.
func TestMeasuresInChromium(t *testing.T) {
	b := startBrowser(t)
	log := byEngine()
	log.Title, log.Y.Log = "The same on a logarithmic scale", true
	one := Chart{Title: "Memory", Kind: ChartBars, Y: Axis{Unit: "GiB"}, Categories: []string{"vllm 0.11.0 with fp8 weights and a long name", "sglang"}, Lines: []Line{{Y: []float64{22.4, 19.1}, Lo: []float64{21, 18}, Hi: []float64{23, 20}}}}
	var page bytes.Buffer
	if err := HTML(&page, Page{Title: "Comparison", Blocks: []Block{Heading{"Latency"}, byEngine(), log, one, small}}); err != nil {
		t.Fatal(err)
	}
	b.scheme("light")
	requests, complaints := b.open(page.Bytes())
	if len(requests) != 1 || len(complaints) != 0 {
		t.Errorf("requests %q, complaints %q", requests, complaints)
	}
	b.screenshot("bars-light")
	const widths = `[...document.querySelector(".measures").querySelectorAll(".s0,.s1")].map(r => r.getBoundingClientRect().width.toFixed()).join(" ")`
	var w [4]float64
	if got := b.eval(widths); true {
		if n, err := fmt.Sscan(got, &w[0], &w[1], &w[2], &w[3]); n != 4 {
			t.Fatalf("bars of %s: %v", got, err)
		}
	}
	if !(math.Abs(w[1]/w[0]-4) <= 0.1) || !(math.Abs(w[2]/w[0]-2) <= 0.1) || w[0] < 20 {
		t.Errorf("bars of 400, 1600, 800, 100 are %v wide", w)
	}
	b.scheme("dark")
	b.screenshot("bars-dark")
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	b.frame()
	if got := b.eval(`document.documentElement.scrollWidth`); got != "390" {
		t.Errorf("the page is %s wide on a phone of 390", got)
	}
	b.screenshot("bars-phone")
}
