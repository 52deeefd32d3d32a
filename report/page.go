// Package report turns results into pages, and pages into what people look at.
//
// A Page is a list of blocks without any markup: what is shown is decided once,
// by [Run], [Health] and their like, and how it is shown is decided by a
// renderer: [Look.Text], [Markdown] or [HTML]. Nothing here computes a result; a
// figure that is not in the summary or the health report is not shown. What is
// drawn may be thinned, and then the caption says so; what a caption says of a
// series is taken before thinning.
//
// Names, texts and readings may come from an engine or a driver that lies.
// Every renderer escapes them for what it writes.
package report

import (
	"strings"

	"github.com/assay-bench/assay"
)

// Page is one report.
type Page struct {
	Title  string
	Blocks []Block
}

// Block is a [Heading], [Verdict], [Tiles], [Bars], [Table], [Chart], [Paragraph],
// [List] or [Commands].
type Block interface{ block() }

// Heading begins a section; the table of contents is made of headings.
type Heading struct{ Text string }

// Verdict is the answer, before everything else.
type Verdict struct {
	Of      string // what was judged: a node's name
	Verdict assay.Verdict
	Word    string         // in place of the verdict's own: "b is faster"
	Score   assay.Quantity // in [0,1]
	Why     string         // one line
	Note    string         // smaller, below: what the score rests on
}

// word is the verdict's word in capitals, or the one in its place, which may hold a
// name.
func (v Verdict) word() string {
	if v.Word != "" {
		return v.Word
	}
	return strings.ToUpper(v.Verdict.String())
}

// Tiles are the few figures that are looked for first.
type Tiles []Tile

// Tile is one of [Tiles]: what it is of, the figure with its unit, and a remark.
type Tile struct{ Name, Value, Note string }

// Bars are values in [0,1] as bars with their intervals.
type Bars struct {
	Title string
	Bars  []Bar
	Note  string
}

// Bar is one of [Bars]. An unknown value has no bar and shows its reason.
type Bar struct {
	Name  string
	Value assay.Quantity
	Note  string
	// Strong sets a bar apart from the others: the whole among its parts.
	Strong bool
}

// Table is a table with a heading over each column, right-aligned but for the
// first column and columns of words.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]string
	Note    string // below the table, in words
	// Line is how long a line of text may be: what the last column has more is cut.
	// Zero: it wraps.
	Line int
}

// Column is one column; Group stands once over neighbours that share it.
type Column struct {
	Group, Name string
	// Words are aligned to the left, and may wrap.
	Words bool
	// Drop says when the column is left out of a table that is too wide for its
	// terminal: the highest first; 0: never.
	Drop int
}

// Paragraph is running text under a heading word.
type Paragraph struct {
	Head, Text string
	Tone       Tone // of the first word
}

// Tone says what a word means, for a terminal with colours.
type Tone uint8

// The tones.
const (
	ToneNone Tone = iota
	ToneGood
	ToneWarn
	ToneBad
)

// toneOf is the tone of a word: a verdict's, a certificate's, a comparison's or a
// criterion's, in any case.
func toneOf(word string) Tone {
	switch strings.ToLower(word) {
	case assay.Pass.String(), string(assay.Certified), "faster", "met":
		return ToneGood
	case assay.Degraded.String(), assay.Unknown.String():
		return ToneWarn
	case assay.Fail.String(), string(assay.Invalid), "slower", "not met":
		return ToneBad
	}
	return ToneNone
}

// List is a list of remarks under a heading word.
type List struct {
	Head  string
	Items []string
}

// Commands are lines to be typed or pasted: none of them is broken.
type Commands []string

func (Heading) block()   {}
func (Verdict) block()   {}
func (Tiles) block()     {}
func (Bars) block()      {}
func (Table) block()     {}
func (Chart) block()     {}
func (Paragraph) block() {}
func (List) block()      {}
func (Commands) block()  {}
