// Package report turns results into pages, and pages into what people look at.
//
// A Page is a list of blocks without any markup: what is shown is decided once,
// by [Run] and its like, and how it is shown is decided by a renderer. Nothing
// here computes a result; a figure that is not in the summary is not shown.
package report

// Page is one report.
type Page struct {
	Title  string
	Blocks []Block
}

// Block is a [Table], a [Paragraph] or a [List].
type Block interface{ block() }

// Table is a table with a heading over each column, right-aligned but for the
// first column.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]string
	Note    string // below the table, in words
}

// Column is one column; Group stands once over neighbours that share it.
type Column struct{ Group, Name string }

// Paragraph is running text under a heading word.
type Paragraph struct{ Head, Text string }

// List is a list of remarks under a heading word.
type List struct {
	Head  string
	Items []string
}

func (Table) block()     {}
func (Paragraph) block() {}
func (List) block()      {}
