package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// maxWarnings is how many warnings the first screen shows.
const maxWarnings = 3

// First is the first screen of a run: whether the numbers are the engine's, the
// numbers, how they are distributed, and what to do next. [Run] has the rest; more
// says how a reader comes to it.
func First(s assay.Summary, h *assay.Health, more string) Page {
	p := Page{Title: fmt.Sprintf("%s at %s (%s): %s, %s",
		orMissing(s.Engine.Model), s.Engine.URL, s.Engine.Backend, s.Status, spell(time.Duration(s.Ended-s.Started)))}
	p.Blocks = append(p.Blocks, firstClient(s.Client))
	if h != nil {
		p.Blocks = append(p.Blocks, Paragraph{Head: "node   ", Text: strings.ToUpper(h.Verdict.String()) + ": " + firstFinding(*h) + ".", Tone: toneOf(h.Verdict.String())})
		if text := costLine(h.Cost); text != "" {
			p.Blocks = append(p.Blocks, Paragraph{Head: "cost   ", Text: text})
		}
	}
	p.Blocks = append(p.Blocks, firstStages(s))
	if t, ok := errors(s); ok {
		p.Blocks = append(p.Blocks, t)
	}
	if s.FindMax != nil {
		p.Blocks = append(p.Blocks, Paragraph{Head: "find-max", Text: findMax(*s.FindMax)})
	}
	if text := undecided(s); text != "" {
		p.Blocks = append(p.Blocks, Paragraph{Head: "objectives", Text: text})
	}
	if c, ok := histogram(s); ok {
		p.Blocks = append(p.Blocks, c)
	}
	if l := firstWarnings(s); len(l.Items) > 0 {
		p.Blocks = append(p.Blocks, l)
	}
	next := Next(s)
	if more != "" {
		next = append(next, more)
	}
	if len(next) > 0 {
		p.Blocks = append(p.Blocks, List{"next   ", next})
	}
	return p
}

// firstClient is the certificate with what it rests on, in one sentence; one cause
// where there are several.
func firstClient(c assay.ClientSummary) Paragraph {
	p := Paragraph{Head: "client ", Tone: toneOf(string(c.Certificate))}
	word := strings.ToUpper(string(c.Certificate))
	if c.Certificate == assay.Certified {
		p.Text = fmt.Sprintf("%s by the %s clock: these times are the engine's, not the client's.", word, c.Clock)
		return p
	}
	why := strings.ReplaceAll(c.Cause, "_", " ")
	if len(c.Why) > 0 {
		why = strings.TrimSuffix(c.Why[0], ".")
	}
	p.Text = fmt.Sprintf("%s by the %s clock: %s. Each time may be wrong by %s ms.", word, c.Clock, why, number(c.ErrorBarUS/1000))
	return p
}

// firstFinding is why the node's verdict is what it is, with what to do about it.
func firstFinding(h assay.Health) string {
	text := strings.TrimSuffix(h.Because, ".")
	for _, f := range h.Findings {
		if f.Verdict == h.Verdict && f.Action != "" {
			return text + "; " + strings.TrimSuffix(f.Action, ".")
		}
	}
	return text
}

// firstStages is the table of stages for a terminal of 80 columns; wider ones get
// more of it, narrower ones less.
func firstStages(s assay.Summary) Table {
	t := stages(s)
	drop := map[string]int{
		"E2E ms p90": 9, "TTFT ms p90": 8, "TPOT ms p90": 8, "E2E ms p99": 7, "per second requests": 6,
		"as intended p90": 8, "as intended p50": 5, "E2E ms p50": 5, "load": 4, "per second over": 4, "TPOT ms p99": 3, "requests ok": 3, "TTFT ms p50": 2, "TTFT ms p99": 1,
	}
	for i, c := range t.Columns {
		t.Columns[i].Drop = drop[strings.TrimSpace(c.Group+" "+c.Name)]
	}
	return t
}

// histogram draws the TTFT of the last stage that has one: the one with the most
// load, where stages rise. Steps of a search are left to the page.
func histogram(s assay.Summary) (Chart, bool) {
	for _, st := range slices.Backward(s.Stages) {
		h := st.TTFTHistogram
		if h == nil || st.Plan.Probe || len(h.Edges) != len(h.Counts) || st.TTFT.N < 2 {
			continue
		}
		c := Chart{Title: fmt.Sprintf("TTFT at %s: how many of %d requests", loadOf(st.Plan), st.TTFT.N), Kind: ChartBars, Y: Axis{Count: true}}
		line := Line{}
		last := len(h.Counts) - 1
		for i, n := range h.Counts {
			if i == last && n == 0 {
				break
			}
			name := "over " + number(h.Edges[i]) + " ms"
			if i < last {
				name = number(h.Edges[i]) + " to " + number(h.Edges[i+1]) + " ms"
			}
			c.Categories, line.Y = append(c.Categories, name), append(line.Y, float64(n))
		}
		c.Lines = []Line{line}
		return c, true
	}
	return Chart{}, false
}

// firstWarnings merges what is warned of in several stages, and counts what there
// is no room for.
func firstWarnings(s assay.Summary) List {
	l := List{Head: "warning"}
	stages := map[string][]string{}
	var order []string
	for _, w := range s.Warnings {
		if _, ok := stages[w.Text]; !ok {
			order = append(order, w.Text)
		}
		stages[w.Text] = append(stages[w.Text], w.Stage)
	}
	for i, text := range order {
		if i == maxWarnings {
			l.Items = append(l.Items, fmt.Sprintf("and %d more with -v", len(order)-i))
			break
		}
		if at := strings.Join(slices.DeleteFunc(stages[text], func(s string) bool { return s == "" }), ", "); at != "" {
			text = at + ": " + text
		}
		l.Items = append(l.Items, text)
	}
	return l
}
