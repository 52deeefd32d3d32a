package node

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// listPage has one line a node, and what they are in sum. Width is the terminal's;
// zero: it is none, and nothing is cut.
func listPage(nodes []api.Node, hidden int, breaker string, width int, now time.Time) report.Page {
	if width == 0 {
		width = math.MaxInt
	}
	t := report.Table{Line: width, Columns: []report.Column{
		{Name: "node"}, {Name: "owner", Words: true}, {Name: "host", Words: true}, {Name: "state", Words: true}, {Name: "intent", Words: true},
		{Name: "contact", Words: true}, {Name: "routable", Words: true}, {Name: "score"}, {Name: "reasons", Words: true},
	}}
	for _, n := range nodes {
		t.Rows = append(t.Rows, []string{
			n.Id, n.Owner, deref(n.Hostname), string(n.State), string(n.Intent), contact(n, now), yes(n.Routable), score(n.Score), strings.Join(n.Reasons, "; "),
		})
	}
	t.Note = sum(nodes, hidden)
	if breaker != "" {
		t.Note += "\n" + breaker
	}
	return report.Page{Title: "Nodes", Blocks: []report.Block{t}}
}

// contact says when a node was heard last.
func contact(n api.Node, now time.Time) string {
	if n.LastSeen == nil {
		return string(n.Contact)
	}
	ago := max(0, now.Sub(*n.LastSeen))
	switch {
	case ago < time.Minute:
		return fmt.Sprintf("%s %ds", n.Contact, int(ago.Seconds()))
	case ago < time.Hour:
		return fmt.Sprintf("%s %dm", n.Contact, int(ago.Minutes()))
	case ago < 48*time.Hour:
		return fmt.Sprintf("%s %dh", n.Contact, int(ago.Hours()))
	}
	return fmt.Sprintf("%s %dd", n.Contact, int(ago.Hours()/24))
}

// sum counts nodes by state, in the order of a node's life.
func sum(nodes []api.Node, hidden int) string {
	counts := map[api.Admission]int{}
	routable := 0
	for _, n := range nodes {
		counts[n.State]++
		if n.Routable {
			routable++
		}
	}
	var parts []string
	for _, s := range []api.Admission{api.AdmissionPending, api.AdmissionVerifying, api.AdmissionAdmitted, api.AdmissionDegraded, api.AdmissionQuarantined, api.AdmissionReVerifying} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	text := fmt.Sprintf("%d nodes", len(nodes))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ") + fmt.Sprintf("; %d may be given requests", routable)
	}
	if hidden > 0 {
		text += fmt.Sprintf("; %d retired are left out, --all shows them", hidden)
	}
	return text + "."
}
