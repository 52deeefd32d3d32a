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
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// measureFlags are those of a measurement over several nodes.
type measureFlags struct {
	remote.Output
	model, owner, profile, scenario, reason string
	together, inTurn, detach                bool
	startIn, nodeTimeout, timeout           time.Duration
}

func newMeasure() *cobra.Command {
	var f measureFlags
	cmd := &cobra.Command{
		Use:   "measure [NODE...] --together|--in-turn --reason WHY",
		Short: "Measure several nodes with one load, and give one result",
		Long: `Measure several nodes with one load, together or in turn, and give one result: the
server asks the agents, each of which keeps its own limits. docs/measurements.md
explains what is added up and what is not.

Nodes are named, or chosen by --model and --owner. With --together the load begins
at one time on all of them; with --in-turn each begins when the one before has
ended. It decides nothing about a node. Without --detach it waits for the end; when
it is interrupted the measurement goes on, and "assay node measurement" shows or
cancels it.

Exit codes: 0 every node was measured; 1 used wrongly, or refused; 2 some were not,
or the --timeout was over.`,
		Example: `  assay node measure --model llama-3.1-8b --together --scenario quick --reason "what do we hold?"`,
		Args:    cli.Takes(0, cli.Any, "nodes' ids or hosts"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.Register(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&f.model, "model", "", "nodes with a replica that serves this `model`")
	fs.StringVar(&f.owner, "owner", "", "nodes of this owner")
	fs.BoolVar(&f.together, "together", false, "the load begins at one time on all nodes")
	fs.BoolVar(&f.inTurn, "in-turn", false, "each node begins when the one before has ended")
	fs.StringVar(&f.profile, "profile", "", "the workload, by a `name` that the agents know; by default each its own")
	fs.StringVar(&f.scenario, "scenario", "", "the load, by a `name` that the agents know; by default each its own")
	fs.StringVar(&f.reason, "reason", "", "why, in words")
	fs.DurationVar(&f.startIn, "start-in", 30*time.Second, "with --together: how long from now the load begins")
	fs.DurationVar(&f.nodeTimeout, "node-timeout", time.Hour, "how long one node may take")
	fs.BoolVar(&f.detach, "detach", false, "do not wait: print what has begun")
	fs.DurationVar(&f.timeout, "timeout", 6*time.Hour, "how long to wait")
	return cmd
}

func (f *measureFlags) run(cmd *cobra.Command, words []string) error {
	body, err := f.body(cmd.Flags().Changed("start-in"))
	if err != nil {
		return err
	}
	if len(words) == 0 && f.model == "" && f.owner == "" {
		return errors.New("which nodes? Name them, or choose them with --model or --owner")
	}
	if len(words) > 0 && (f.model != "" || f.owner != "") {
		return errors.New("nodes are named, or chosen with --model and --owner, and not both")
	}
	c, err := f.Open()
	if err != nil {
		return err
	}
	if body.Nodes, err = f.choose(cmd.Context(), c, words); err != nil {
		return fmt.Errorf("nothing was begun: %w", err)
	}
	r, err := c.CreateMeasurementWithResponse(cmd.Context(), body)
	if err != nil {
		return c.Answer(nil, nil, err)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return err
	}
	if r.JSON201 == nil {
		return errNoMeasurement
	}
	m := *r.JSON201
	if f.detach {
		return f.Print(cmd.OutOrStdout(), m, measurementPage(m))
	}
	return f.await(cmd.Context(), c, m, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

var errNoMeasurement = errors.New("the server's answer is no measurement")

// body is what is asked for, as far as it can be checked here.
func (f *measureFlags) body(startGiven bool) (api.NewMeasurement, error) {
	body := api.NewMeasurement{Reason: f.reason, Profile: &f.profile, Scenario: &f.scenario}
	switch {
	case f.together == f.inTurn:
		return body, errors.New("--together or --in-turn: at one time, or one after the other?")
	case strings.TrimSpace(f.reason) == "":
		return body, errors.New("--reason WHY is needed: it is kept with the measurement, for whoever asks later")
	case f.inTurn && startGiven:
		return body, errors.New("--start-in is for --together: in turn each node begins when it is its turn")
	case f.startIn < 3*time.Second || f.startIn > 200*time.Second || f.startIn%time.Second != 0:
		return body, fmt.Errorf("--start-in %s: whole seconds from 3s to 200s", f.startIn)
	case f.nodeTimeout < 10*time.Second || f.nodeTimeout > 24*time.Hour || f.nodeTimeout%time.Second != 0:
		return body, fmt.Errorf("--node-timeout %s: whole seconds from 10s to 24h", f.nodeTimeout)
	}
	body.TimeoutSeconds = new(int(f.nodeTimeout / time.Second))
	if body.Mode = api.MeasurementModeInTurn; f.together {
		body.Mode, body.StartSeconds = api.MeasurementModeTogether, new(int(f.startIn/time.Second))
	}
	return body, nil
}

// choose gives the ids of the nodes that are meant. Those that are retired are not.
func (f *measureFlags) choose(ctx context.Context, c *remote.Client, words []string) (ids []string, err error) {
	if len(words) > 0 {
		found, err := find(ctx, c, words, "")
		for _, d := range found {
			ids = append(ids, d.Node.Id)
		}
		return ids, err
	}
	p := api.ListNodesParams{Limit: new(1000)}
	if f.model != "" {
		p.Model = &f.model
	}
	if f.owner != "" {
		p.Owner = &f.owner
	}
	nodes, err := list(ctx, c, p)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Intent != api.IntentRetired {
			ids = append(ids, n.Id)
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("no node is like that; `assay node list` has them")
	}
	return ids, nil
}

// await waits for the end, and says when a node has ended.
func (f *measureFlags) await(ctx context.Context, c *remote.Client, m api.Measurement, out, progress io.Writer) error {
	fmt.Fprintf(progress, "measurement %s of %d nodes has begun\n", m.Id, len(m.Nodes))
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	told := map[string]bool{}
	for {
		for _, n := range m.Nodes {
			if n.Ended != nil && !told[n.Node] {
				told[n.Node] = true
				fmt.Fprintln(progress, nodeLine(n))
			}
		}
		if m.Ended != nil {
			return errors.Join(f.Print(out, m, measurementPage(m)), whole(m))
		}
		select {
		case <-ctx.Done():
			return cli.Unknown(fmt.Errorf("measurement %s has not ended; it goes on: `assay node measurement show %[1]s` says how far it is, `cancel` in place of show ends it", m.Id))
		case <-time.After(pollEvery):
		}
		// A server that does not answer for a moment does not end the wait.
		if next, err := getMeasurement(ctx, c, m.Id); err == nil {
			m = next
		}
	}
}

func nodeLine(n api.MeasuredNode) string {
	text := n.Node + ": " + string(n.State)
	if n.Cause != nil {
		text += ": " + *n.Cause
	}
	return foreign.Line(text, 1000)
}

// whole is nil when every node of a measurement that has ended was measured.
func whole(m api.Measurement) error {
	if m.Result == nil || len(m.Result.Missing) == 0 && m.Result.Measured > 0 {
		return nil
	}
	return cli.Unknown(fmt.Errorf("%d of %d nodes were not measured", len(m.Result.Missing), len(m.Nodes)))
}

func getMeasurement(ctx context.Context, c *remote.Client, id string) (api.Measurement, error) {
	r, err := c.GetMeasurementWithResponse(ctx, id)
	if err != nil {
		return api.Measurement{}, c.Answer(nil, nil, err)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return api.Measurement{}, err
	}
	if r.JSON200 == nil {
		return api.Measurement{}, errNoMeasurement
	}
	return *r.JSON200, nil
}
