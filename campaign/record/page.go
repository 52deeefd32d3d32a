package record

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
)

// Outcome is what a report is made of.
type Outcome struct {
	Name       string
	Manifests  []store.Manifest
	Benchmarks []store.Benchmark
	// Spent is what it cost, failures included; nil: nothing was rented.
	Spent *assay.Money
	// Reserved is what may still be charged.
	Reserved *assay.Money
	Archive  []Archived
	// Trust is the file of the statement about the key that campaigns sign with;
	// empty: there is none.
	Trust string
}

// Archived is where the evidence of a result lies.
type Archived struct {
	GPU, Provider, Model string
	Directory            string
	Key                  string // that its statement names; empty: it is not signed
	Missing              bool   // it lies there no more
}

// Page is the report of a campaign: what was measured where, what a million tokens
// cost, which results no other one beats, what failed and why, and the money.
func Page(o Outcome) report.Page {
	ranked := Rank(o.Benchmarks, Query{By: ByCost})
	blocks := []report.Block{
		report.Paragraph{Text: counts(o.Manifests)},
		report.Heading{Text: "Matrix"}, matrix(o),
		report.Heading{Text: "Cost"}, results(ranked),
	}
	for _, model := range models(ranked) {
		blocks = append(blocks, Chart(model, ranked))
	}
	blocks = append(blocks, report.Heading{Text: "Failures"}, failed(o.Manifests))
	if text := leftByBudget(o); text != "" {
		blocks = append(blocks, report.Paragraph{Head: "budget", Text: text})
	}
	blocks = append(blocks, report.Heading{Text: "Spend"}, spend(o))
	if len(o.Archive) > 0 {
		blocks = append(blocks, report.Heading{Text: "Archive"}, archive(o.Archive), report.Paragraph{Text: howToVerify(o)})
	}
	return report.Page{Title: "Benchmark report: " + o.Name, Blocks: blocks}
}

// counts says how many attempts had which status.
func counts(list []store.Manifest) string {
	n := map[string]int{}
	for _, m := range list {
		n[m.Status]++
	}
	var parts []string
	for _, s := range campaign.Statuses() {
		if n[string(s)] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[string(s)], s))
		}
	}
	if len(parts) == 0 {
		return "Nothing was tried."
	}
	return fmt.Sprintf("%d attempts: %s.", len(list), strings.Join(parts, ", "))
}

