package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

func newShow() *cobra.Command {
	var f remote.Output
	cmd := &cobra.Command{
		Use:   "show NODE",
		Short: "Show one node, and what was decided about it last",
		Args:  cli.Takes(1, 1, "a node's id or host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			found, err := find(cmd.Context(), c, args, "")
			if err != nil {
				return err
			}
			d := found[0]
			tr, err := c.ListTransitionsWithResponse(cmd.Context(), d.Node.Id, &api.ListTransitionsParams{Limit: new(10)})
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(tr.HTTPResponse, tr.Body, nil); err != nil {
				return err
			}
			if tr.JSON200 == nil {
				return errors.New("the server's answer has no decisions")
			}
			if f.JSON() {
				return cli.WriteJSON(cmd.OutOrStdout(), struct {
					api.NodeDetail
					Transitions []api.Transition `json:"transitions"`
				}{d, *tr.JSON200})
			}
			return cli.Show(cmd.OutOrStdout(), showPage(d, *tr.JSON200))
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

func showPage(d api.NodeDetail, transitions []api.Transition) report.Page {
	n := d.Node
	facts := report.Table{Columns: []report.Column{{Name: "fact"}, {Name: "value", Words: true}}, Rows: [][]string{
		{"owner", n.Owner}, {"host", deref(n.Hostname)}, {"state", string(n.State)}, {"intent", string(n.Intent)}, {"contact", string(n.Contact)},
		{"routable", yes(n.Routable)}, {"score", score(n.Score)}, {"score, lower bound", score(d.ScoreLow)}, {"reasons", strings.Join(n.Reasons, "; ")},
		{"enrolled", d.Created.UTC().Format(time.RFC3339)}, {"version", fmt.Sprint(d.Version)},
	}}
	if n.LastSeen != nil {
		facts.Rows = append(facts.Rows, []string{"last seen", n.LastSeen.UTC().Format(time.RFC3339)})
	}
	if d.Override != nil {
		facts.Rows = append(facts.Rows, []string{"override", overrideOf(d.Override)})
	}
	page := report.Page{Title: "Node " + n.Id, Blocks: []report.Block{facts}}
	if len(d.Replicas) > 0 {
		t := report.Table{Title: "Replicas", Columns: []report.Column{{Name: "replica"}, {Name: "engine", Words: true}, {Name: "model", Words: true}, {Name: "state", Words: true}, {Name: "intent", Words: true}, {Name: "contact", Words: true}, {Name: "routable", Words: true}, {Name: "reasons", Words: true}}}
		for _, r := range d.Replicas {
			t.Rows = append(t.Rows, []string{r.Name, deref(r.Engine), deref(r.Model), string(r.State), string(r.Intent), string(r.Contact), yes(r.Routable), strings.Join(r.Reasons, "; ")})
		}
		page.Blocks = append(page.Blocks, t)
	}
	if len(transitions) > 0 {
		t := report.Table{Title: "Last decisions", Columns: []report.Column{{Name: "time"}, {Name: "fact", Words: true}, {Name: "from", Words: true}, {Name: "to", Words: true}, {Name: "by", Words: true}, {Name: "why", Words: true}}}
		for _, tr := range transitions {
			t.Rows = append(t.Rows, []string{tr.Time.UTC().Format(time.RFC3339), string(tr.Fact), tr.From, tr.To, tr.Actor, strings.Join(tr.Reasons, "; ")})
		}
		page.Blocks = append(page.Blocks, t)
	}
	return page
}
