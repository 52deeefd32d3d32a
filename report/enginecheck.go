package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

type shownFigure struct{ what, name string }

// checkedFigures are what the table shows, in its order; the others are in the
// summary and, where they are off, in the warnings.
var checkedFigures = []shownFigure{
	{"requests", "requests"}, {"ttft", "TTFT ms"}, {"tpot", "TPOT ms"}, {"gap", "gap ms"},
	{"after_first", "first to last ms"}, {"e2e", "E2E ms"}, {"token_time", "E2E a token ms"},
}

// enginesChecked is ours beside the engine's, a row a stage. Steps of a search
// are shown where they are off.
func enginesChecked(s assay.Summary) []Block {
	shown := slices.DeleteFunc(slices.Clone(s.Stages), func(st assay.StageSummary) bool {
		return st.EngineCheck == nil || st.Plan.Probe && st.EngineCheck.Verdict != assay.Fail
	})
	if len(shown) == 0 {
		return nil
	}
	columns := []Column{{Name: "stage"}}
	var figures []shownFigure
	for _, c := range checkedFigures {
		if slices.ContainsFunc(shown, func(st assay.StageSummary) bool { _, ok := checked(st.EngineCheck, c.what); return ok }) {
			figures = append(figures, c)
		}
	}
	// A mean from the first token to the last says in ms what TPOT says a token.
	if slices.ContainsFunc(figures, func(c shownFigure) bool { return c.what == "tpot" || c.what == "gap" }) {
		figures = slices.DeleteFunc(figures, func(c shownFigure) bool { return c.what == "after_first" })
	}
	for _, c := range figures {
		columns = append(columns, Column{Group: c.name, Name: "ours"}, Column{Group: c.name, Name: "engine's"})
	}
	prompt := slices.ContainsFunc(shown, func(st assay.StageSummary) bool { _, ok := checked(st.EngineCheck, "prompt"); return ok })
	if prompt {
		columns = append(columns, Column{Group: "engine's", Name: "prompt ms"})
	}
	t := Table{Title: "Ours beside the engine's own figures (means)", Columns: append(columns, Column{Name: "agree"})}
	for _, st := range shown {
		row := []string{st.Name}
		for _, c := range figures {
			x, ok := checked(st.EngineCheck, c.what)
			if !ok {
				row = append(row, missing, missing)
				continue
			}
			row = append(row, known(x.Ours, x.Unit), known(x.Theirs, x.Unit))
		}
		if prompt {
			x, _ := checked(st.EngineCheck, "prompt")
			row = append(row, known(x.Theirs, x.Unit))
		}
		t.Rows = append(t.Rows, append(row, agrees(st.EngineCheck.Verdict)))
	}
	t.Note = checkedNote(shown)
	return []Block{t}
}

// checked finds a figure: the page's before that of the answers.
func checked(c *assay.EngineCheck, what string) (assay.Compared, bool) {
	x, ok := c.Find(what, "metrics")
	if !ok {
		x, ok = c.Find(what, "answers")
	}
	return x, ok && x.Ours != nil && x.Theirs != nil
}

func known(v *float64, unit string) string {
	if v == nil {
		return missing
	}
	if unit != "ms" {
		return fmt.Sprintf("%.0f", *v)
	}
	return number(*v)
}

func agrees(v assay.Verdict) string {
	switch v {
	case assay.Pass:
		return "yes"
	case assay.Fail:
		return "no"
	}
	return "unknown"
}

// checkedNote says which of the engine's figures were compared.
func checkedNote(stages []assay.StageSummary) string {
	var from []string
	for _, st := range stages {
		for _, x := range st.EngineCheck.Compared {
			text := "what the engine says in each answer"
			if x.From == "metrics" {
				text = st.EngineCheck.Engine + "'s /metrics page, after less before"
			}
			if !slices.Contains(from, text) {
				from = append(from, text)
			}
		}
	}
	if len(from) == 0 {
		return "nothing could be compared; the warnings say why."
	}
	return "engine's: " + strings.Join(from, ", and ") + ". Warm-ups are in both. Ours have HTTP and transport in TTFT and E2E."
}
