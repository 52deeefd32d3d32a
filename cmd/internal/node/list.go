package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
)

// listFlags are those of a list.
type listFlags struct {
	remote.Output
	owner, state, contact, intent string
	routable, all, ids            bool
	waitFor                       int
	timeout                       time.Duration
}

func newList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List nodes: state, intent, contact, whether they may be given requests",
		Long: `List nodes: what is known of each, and whether it may be given requests. Those that
are retired are left out, unless --all or --intent retired asks for them. On a
terminal reasons are cut to its width; "assay node show" has them whole.

With --wait-for N it waits until so many are in the list, for scripts. Exit codes: 0
listed; 1 used wrongly, or the server refused; 2 fewer than N when the time was over.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.params(cmd.Flags().Changed("routable"))
			if err != nil {
				return err
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			nodes, hidden, waited := f.await(cmd.Context(), c, p)
			if waited != nil && nodes == nil {
				return waited
			}
			return errors.Join(waited, f.print(cmd.Context(), c, cmd.OutOrStdout(), nodes, hidden))
		},
	}
	f.Register(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&f.owner, "owner", "", "only those of this owner")
	fs.StringVar(&f.state, "state", "", "only those in this state of admission")
	fs.StringVar(&f.intent, "intent", "", "only those with this intent: serve, draining, drained, retired")
	fs.BoolVar(&f.all, "all", false, "also those that are retired")
	fs.BoolVarP(&f.ids, "quiet", "q", false, "print ids only")
	fs.IntVar(&f.waitFor, "wait-for", 0, "wait until there are at least so `many`")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait")
	fs.StringVar(&f.contact, "contact", "", "only those that are seen, or silent")
	fs.BoolVar(&f.routable, "routable", false, "only those that may be given requests; with =false, only the others")
	return cmd
}

// params are the filters that the server has.
func (f *listFlags) params(routable bool) (api.ListNodesParams, error) {
	p := api.ListNodesParams{Limit: new(1000)}
	if f.owner != "" {
		p.Owner = &f.owner
	}
	if f.state != "" {
		if p.State = new(api.Admission(f.state)); !p.State.Valid() {
			return p, fmt.Errorf("--state %q: known are pending, verifying, admitted, degraded, quarantined, re-verifying", f.state)
		}
	}
	if f.contact != "" {
		if p.Contact = new(api.Contact(f.contact)); !p.Contact.Valid() {
			return p, fmt.Errorf("--contact %q: known are seen, silent", f.contact)
		}
	}
	if f.intent != "" && !api.Intent(f.intent).Valid() {
		return p, fmt.Errorf("--intent %q: known are serve, draining, drained, retired", f.intent)
	}
	if routable {
		p.Routable = &f.routable
	}
	return p, nil
}

// wanted says whether a node is in the list, by what the server has no filter for.
func (f *listFlags) wanted(n api.Node) bool {
	if f.intent != "" {
		return n.Intent == api.Intent(f.intent)
	}
	return f.all || n.Intent != api.IntentRetired
}

// await lists until there are enough, or the time is over. Hidden are those that
// are left out because they are retired.
func (f *listFlags) await(ctx context.Context, c *remote.Client, p api.ListNodesParams) (nodes []api.Node, hidden int, err error) {
	end := time.Now().Add(f.timeout)
	for {
		if nodes, err = list(ctx, c, p); err != nil {
			return nil, 0, err
		}
		n := len(nodes)
		nodes = slices.DeleteFunc(nodes, func(n api.Node) bool { return !f.wanted(n) })
		if f.intent == "" {
			hidden = n - len(nodes)
		}
		if len(nodes) >= f.waitFor {
			return nodes, hidden, nil
		}
		if !time.Now().Before(end) {
			return nodes, hidden, cli.Unknown(fmt.Errorf("--wait-for %d: there are %d after %s; `assay node list` says what each waits for", f.waitFor, len(nodes), f.timeout))
		}
		select {
		case <-ctx.Done():
			return nodes, hidden, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// print prints a list.
func (f *listFlags) print(ctx context.Context, c *remote.Client, w io.Writer, nodes []api.Node, hidden int) error {
	switch {
	case f.ids:
		for _, n := range nodes {
			if _, err := fmt.Fprintln(w, n.Id); err != nil {
				return err
			}
		}
		return nil
	case f.JSON():
		return cli.WriteJSON(w, nodes)
	}
	return cli.Show(w, listPage(nodes, hidden, held(ctx, c), cli.TerminalWidth(w), time.Now()))
}

// held is what the breaker says while it holds. A list without it is still one.
func held(ctx context.Context, c *remote.Client) string {
	r, err := c.GetBreakerWithResponse(ctx)
	if err != nil || r.JSON200 == nil || !r.JSON200.Open {
		return ""
	}
	text := "The breaker holds: nobody more is quarantined for soft reasons"
	if r.JSON200.Reasons != nil && len(*r.JSON200.Reasons) > 0 {
		text += " (" + strings.Join(*r.JSON200.Reasons, "; ") + ")"
	}
	return text + ". \"assay server breaker show\" says more, \"assay server breaker lift\" ends it."
}

// list asks until there is no more.
func list(ctx context.Context, c *remote.Client, p api.ListNodesParams) ([]api.Node, error) {
	nodes := []api.Node{}
	for page, err := range c.Nodes(ctx, p) {
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, page...)
	}
	return nodes, nil
}