// matrix has a row for each GPU at each provider, and a column for each model: its
// tokens a second, or what became of it.
func matrix(o Outcome) report.Table {
	t := report.Table{Title: "Output tokens a second", Columns: []report.Column{{Name: "GPU", Words: true}, {Name: "provider", Words: true}}}
	var rows [][2]string
	var names []string
	cell := map[[3]string]string{}
	for _, m := range o.Manifests { // oldest first: the last one counts, unless it is worse
		row := [2]string{m.GPUType, m.Provider}
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(names, m.Model) {
			names = append(names, m.Model)
		}
		key := [3]string{m.GPUType, m.Provider, m.Model}
		if old := cell[key]; old == "" || !isRate(old) || m.TokensPerSecond != nil {
			cell[key] = outcome(m)
		}
	}
	for _, n := range names {
		column := report.Column{}
		column.Name = n
		t.Columns = append(t.Columns, column)
	}
	for _, r := range rows {
		line := []string{r[0], r[1]}
		for _, n := range names {
			text := cell[[3]string{r[0], r[1], n}]
			if text == "" {
				text = "–"
			}
			line = append(line, text)
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

func isRate(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }

// outcome is one attempt in a cell of the matrix.
func outcome(m store.Manifest) string {
	switch {
	case m.TokensPerSecond != nil && m.Status == string(campaign.Partial):
		return figure(*m.TokensPerSecond) + " (partial)"
	case m.TokensPerSecond != nil:
		return figure(*m.TokensPerSecond)
	case m.FailureStage != "":
		return m.Status + ": " + m.FailureStage
	}
	return m.Status
}

func results(ranked []Candidate) report.Table {
	t := report.Table{Title: "Results of each model, the cheapest first", Columns: []report.Column{
		{Name: "model", Words: true}, {Name: "GPU", Words: true}, {Name: "provider", Words: true}, {Name: "engine", Words: true},
		{Name: "tokens/s"}, {Name: "an hour"}, {Name: "a million output tokens"},
	}}
	ranked = slices.Clone(ranked)
	slices.SortStableFunc(ranked, func(a, b Candidate) int { return cmp.Compare(a.Model, b.Model) })
	for _, c := range ranked {
		t.Rows = append(t.Rows, []string{c.Model, c.gpus(), c.Provider, c.Engine, rate(c.TokensPerSecond), aligned(c.PricePerHour, 3), aligned(c.PerMillion, 4)})
	}
	return t
}

func (c Candidate) gpus() string {
	if c.Count > 1 {
		return fmt.Sprintf("%dx %s", c.Count, c.GPU)
	}
	return c.GPU
}

// models are those that have results, in order.
func models(ranked []Candidate) []string {
	var out []string
	for _, c := range ranked {
		if !slices.Contains(out, c.Model) {
			out = append(out, c.Model)
		}
	}
	slices.Sort(out)
	return out
}

// Chart draws speed against price for one model, with the front of those that no
// other one beats.
func Chart(model string, ranked []Candidate) report.Chart {
	of := slices.DeleteFunc(slices.Clone(ranked), func(c Candidate) bool { return c.Model != model })
	front := Front(of)
	c := report.Chart{
		Title: "Speed against price: " + model, Kind: report.ChartScatter,
		X: report.Axis{Label: "price an hour", Unit: "USD", Zero: true}, Y: report.Axis{Label: "output tokens a second", Zero: true},
	}
	var names []string
	all, best := report.Line{Name: "results", Dots: true}, report.Line{Name: "front", Dashed: true}
	slices.SortStableFunc(of, func(a, b Candidate) int { return cmp.Compare(hour(a), hour(b)) })
	for _, one := range of {
		if one.PricePerHour != nil && one.TokensPerSecond != nil {
			all.X, all.Y = append(all.X, one.PricePerHour.Units()), append(all.Y, *one.TokensPerSecond)
		}
	}
	for _, one := range front {
		best.X, best.Y = append(best.X, one.PricePerHour.Units()), append(best.Y, *one.TokensPerSecond)
		names = append(names, fmt.Sprintf("%s at %s (%s an hour, %s tokens/s)", one.gpus(), one.Provider, money(one.PricePerHour), rate(one.TokensPerSecond)))
	}
	if len(all.X) > 0 {
		c.Lines = []report.Line{all, best}
	}
	if c.Note = "No result has a price."; len(names) > 0 {
		c.Note = "No other result is faster for as little: " + strings.Join(names, "; ") + "."
	}
	return c
}

// leftByBudget says what became of cells that the budget did not allow, and what to do;
// empty: there are none.
func leftByBudget(o Outcome) string {
	n, said := 0, ""
	for _, m := range o.Manifests {
		if m.FailureReason == string(campaign.CauseBudget) {
			n++
			said = m.ErrorMessage
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d cells were not tried, or not again, since the money was not enough: %s. \"assay campaign resume CAMPAIGN --budget USD\" gives more and measures them.", n, foreign.Line(said, 300))
}

// maxKey is how much of a key's id is shown.
const maxKey = 16

// archive lists where the evidence lies.
func archive(list []Archived) report.Table {
	t := report.Table{Title: "Raw results", Columns: []report.Column{
		{Name: "GPU", Words: true}, {Name: "provider", Words: true}, {Name: "model", Words: true}, {Name: "signed by key", Words: true}, {Name: "directory", Words: true},
	}}
	for _, a := range list {
		key := foreign.Line(a.Key, maxKey)
		switch {
		case a.Missing:
			key = "is not there"
		case key == "":
			key = "not signed"
		}
		t.Rows = append(t.Rows, []string{a.GPU, a.Provider, a.Model, key, foreign.Line(a.Directory, maxText)})
	}
	return t
}

func howToVerify(o Outcome) string {
	trust := o.Trust
	if trust == "" {
		trust = "KEY.pub"
	}
	return "Whether one was altered since it came home: assay ledger verify DIRECTORY --trust " + foreign.Line(trust, maxText)
}

func hour(c Candidate) float64 {
	if c.PricePerHour == nil {
		return math.Inf(1)
	}
	return c.PricePerHour.Units()
}

// failed counts failures by stage and cause, with what is done about each.
func failed(list []store.Manifest) report.Table {
	t := report.Table{Title: "By stage and cause", Columns: []report.Column{
		{Name: "stage", Words: true}, {Name: "cause", Words: true}, {Name: "attempts"}, {Name: "what is done", Words: true}, {Name: "for example", Words: true},
	}}
	type kind struct{ stage, cause string }
	n, example := map[kind]int{}, map[kind]string{}
	for _, m := range list {
		if m.FailureStage == "" && m.FailureReason == "" {
			continue
		}
		k := kind{m.FailureStage, m.FailureReason}
		if n[k]++; example[k] == "" {
			example[k] = foreign.Line(m.ErrorMessage, 120)
		}
	}
	for _, stage := range append([]campaign.Stage{""}, campaign.Stages()...) {
		var kinds []kind
		for k := range n {
			if k.stage == string(stage) {
				kinds = append(kinds, k)
			}
		}
		slices.SortFunc(kinds, func(a, b kind) int { return cmp.Or(-cmp.Compare(n[a], n[b]), cmp.Compare(a.cause, b.cause)) })
		for _, k := range kinds {
			t.Rows = append(t.Rows, []string{k.stage, k.cause, fmt.Sprint(n[k]), campaign.RemedyFor(stage, campaign.Cause(k.cause)).Words, example[k]})
		}
	}
	if len(t.Rows) == 0 {
		t.Note = "None."
	}
	return t
}

func spend(o Outcome) report.Paragraph {
	if o.Spent == nil {
		return report.Paragraph{Text: "Nothing was rented for these results by this database."}
	}
	text := money(o.Spent) + " spent, failed tries included"
	if o.Reserved != nil && o.Reserved.Nano > 0 {
		text += "; " + money(o.Reserved) + " are reserved for machines whose end is not proved"
	}
	return report.Paragraph{Text: text + "."}
}

func money(m *assay.Money) string {
	if m == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.4g %s", m.Units(), m.Currency)
}

// aligned is an amount in a column of them.
func aligned(m *assay.Money, decimals int) string {
	if m == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.*f %s", decimals, m.Units(), m.Currency)
}

func rate(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return figure(*v)
}

// figure is a rate for people: four digits, and none of an exponent.
func figure(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
