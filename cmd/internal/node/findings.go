package node

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

func newFindings() *cobra.Command {
	var f remote.Output
	var limit int
	cmd := &cobra.Command{
		Use:   "findings NODE",
		Short: "List what the server found out about a node itself, newest first",
		Long: `List what the server found out about a node by looking at it from outside, newest
first: whether it can be reached, whether its serving URL leads to its own engine,
whether it is as fast as it says. docs/trust.md explains each check.`,
		Args: cli.Takes(1, 1, "a node's id or host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			found, err := find(cmd.Context(), c, args, "")
			if err != nil {
				return err
			}
			r, err := c.ListFindingsWithResponse(cmd.Context(), found[0].Node.Id, &api.ListFindingsParams{Limit: &limit})
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errors.New("the server's answer is no list of findings")
			}
			if f.JSON() {
				return cli.WriteJSON(cmd.OutOrStdout(), *r.JSON200)
			}
			return cli.Show(cmd.OutOrStdout(), findingsPage(found[0].Node.Id, *r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 30, "at most so `many`")
	return cmd
}

func findingsPage(node string, list []api.Finding) report.Page {
	t := report.Table{Columns: []report.Column{{Name: "time"}, {Name: "replica", Words: true}, {Name: "check", Words: true}, {Name: "verdict", Words: true}, {Name: "what", Words: true}}}
	for _, f := range list {
		t.Rows = append(t.Rows, []string{stamp(f.Time), deref(f.Replica), f.Check, string(f.Verdict), f.Text})
	}
	t.Note = fmt.Sprintf("%d findings. Unknown is never a pass.", len(list))
	if len(list) == 0 {
		t.Note = "0 findings. Nobody has looked at it from outside: a server that was started with --look-outside does."
	}
	return report.Page{Title: "Node " + node, Blocks: []report.Block{t}}
}
