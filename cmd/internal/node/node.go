// Package node has the commands that look at a network's nodes and act on them, as
// clients of an assay server.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// Formats of --format.
const (
	formatText = "text"
	formatJSON = "json"
)

type flags struct {
	remote.Flags
	format string
}

func (f *flags) register(cmd *cobra.Command) {
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.format, "format", formatText, "of the answer: text or json")
}

// open checks the format and makes the client.
func (f *flags) open() (*remote.Client, error) {
	if f.format != formatText && f.format != formatJSON {
		return nil, cli.BadFormat(f.format)
	}
	return f.Open()
}

// New is the command "node".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Look at a network's nodes, and decide about them",
		Long: `Look at the nodes of a network, and decide about them: a client of assay server.

It asks the server at --server URL, or ASSAY_SERVER, with the API token in
--token-file FILE, or ASSAY_TOKEN_FILE. Decisions need --reason, which is kept
with who decided.`,
	}
	cmd.AddCommand(newList(), newShow(), newHistory(), newAnomalies())
	for _, a := range actions {
		cmd.AddCommand(newAction(a))
	}
	return cmd
}

func newList() *cobra.Command {
	var f flags
	var owner, state, contact string
	var routable, ids bool
	var waitFor int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List nodes: state, intent, contact, whether they may be given requests",
		Long: `List nodes: what is known of each, and whether it may be given requests.

With --wait-for N it waits until so many are in the list, for scripts. Exit codes: 0
listed; 1 used wrongly, or the server refused; 2 fewer than N when the time was over.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			p := api.ListNodesParams{Limit: ptr(1000)}
			if owner != "" {
				p.Owner = &owner
			}
			if state != "" {
				if p.State = ptr(api.Admission(state)); !p.State.Valid() {
					return fmt.Errorf("--state %q: known are pending, verifying, admitted, degraded, quarantined, re-verifying", state)
				}
			}
			if contact != "" {
				if p.Contact = ptr(api.Contact(contact)); !p.Contact.Valid() {
					return fmt.Errorf("--contact %q: known are seen, silent", contact)
				}
			}
			if cmd.Flags().Changed("routable") {
				p.Routable = &routable
			}
			nodes, waited := await(cmd.Context(), c, p, waitFor, timeout)
			if waited != nil && nodes == nil {
				return waited
			}
			return errors.Join(waited, show(cmd.OutOrStdout(), f.format, ids, nodes))
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "only those of this owner")
	cmd.Flags().StringVar(&state, "state", "", "only those in this state of admission")
	cmd.Flags().BoolVarP(&ids, "quiet", "q", false, "print ids only")
	cmd.Flags().IntVar(&waitFor, "wait-for", 0, "wait until there are at least so `many`")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	cmd.Flags().StringVar(&contact, "contact", "", "only those that are seen, or silent")
	cmd.Flags().BoolVar(&routable, "routable", false, "only those that may be given requests; with =false, only the others")
	return cmd
}

// await lists until there are enough, or the time is over.
func await(ctx context.Context, c *remote.Client, p api.ListNodesParams, enough int, timeout time.Duration) ([]api.Node, error) {
	end := time.Now().Add(timeout)
	for {
		nodes, err := list(ctx, c, p)
		if err != nil || len(nodes) >= enough {
			return nodes, err
		}
		if !time.Now().Before(end) {
			return nodes, cli.Unknown(fmt.Errorf("--wait-for %d: there are %d after %s; `assay node list` says what each waits for", enough, len(nodes), timeout))
		}
		select {
		case <-ctx.Done():
			return nodes, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// show prints a list.
func show(w io.Writer, format string, ids bool, nodes []api.Node) error {
	switch {
	case ids:
		for _, n := range nodes {
			if _, err := fmt.Fprintln(w, n.Id); err != nil {
				return err
			}
		}
		return nil
	case format == formatJSON:
		return cli.WriteJSON(w, nodes)
	}
	return report.Text(w, listPage(nodes))
}

// list asks until there is no more.
func list(ctx context.Context, c *remote.Client, p api.ListNodesParams) ([]api.Node, error) {
	nodes := []api.Node{}
	for {
		r, err := c.ListNodesWithResponse(ctx, &p)
		if err != nil {
			return nil, c.Answer(nil, nil, err)
		}
		if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
			return nil, err
		}
		if r.JSON200 == nil {
			return nil, errors.New("the server's list of nodes is none")
		}
		nodes = append(nodes, *r.JSON200...)
		if len(*r.JSON200) == 0 || !strings.Contains(r.HTTPResponse.Header.Get("Link"), `rel="next"`) {
			return nodes, nil
		}
		p.After = &(*r.JSON200)[len(*r.JSON200)-1].Id
	}
}

func listPage(nodes []api.Node) report.Page {
	t := report.Table{Columns: []report.Column{
		{Name: "node"}, {Name: "owner", Words: true}, {Name: "host", Words: true}, {Name: "state", Words: true}, {Name: "intent", Words: true},
		{Name: "contact", Words: true}, {Name: "routable", Words: true}, {Name: "score"}, {Name: "reasons", Words: true},
	}}
	for _, n := range nodes {
		t.Rows = append(t.Rows, []string{
			n.Id, n.Owner, deref(n.Hostname), string(n.State), string(n.Intent), string(n.Contact), yes(n.Routable), score(n.Score), strings.Join(n.Reasons, "; "),
		})
	}
	t.Note = fmt.Sprintf("%d nodes.", len(nodes))
	return report.Page{Title: "Nodes", Blocks: []report.Block{t}}
}

func newShow() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "show NODE",
		Short: "Show one node, and what was decided about it last",
		Args:  cli.Takes(1, 1, "a node's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			r, err := c.GetNodeWithResponse(cmd.Context(), args[0])
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			tr, err := c.ListTransitionsWithResponse(cmd.Context(), args[0], &api.ListTransitionsParams{Limit: ptr(10)})
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(tr.HTTPResponse, tr.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil || tr.JSON200 == nil {
				return errors.New("the server's answer is no node")
			}
			if f.format == formatJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), struct {
					api.NodeDetail
					Transitions []api.Transition `json:"transitions"`
				}{*r.JSON200, *tr.JSON200})
			}
			return report.Text(cmd.OutOrStdout(), showPage(*r.JSON200, *tr.JSON200))
		},
	}
	f.register(cmd)
	return cmd
}

// answered prints the node after an action.
func answered(w io.Writer, format string, d *api.NodeDetail) error {
	if d == nil {
		return errors.New("the server's answer is no node")
	}
	if format == formatJSON {
		return cli.WriteJSON(w, d)
	}
	return report.Text(w, showPage(*d, nil))
}

func ptr[T any](v T) *T { return &v }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func score(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", *v)
}
