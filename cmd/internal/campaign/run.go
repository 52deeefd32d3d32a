package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/flow"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
	"github.com/assay-bench/assay/internal/database"
)

type runFlags struct {
	worksFlags
	window int
	lease  time.Duration
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Rent, measure and give back, cell by cell",
		Long: `Run plans a matrix, and measures each cell that can run: it rents a machine, looks
at its GPU, starts the engine, loads the model, measures, brings the results home,
and gives the machine back until that is proved. A try that failed goes on with
another offer where that may help.

Everything is in a database: what was rented, what it may cost, what became of it.
The order of steps is Temporal's. Without --temporal a server is started, on a file
in the state directory, with the program temporal; when this command is ended the
campaign stands still, its machines end when their leases do, and
"assay campaign resume" goes on with it.

Exit codes: 0 all cells were measured; 1 used wrongly; 2 some could not be; 3 none
was.`,
		Example: `  assay campaign run matrix.yaml --credentials keys.env
  assay campaign run matrix.yaml --temporal temporal.example.org:7233 --temporal-namespace gpus`,
		Args: cli.Takes(1, 1, "a matrix' file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().IntVar(&f.window, "window", flow.Window, "cells under way at once")
	cmd.Flags().DurationVar(&f.lease, "lease", 10*time.Minute, "a machine ends when nobody has renewed its lease for so long")
	return cmd
}

func replaceArch(path, arch string) string { return strings.ReplaceAll(path, "ARCH", arch) }

func (f *runFlags) run(ctx context.Context, path string, stdout, stderr io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the matrix: %w", err)
	}
	m, err := readMatrix(path)
	if err != nil {
		return err
	}
	if m.Budget.Campaign == nil {
		return fmt.Errorf("%s has no budget: nothing is rented without one; write what it may cost at most in USD, as budget: {campaign: 20}", path)
	}
	w, err := f.worksFlags.begin(ctx, f.databaseFlags.open)
	if err != nil {
		return err
	}
	defer w.close()
	p, err := campaign.Make(ctx, m, campaign.Options{Inventory: inventory(w.accounts), Guarantees: clouds.Guarantees(w.accounts)})
	if err != nil {
		return err
	}
	if p.Runnable == 0 {
		return planFault(p)
	}
	if err := configured(p, w.accounts, stderr); err != nil {
		return err
	}
	if err := enough(p, m.Budget, w.scale, stderr); err != nil {
		return err
	}
	id := strings.ToLower(ulid.Make().String())
	c, cells, err := f.campaign(id, m, p, string(text), w.scale)
	if err != nil {
		return err
	}
	if err := w.store.AddCampaign(ctx, c, cells); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "campaign %s: %d cells, %d can run\n", id, p.Count, p.Runnable)
	return w.work(ctx, id, f.quiet, stdout, stderr)
}

// configured refuses a campaign of which no cell's provider has credentials, and says
// of how many others that is so.
func configured(p campaign.Plan, accounts map[string]clouds.Account, stderr io.Writer) error {
	cells := map[string]int{}
	var missing []string
	fit := 0
	for _, c := range p.Cells {
		if c.Skip != nil {
			continue
		}
		if _, ok := accounts[c.Provider]; ok {
			fit++
			continue
		}
		if cells[c.Provider]++; cells[c.Provider] == 1 {
			missing = append(missing, c.Provider)
		}
	}
	if fit == 0 && len(missing) > 0 {
		return clouds.Missing(missing[0])
	}
	for _, name := range missing {
		fmt.Fprintf(stderr, "%d cells cannot be tried: %s\n", cells[name], clouds.Missing(name))
	}
	return nil
}

// enough refuses a campaign of which no cell's first try fits the budget, and says of
// how many others that is so. On the faster clock of a sandbox a machine costs more in
// the same time of ours.
func enough(p campaign.Plan, b campaign.Budget, scale float64, stderr io.Writer) error {
	most := *b.Campaign
	for _, c := range []*assay.Money{b.Cell, b.Day} {
		if c != nil && c.Nano < most.Nano {
			most = *c
		}
	}
	fit, poor := 0, 0
	var least *assay.Money
	for _, c := range p.Cells {
		if c.Skip != nil || c.Cost == nil {
			continue
		}
		faster, err := c.Cost.Hour.Times(c.LifeSeconds / 3600 * (scale - 1))
		if err == nil {
			faster, err = faster.Plus(c.Cost.Reserve)
		}
		if err != nil {
			return err
		}
		if faster.Nano <= most.Nano {
			fit++
			continue
		}
		if poor++; least == nil || faster.Nano < least.Nano {
			least = &faster
		}
	}
	if poor == 0 {
		return nil
	}
	text := fmt.Sprintf("%d cells cannot be tried: one try reserves %s or more, and the budget allows %s", poor, dollars(*least), dollars(most))
	if scale > 1 {
		text += fmt.Sprintf(". The sandbox' clock runs %g times as fast as ours, and its prices with it: a minute here is %s there, and costs as much. A larger budget or a smaller --scale of the sandbox lets them run", scale, time.Duration(scale*float64(time.Minute)))
	} else {
		text += ": raise budget in the matrix, or shorten limits"
	}
	if fit == 0 {
		return cli.Failed(errors.New(text))
	}
	fmt.Fprintln(stderr, text)
	return nil
}

