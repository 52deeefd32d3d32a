package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's own script and style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// uPlot 1.6.32, MIT: its licence lies beside it.
var (
	//go:embed asset/uPlot-1.6.32.iife.min.js
	uplotScript string
	//go:embed asset/uPlot-1.6.32.min.css
	uplotStyle string
	//go:embed asset/uPlot-1.6.32.LICENSE
	uplotLicence string
	//go:embed asset/chart.js
	chartScript string
	//go:embed asset/page.css
	pageStyle string
	//go:embed asset/page.html.tmpl
	pageTemplate string
)

// HTML writes the page as one file that needs nothing else: no network, no
// font, no other file. Its content security policy allows the one script and
// the one style that are in it, by their hashes, and forbids everything else.
func HTML(w io.Writer, p Page) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("parsing the page's template: %w", err)
	}
	style := uplotStyle + "\n" + pageStyle
	script := "/*\n" + uplotLicence + "\n*/\n" + uplotScript + "\n" + chartScript
	page := htmlPage{
		Title: show(p.Title),
		CSP: "default-src 'none'; script-src '" + hash(script) + "'; style-src '" + hash(style) +
			"'; img-src data:; base-uri 'none'; form-action 'none'",
		// Both are our own files: nothing that was measured is in them.
		CSS:    template.CSS(style),
		Script: template.JS(script),
	}
	for _, block := range p.Blocks {
		page.add(block)
	}
	shareRanges(page.Charts)
	var b bytes.Buffer
	if err := t.Execute(&b, page); err != nil {
		return fmt.Errorf("rendering the page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

type htmlPage struct {
	Title, CSP string
	CSS        template.CSS
	Script     template.JS
	Contents   []*htmlHeading
	Blocks     []htmlBlock
	Charts     []*drawing
}

// htmlBlock has one of its members.
type htmlBlock struct {
	Heading   *htmlHeading
	Verdict   *htmlVerdict
	Tiles     Tiles
	Bars      *htmlBars
	Table     *htmlTable
	Chart     *htmlChart
	Paragraph *Paragraph
	List      *List
	Commands  []string
}

type htmlHeading struct{ ID, Text string }

type htmlVerdict struct{ Of, Class, Word, Score, Range, Why, Note string }

type htmlBars struct {
	Title, Note string
	Rows        []htmlBar
}

type htmlBar struct {
	Name, Value, Note    string
	Strong, Known, Range bool
	Width, Lo, Span      float64
}

type htmlTable struct {
	Title   string
	Groups  []htmlGroup
	Columns []Column
	Rows    [][]htmlCell
	Notes   []string
	// Cards are what the rows become on a narrow screen, where so many columns would
	// be out of sight.
	Cards bool
}

type htmlGroup struct {
	Name string
	Span int
}

type htmlCell struct{ Text, Class, Label string }

// minCards is how many columns make cards of a table's rows on a narrow screen.
const minCards = 3

func (p *htmlPage) add(block Block) {
	switch x := block.(type) {
	case Heading:
		h := &htmlHeading{ID: "s" + strconv.Itoa(len(p.Contents)+1), Text: show(x.Text)}
		p.Contents = append(p.Contents, h)
		p.Blocks = append(p.Blocks, htmlBlock{Heading: h})
	case Verdict:
		v := &htmlVerdict{Of: show(x.Of), Class: x.Verdict.String(), Word: show(x.word()), Why: show(x.Why), Note: show(x.Note)}
		if x.Score.Known() {
			v.Score, v.Range, _ = strings.Cut(interval(x.Score), " ")
		}
		p.Blocks = append(p.Blocks, htmlBlock{Verdict: v})
	case Tiles:
		var t Tiles
		for _, tile := range x {
			t = append(t, Tile{show(tile.Name), show(tile.Value), show(tile.Note)})
		}
		p.Blocks = append(p.Blocks, htmlBlock{Tiles: t})
	case Bars:
		p.Blocks = append(p.Blocks, htmlBlock{Bars: barsOf(x)})
	case Table:
		p.Blocks = append(p.Blocks, htmlBlock{Table: tableOf(x)})
	case Chart:
		c, d := chartOf(x)
		if d == nil && len(c.Rows) == 0 && c.Note == "" {
			return // an empty picture tells nothing
		}
		if d != nil {
			c.Index, c.Drawn, c.Hint = len(p.Charts), true, len(p.Charts) == 0
			p.Charts = append(p.Charts, d)
		}
		p.Blocks = append(p.Blocks, htmlBlock{Chart: c})
	case Paragraph:
		p.Blocks = append(p.Blocks, htmlBlock{Paragraph: &Paragraph{Head: show(strings.TrimSpace(x.Head)), Text: show(x.Text), Tone: x.Tone}})
	case List:
		l := &List{Head: show(strings.TrimSpace(x.Head))}
		for _, item := range x.Items {
			l.Items = append(l.Items, show(item))
		}
		p.Blocks = append(p.Blocks, htmlBlock{List: l})
	case Commands:
		var lines []string
		for _, line := range x {
			lines = append(lines, show(line))
		}
		p.Blocks = append(p.Blocks, htmlBlock{Commands: lines})
	}
}

// toneClass is the class of a cell that is a verdict; empty: it is none. A star at
// its end says that there are doubts, and changes nothing of it.
func toneClass(text string) string {
	var v assay.Verdict
	if v.UnmarshalText([]byte(text)) == nil {
		return "v-" + v.String()
	}
	switch toneOf(strings.TrimSuffix(text, " *")) {
	case ToneGood:
		return "v-" + assay.Pass.String()
	case ToneBad:
		return "v-" + assay.Fail.String()
	}
	return ""
}

func barsOf(x Bars) *htmlBars {
	out := &htmlBars{Title: show(x.Title), Note: show(x.Note)}
	for _, b := range x.Bars {
		row := htmlBar{Name: show(b.Name), Value: show(interval(b.Value)), Note: show(b.Note), Strong: b.Strong, Known: b.Value.Known()}
		if row.Known {
			row.Width = 200 * unit(b.Value.Est)
			row.Range = !math.IsNaN(b.Value.Lo) && !math.IsNaN(b.Value.Hi)
			row.Lo = 200 * unit(b.Value.Lo)
			row.Span = max(1, 200*unit(b.Value.Hi)-row.Lo)
		} else {
			row.Value = "unknown"
			row.Note = show(strings.Trim(b.Value.Why+"; "+b.Note, "; "))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func tableOf(x Table) *htmlTable {
	t := &htmlTable{Title: show(x.Title), Cards: len(x.Columns) >= minCards}
	grouped := false
	for i, c := range x.Columns {
		t.Columns = append(t.Columns, Column{Name: show(c.Name), Words: c.Words || i == 0})
		if i > 0 && x.Columns[i-1].Group == c.Group {
			t.Groups[len(t.Groups)-1].Span++
		} else {
			t.Groups = append(t.Groups, htmlGroup{show(c.Group), 1})
		}
		grouped = grouped || c.Group != ""
	}
	if !grouped {
		t.Groups = nil
	}
	for _, r := range x.Rows {
		var row []htmlCell
		for i, text := range r {
			cell := htmlCell{Text: show(text)}
			if i < len(x.Columns) {
				cell.Label = show(strings.TrimSpace(x.Columns[i].Group + " " + x.Columns[i].Name))
			}
			switch class := toneClass(text); {
			case class != "":
				cell.Class = "v " + class
			case i < len(x.Columns) && x.Columns[i].Words && len(text) > 60:
				cell.Class = "words wide"
			case i < len(x.Columns) && x.Columns[i].Words && len(text) > 20:
				cell.Class = "words mid"
			case i < len(x.Columns) && x.Columns[i].Words:
				cell.Class = "words short"
			case len(text) > 16:
				cell.Class = "long"
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	if x.Note != "" {
		for line := range strings.SplitSeq(x.Note, "\n") {
			t.Notes = append(t.Notes, show(line))
		}
	}
	return t
}
