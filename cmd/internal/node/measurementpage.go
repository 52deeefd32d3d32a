package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

func measurementsPage(all []api.Measurement) report.Page {
	t := report.Table{Title: fmt.Sprintf("%d measurements", len(all)), Columns: []report.Column{{Name: "id"}, {Name: "begun"}, {Name: "mode", Words: true}, {Name: "state", Words: true}, {Name: "nodes"}, {Name: "measured"}, {Name: "reason", Words: true}}}
	for _, m := range all {
		t.Rows = append(t.Rows, []string{m.Id, m.Created.UTC().Format(time.RFC3339), modeOf(m), string(m.State), fmt.Sprint(len(m.Nodes)), fmt.Sprint(measured(m)), m.Reason})
	}
	return report.Page{Blocks: []report.Block{t}}
}

func modeOf(m api.Measurement) string { return strings.ReplaceAll(string(m.Mode), "_", " ") }

func measured(m api.Measurement) (n int) {
	for _, x := range m.Nodes {
		if x.State == api.MeasuredNodeStateMeasured {
			n++
		}
	}
	return n
}

// measurementPage has what became of each node, what each measured, and what that is
// together.
func measurementPage(m api.Measurement) report.Page {
	nodes := report.Table{
		Title:   fmt.Sprintf("%d of %d nodes measured, %s; %s", measured(m), len(m.Nodes), modeOf(m), m.State),
		Columns: []report.Column{{Name: "node"}, {Name: "host", Words: true}, {Name: "state", Words: true}, {Name: "late s"}, {Name: "clock ± s"}, {Name: "cause", Words: true}},
	}
	rows := report.Table{Title: "Node by node", Columns: stageColumns("node")}
	for _, n := range m.Nodes {
		late, slack, cause := "", "", deref(n.Cause)
		if k := n.Clock; k != nil {
			late, slack = amount(k.StartErrorSeconds, "%.3f"), amount(k.UncertaintySeconds, "%.3f")
			if k.Unknown != nil {
				cause = strings.TrimPrefix(cause+"; "+*k.Unknown, "; ")
			}
		}
		nodes.Rows = append(nodes.Rows, []string{n.Node, deref(n.Hostname), string(n.State), late, slack, cause})
		if n.Stages != nil {
			for _, s := range *n.Stages {
				rows.Rows = append(rows.Rows, append([]string{n.Node}, stageRow(s)...))
			}
		}
	}
	page := report.Page{Title: "Measurement " + m.Id, Blocks: []report.Block{nodes}}
	if len(rows.Rows) > 0 {
		page.Blocks = append(page.Blocks, rows)
	}
	if m.Result == nil {
		return page
	}
	joint := report.Table{Title: "Together", Columns: append(stageColumns("nodes"), report.Column{Name: "at once s"}, report.Column{Name: "unknown", Words: true})}
	if len(m.Result.Missing) > 0 {
		joint.Note = "Without " + strings.Join(m.Result.Missing, ", ") + "."
	}
	for _, s := range m.Result.Stages {
		row := append([]string{fmt.Sprint(s.Nodes)}, stageRow(s)...)
		joint.Rows = append(joint.Rows, append(row, amount(s.OverlapSeconds, "%.1f"), deref(s.OutputTokensPerSecond.Why)))
	}
	page.Blocks = append(page.Blocks, joint)
	return page
}

func stageColumns(first string) []report.Column {
	return []report.Column{{Name: first}, {Name: "stage", Words: true}, {Name: "streams"}, {Name: "requests"}, {Name: "failed"}, {Name: "tokens/s"}, {Name: "95 % interval"}, {Name: "TTFT p50 ms"}, {Name: "TTFT p99 ms"}, {Name: "TPOT p50 ms"}, {Name: "E2E p99 ms"}}
}

func stageRow(s api.JointStage) []string {
	e := s.OutputTokensPerSecond
	interval := "unknown"
	if e.Low != nil && e.High != nil {
		interval = fmt.Sprintf("%.0f–%.0f", *e.Low, *e.High)
	}
	return []string{
		s.Name, fmt.Sprint(s.Streams), fmt.Sprint(s.Requests), fmt.Sprint(s.Failed), amount(e.Value, "%.0f"), interval,
		percentile(s.TtftMs.P50), percentile(s.TtftMs.P99), percentile(s.TpotMs.P50), percentile(s.E2eMs.P99),
	}
}

// amount is a number, or that it is not known.
func amount(v *float64, form string) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf(form, *v)
}

// percentile has a mark where the requests are too few for an interval.
func percentile(p *api.JointPercentile) string {
	switch {
	case p == nil:
		return "unknown"
	case p.Low == nil || p.High == nil:
		return fmt.Sprintf("%.2f~", p.Value)
	}
	return fmt.Sprintf("%.2f", p.Value)
}