// campaign makes the rows of a plan.
func (f *runFlags) campaign(id string, m campaign.Matrix, p campaign.Plan, text string, scale float64) (store.Campaign, []store.Cell, error) {
	s := flow.Settings{
		Duration: m.Engine.Duration, Streams: max(1, m.Engine.Parallel), Tries: max(1, m.Engine.Attempts), Window: f.window,
		Lease: f.lease, DiskGB: m.Engine.DiskGB, Pace: scale,
		Limits: flow.Limits{Provision: m.Limits.Provision, Setup: m.Limits.Setup, Load: m.Limits.Load, Benchmark: m.Limits.Benchmark, Collect: m.Limits.Collect},
	}
	if m.Engine.HourCap != nil {
		s.HourCap = m.Engine.HourCap.Nano
	}
	settings, err := json.Marshal(s)
	if err != nil {
		return store.Campaign{}, nil, err
	}
	c := store.Campaign{ID: id, Name: m.Name, Matrix: text, Settings: string(settings), Caps: store.Caps{Campaign: *m.Budget.Campaign, Cell: *m.Budget.Campaign, Day: *m.Budget.Campaign}}
	if m.Budget.Cell != nil {
		c.Caps.Cell = *m.Budget.Cell
	}
	if m.Budget.Day != nil {
		c.Caps.Day = *m.Budget.Day
	}
	var cells []store.Cell
	for n, one := range p.Cells {
		spec, err := json.Marshal(one)
		if err != nil {
			return c, nil, err
		}
		cell := store.Cell{
			ID: fmt.Sprintf("%s-%d", id, n+1), Campaign: id, Number: n + 1, GPU: one.GPU, Provider: one.Provider, Model: one.Model, Engine: one.Engine,
			Spec: string(spec), Progress: store.Progress{Status: string(campaign.Pending)},
		}
		if one.Skip != nil {
			cell.Progress = store.Progress{Status: string(campaign.Skipped), Cause: string(campaign.CauseSize), Message: *one.Skip}
		}
		cells = append(cells, cell)
	}
	return c, cells, nil
}

// works is what a campaign runs with.
type works struct {
	store      *store.Store
	accounts   map[string]clouds.Account
	scale      float64
	client     *flow.Client
	activities *flow.Activities
	ends       []func()
}

func (w *works) close() {
	for i := len(w.ends) - 1; i >= 0; i-- {
		w.ends[i]()
	}
}

// begin opens the database and connects to Temporal. Without any credentials it does
// not: cells would fail for the want of them, and machines could not be given back.
func (f *worksFlags) begin(ctx context.Context, open func(context.Context) (*database.DB, *store.Store, error)) (w *works, err error) {
	w = &works{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	db, s, err := open(ctx)
	if err != nil {
		return w, err
	}
	w.store = s
	w.ends = append(w.ends, func() { _ = db.Close() })
	if w.accounts, w.scale, err = f.Shared(ctx, s); err != nil {
		return w, err
	}
	if len(w.accounts) == 0 {
		return w, clouds.ErrNone
	}
	dir, err := f.directory()
	if err != nil {
		return w, err
	}
	if w.activities, err = f.activities(ctx, s, w.accounts, w.scale, dir); err != nil {
		return w, err
	}
	client, end, err := f.connect(ctx, dir)
	if err != nil {
		return w, err
	}
	w.client = client
	w.ends = append(w.ends, end)
	return w, nil
}

// work runs a campaign until it has ended, and shows how far it is.
func (w *works) work(ctx context.Context, id string, quiet bool, stdout, stderr io.Writer) error {
	c, err := w.store.Campaign(ctx, id)
	if err != nil {
		return err
	}
	var s flow.Settings
	if err := json.Unmarshal([]byte(c.Settings), &s); err != nil {
		return fmt.Errorf("the settings of campaign %s: %w", id, err)
	}
	worker, err := w.client.Work(w.activities, s.Window)
	if err != nil {
		return err
	}
	defer worker.Stop()
	if err := w.client.Start(ctx, flow.CampaignInput{Campaign: id, Window: s.Window, Tries: s.Tries, Pace: s.Pace}); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- w.client.Wait(ctx, id) }()
	view := newView(stderr, quiet)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			view.clear()
			if err != nil && ctx.Err() == nil {
				return cli.Unknown(fmt.Errorf("campaign %s: %w", id, err))
			}
			if ctx.Err() != nil {
				return cli.Unknown(fmt.Errorf("interrupted: the machines of campaign %s end when their leases do; \"assay campaign resume %s\" goes on, \"assay campaign cancel %s\" gives them back now", id, id, id))
			}
			return w.outcome(context.WithoutCancel(ctx), id, stdout)
		case now := <-tick.C:
			if rows, err := progress(ctx, w.store, id, now); err == nil {
				view.show(rows)
			}
		}
	}
}

// outcome prints what became of a campaign.
func (w *works) outcome(ctx context.Context, id string, stdout io.Writer) error {
	p, err := progress(ctx, w.store, id, time.Now())
	if err != nil {
		return err
	}
	if err := p.print(stdout); err != nil {
		return err
	}
	switch good, all := p.count(campaign.Success), len(p.cells)-p.count(campaign.Skipped); {
	case good == 0:
		return cli.Failed(fmt.Errorf("campaign %s: no cell was measured", id))
	case good < all:
		return cli.Unknown(fmt.Errorf("campaign %s: %d of %d cells were measured", id, good, all))
	}
	return nil
}
