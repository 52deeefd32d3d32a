package report

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// Text writes the page for a log, or a terminal of unknown width.
func Text(w io.Writer, p Page) error { return Look{}.Text(w, p) }

func htmlOf(t *testing.T, p Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is looked for first comes first: the verdict, five figures, the score; then
// throughput, and the charts of latency after their table.
func TestHealthBeginsWithFigures(t *testing.T) {
	p := Health(sick())
	if _, ok := p.Blocks[0].(Verdict); !ok {
		t.Errorf("the first block is %T", p.Blocks[0])
	}
	tiles, ok := p.Blocks[1].(Tiles)
	if !ok {
		t.Fatalf("the second block is %T", p.Blocks[1])
	}
	var names []string
	for _, tile := range tiles {
		names = append(names, tile.Name)
		if tile.Value == "" || tile.Value == missing {
			t.Errorf("%s has no figure", tile.Name)
		}
	}
	if got := strings.Join(names, ", "); got != "output tokens/s, TTFT, median, TPOT, median, failed requests, a million output tokens" {
		t.Errorf("tiles: %s", got)
	}
	at := map[string]int{}
	for i, b := range p.Blocks {
		switch x := b.(type) {
		case Heading:
			at[x.Text] = i
		case Chart:
			if _, ok := at["chart"]; !ok {
				at["chart"] = i
			}
		}
	}
	if !(at["Throughput"] < at["chart"] && at["Throughput"] < at["Latency"]) {
		t.Errorf("order: %v", at)
	}
	if tilesOf(HealthInput{}) != nil {
		t.Error("figures of nothing")
	}
}

// A score of which nothing is known, for one reason, is one line and not five bars.
func TestUnknownScoreIsOneLine(t *testing.T) {
	score := assay.HealthScore{Unknown: map[string]string{}}
	for _, part := range []string{"latency", "throughput", "stability", "efficiency"} {
		score.Unknown[part] = "there is no baseline"
	}
	score.Unknown["overall"] = "no part is known"
	blocks := scoreBlocks(score)
	if p, ok := blocks[0].(Paragraph); len(blocks) != 1 || !ok || !strings.Contains(p.Text, "there is no baseline") {
		t.Errorf("%+v", blocks)
	}
	score.Unknown["latency"] = "too few requests"
	if _, ok := scoreBlocks(score)[0].(Bars); !ok {
		t.Error("two reasons became one")
	}
}

// Few points are not joined, a chart of nothing is left out, and an axis is
// logarithmic only where its values need it.
func TestChartsClaimNothing(t *testing.T) {
	line := func(n int) Line {
		l := Line{Name: "l"}
		for i := range n {
			l.X, l.Y = append(l.X, float64(i+1)), append(l.Y, float64(10+i))
		}
		return l
	}
	chart := func(l Line) Chart { return Chart{Title: "c", Kind: ChartLine, Lines: []Line{l}} }
	page := htmlOf(t, Page{Blocks: []Block{chart(line(3)), chart(line(5))}})
	ds := drawings(t, page)
	dots := func(i int) any { return ds[i]["lines"].([]any)[0].(map[string]any)["dots"] }
	if dots(0) != true || dots(1) != nil {
		t.Errorf("dots: %v, %v", dots(0), dots(1))
	}
	if law := (Line{Name: "law", X: []float64{1, 2}, Y: []float64{1, 2}, Dashed: true}).usable(Axis{}, Axis{}); law.Dots {
		t.Error("what was computed has two points and a line")
	}
	if got := htmlOf(t, Page{Blocks: []Block{Chart{Title: "nothing here", Kind: ChartLine}}}); strings.Contains(got, "nothing here") {
		t.Error("an empty chart stands on the page")
	}
	if wide([]Line{line(5)}) || !wide([]Line{{Y: []float64{1, 20}}}) {
		t.Error("a logarithmic axis for values near each other, or none for those far apart")
	}
	if strings.Contains(chartScript, `"–"`) {
		t.Error("a legend shows a dash for what nobody points at")
	}
}

// Rows of many columns become cards on a phone, where each figure has its name, and
// verdicts of every kind have their colour.
func TestTablesBecomeCards(t *testing.T) {
	table := Table{Columns: []Column{{Name: "metric"}, {Name: "p50", Group: "TTFT"}, {Name: "change"}, {Name: "verdict", Words: true}},
		Rows: [][]string{{"a", "1", "2", "faster"}, {"b", "1", "2", "slower *"}, {"c", "1", "2", "no difference shown"}}}
	got := htmlOf(t, Page{Blocks: []Block{table, Table{Columns: table.Columns[:2], Rows: [][]string{{"small", "1"}}}}})
	for _, want := range []string{`<section class="table cards">`, `<section class="table">`, `data-label="TTFT p50">1`, `<td class="v v-pass" data-label="verdict">faster</td>`,
		`<td class="v v-fail" data-label="verdict">slower *</td>`, `<td class="words short" data-label="verdict">no difference shown</td>`} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// Bars of one category have one colour, and a rule is drawn across all.
func TestBarsByCategory(t *testing.T) {
	c := Chart{Title: "c", Kind: ChartBars, ByCategory: true, Rule: 15, Categories: []string{"a", "b"}, Lines: []Line{{Name: "x", Y: []float64{1, 2}}, {Name: "y", Y: []float64{3, 30}}}}
	got := htmlOf(t, Page{Blocks: []Block{c}})
	if strings.Count(got, `class="s0"`) != 2 || strings.Count(got, `class="s1"`) != 2 || strings.Count(got, `<rect class="rule" x="200" `) != 4 {
		t.Error(got[strings.Index(got, "<main>"):])
	}
}
