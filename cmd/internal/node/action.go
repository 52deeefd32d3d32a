package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// action is a decision of a person about a node.
type action struct {
	name     string
	kind     api.ActionAction
	short    string
	deadline bool // takes --within
	state    bool // takes --state and --for
}

var actions = []action{
	{name: "drain", kind: api.ActionActionDrain, short: "Give a node nothing new, and wait until what runs has ended", deadline: true},
	{name: "undrain", kind: api.ActionActionUndrain, short: "Take a drain back"},
	{name: "quarantine", kind: api.ActionActionQuarantine, short: "Take a node out of rotation until it has been verified anew"},
	{name: "readmit", kind: api.ActionActionReadmit, short: "Have a quarantined node verified anew, so that it may come back"},
	{name: "approve", kind: api.ActionActionApprove, short: "Stand in for the baseline that a first node cannot have"},
	{name: "retire", kind: api.ActionActionRetire, short: "Take a node out for good"},
	{name: "override", kind: api.ActionActionOverride, short: "Decide against the measurements, for a time", state: true},
	{name: "clear-override", kind: api.ActionActionClearOverride, short: "Let the measurements decide again"},
	{name: "check", kind: api.ActionActionCheck, short: "Have a node verified and measured now"},
	{name: "stop", kind: api.ActionActionStop, short: "End a node's check at once"},
}

func newAction(a action) *cobra.Command {
	var f flags
	var reason, replica, state string
	var within time.Duration
	cmd := &cobra.Command{
		Use:   a.name + " NODE... --reason WHY",
		Short: a.short,
		Args:  cli.Takes(1, cli.Any, "nodes' ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return errors.New("--reason WHY is needed: it is kept with the decision, for whoever asks later")
			}
			body := api.Action{Action: a.kind, Reason: reason}
			if replica != "" {
				body.Replica = &replica
			}
			if within != 0 {
				if within < time.Second || within%time.Second != 0 {
					return fmt.Errorf("a time of %s: give whole seconds, as 90s or 2h", within)
				}
				body.Seconds = ptr(int(within / time.Second))
			}
			if a.state {
				if body.State = ptr(api.Admission(state)); !body.State.Valid() || body.Seconds == nil {
					return errors.New("an override needs --state and --for: what the node is to count as, and how long")
				}
			}
			c, err := f.open()
			if err != nil {
				return err
			}
			for _, node := range args {
				r, err := c.ActOnNodeWithResponse(cmd.Context(), node, body)
				if err != nil {
					return c.Answer(nil, nil, err)
				}
				if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
					return fmt.Errorf("node %s: %w", node, err)
				}
				if err := answered(cmd.OutOrStdout(), f.format, r.JSON200); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, in words")
	cmd.Flags().StringVar(&replica, "replica", "", "only this replica of the node")
	if a.deadline {
		cmd.Flags().DurationVar(&within, "within", 0, "the drain is over after this time, whatever still runs; by default as the policy says")
	}
	if a.state {
		cmd.Flags().StringVar(&state, "state", "", "what the node counts as meanwhile")
		cmd.Flags().DurationVar(&within, "for", 0, "how long")
	}
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
		facts.Rows = append(facts.Rows, []string{"override", fmt.Sprintf("%s until %s by %s: %s", d.Override.State, d.Override.Expires.UTC().Format(time.RFC3339), d.Override.Actor, d.Override.Reason)})
	}
	page := report.Page{Title: "Node " + n.Id, Blocks: []report.Block{facts}}
	if len(d.Replicas) > 0 {
		t := report.Table{Title: "Replicas", Columns: []report.Column{{Name: "replica"}, {Name: "engine", Words: true}, {Name: "model", Words: true}, {Name: "state", Words: true}, {Name: "intent", Words: true}, {Name: "contact", Words: true}, {Name: "routable", Words: true}}}
		for _, r := range d.Replicas {
			t.Rows = append(t.Rows, []string{r.Name, deref(r.Engine), deref(r.Model), string(r.State), string(r.Intent), string(r.Contact), yes(r.Routable)})
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
