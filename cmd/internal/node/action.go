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
)

// action is a decision of a person about a node.
type action struct {
	name  string
	kind  api.ActionAction
	short string
	long  string // behind short; empty: nothing
	drain bool   // takes --within, --wait and --timeout
	state bool   // takes --state and --for
}

var actions = []action{
	{name: "drain", kind: api.ActionActionDrain, short: "Give a node nothing new, and let what runs there end", drain: true, long: `

It returns when the server has noted it; with --wait when nothing runs there any
more. A drain has a deadline, --within or the policy's: it is over then, whatever
still runs. Exit codes: 0 done; 1 used wrongly, or refused; 2 still draining when
the --timeout was over.`},
	{name: "undrain", kind: api.ActionActionUndrain, short: "Take a drain back"},
	{name: "quarantine", kind: api.ActionActionQuarantine, short: "Take a node out of rotation until a person readmits it"},
	{name: "readmit", kind: api.ActionActionReadmit, short: "Have a quarantined node verified anew, so that it may come back"},
	{name: "approve", kind: api.ActionActionApprove, short: "Stand in for the baseline that a first node cannot have"},
	{name: "retire", kind: api.ActionActionRetire, short: "Take a node out for good"},
	{name: "override", kind: api.ActionActionOverride, short: "Decide against the measurements, for a time", state: true, long: `

With --state keep a node in rotation stays there whatever is measured, but for hard
failures; with --state out it is quarantined, and verified anew when the time is
over. There is no override that admits.`},
	{name: "clear-override", kind: api.ActionActionClearOverride, short: "Let the measurements decide again"},
	{name: "check", kind: api.ActionActionCheck, short: "Have a node verified and measured now"},
	{name: "stop", kind: api.ActionActionStop, short: "End a node's check at once"},
}

// actFlags are those of a decision.
type actFlags struct {
	remote.Output
	reason, replica, state string
	within, timeout        time.Duration
	wait                   bool
}

func newAction(a action) *cobra.Command {
	var f actFlags
	cmd := &cobra.Command{
		Use:   a.name + " NODE... --reason WHY",
		Short: a.short,
		Long: a.short + `.

A node is named by its id, by the beginning of one, or by its host, as far as only
one node is meant. All are looked up before the first is acted on. One that is
refused does not keep the others from being tried; then the exit code is 1.` + a.long,
		Args: cli.Takes(1, cli.Any, "nodes' ids or hosts"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, a, args) },
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, in words")
	cmd.Flags().StringVar(&f.replica, "replica", "", "only this replica of the node")
	if a.drain {
		cmd.Flags().DurationVar(&f.within, "within", 0, "the drain is over after this time, whatever still runs; by default as the policy says")
		cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until it is over")
		cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait; by default a minute longer than --within, or an hour")
	}
	if a.state {
		cmd.Flags().StringVar(&f.state, "state", "", "keep: it stays in rotation; out: it is quarantined")
		cmd.Flags().DurationVar(&f.within, "for", 0, "how long; the policy says how long at most")
	}
	return cmd
}

func (f *actFlags) run(cmd *cobra.Command, a action, words []string) error {
	body, err := f.body(a)
	if err != nil {
		return err
	}
	c, err := f.Open()
	if err != nil {
		return err
	}
	before, err := find(cmd.Context(), c, words, f.replica)
	if err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	out := act(cmd.Context(), c, body, before)
	var waited error
	if f.wait {
		waited = f.await(cmd.Context(), c, out, cmd.ErrOrStderr())
	}
	return errors.Join(tell(cmd.OutOrStdout(), f.JSON(), out), waited)
}

// maxTime is the longest time that the API takes.
const maxTime = 30 * 24 * time.Hour

// body is what is asked for, as far as it can be checked here.
func (f *actFlags) body(a action) (api.Action, error) {
	body := api.Action{Action: a.kind, Reason: f.reason}
	if strings.TrimSpace(f.reason) == "" {
		return body, errors.New("--reason WHY is needed: it is kept with the decision, for whoever asks later")
	}
	if f.timeout != 0 && !f.wait {
		return body, errors.New("--timeout is for --wait: without it nothing is waited for")
	}
	if f.replica != "" {
		body.Replica = &f.replica
	}
	if a.state {
		switch f.state {
		case "keep":
			body.State = new(api.AdmissionAdmitted)
		case "out":
			body.State = new(api.AdmissionQuarantined)
		case "":
			return body, errors.New("--state is needed: keep, so that the node stays in rotation, or out, so that it is quarantined")
		default:
			return body, fmt.Errorf("--state %q: known are keep, out", f.state)
		}
		if f.within == 0 {
			return body, errors.New("--for is needed: how long the override holds, as 90m or 24h")
		}
	}
	if f.within != 0 {
		if f.within < time.Second || f.within > maxTime || f.within%time.Second != 0 {
			return body, fmt.Errorf("a time of %s: whole seconds up to %s are allowed, as 90s or 2h", f.within, maxTime)
		}
		body.Seconds = new(int(f.within / time.Second))
	}
	return body, nil
}
