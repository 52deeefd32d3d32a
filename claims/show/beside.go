package show

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/report"
)

// Prerequisites is a page of what a file requires and what the machine has.
func Prerequisites(name string, all []claims.Prerequisite) report.Page {
	p := report.Page{Title: name}
	if t, ok := (shown{&claims.Result{Prerequisites: all}}).prerequisitesTable(); ok {
		p.Blocks = append(p.Blocks, t)
	} else {
		p.Blocks = append(p.Blocks, report.Paragraph{Text: "The file requires nothing of the machine."})
	}
	return p
}

func (r shown) prerequisitesTable() (report.Table, bool) {
	t := report.Table{Title: "Prerequisites", Columns: []report.Column{{Name: "prerequisite"}, {Name: "there", Words: true}, {Name: "wanted", Words: true}, {Name: "have", Words: true}, {Name: "what to do", Words: true}},
		Note: "What the promises take for granted. A missing one decides no claim: it says that they were made for another machine."}
	for _, p := range r.Prerequisites {
		t.Rows = append(t.Rows, []string{p.What, there(p.Verdict), p.Wanted, p.Have, p.Do})
	}
	return t, len(t.Rows) > 0
}

// besideWords says in the headline under which load the figures are.
func (r shown) besideWords() string {
	if !r.Stress {
		return ""
	}
	return ", under stress: families side by side, so the verdicts are about a loaded machine"
}

// maxHotShown is how many functions are shown; results.json has more.
const maxHotShown = 10

func (r shown) profileBlocks() []report.Block {
	x := r.Profile
	if x == nil {
		return nil
	}
	t := report.Table{Columns: []report.Column{{Name: "function"}, {Name: "self"}, {Name: "with calls"}, {Name: "program", Words: true}, {Name: "way to it", Words: true}},
		Note: fmt.Sprintf("%d samples by %s of %s. profile.html has the flame graph, profile.folded the stacks.", x.Samples, x.By, strings.Join(x.Of, ", "))}
	for _, h := range x.Hot[:min(len(x.Hot), maxHotShown)] {
		t.Rows = append(t.Rows, []string{shortFunction(h.Function), claims.FormatValue(h.Self, "ratio"), claims.FormatValue(h.Total, "ratio"), h.Process, shortPath(h.Path)})
	}
	out := []report.Block{report.Heading{Text: "Processor time"}}
	if len(t.Rows) == 0 {
		out = append(out, report.Paragraph{Text: fmt.Sprintf("No samples by %s of %s.", x.By, strings.Join(x.Of, ", "))})
	} else {
		out = append(out, t)
	}
	if x.Why != "" {
		out = append(out, report.Paragraph{Text: x.Why + "."})
	}
	return out
}

func there(v assay.Verdict) string {
	switch v {
	case assay.Pass:
		return "yes"
	case assay.Fail:
		return "no"
	}
	return "not known"
}

// shortFunction is the name of a Go function without the way to its package, which
// results.json has; other names stay as they are.
func shortFunction(name string) string {
	at := strings.LastIndexByte(name, '/')
	if at < 0 || strings.ContainsAny(name[:at], " ([<") || !strings.Contains(name[at:], ".") {
		return name
	}
	return name[at+1:]
}

func shortPath(path string) string {
	all := strings.Split(path, " → ")
	for i := range all {
		all[i] = shortFunction(all[i])
	}
	return strings.Join(all, " → ")
}
