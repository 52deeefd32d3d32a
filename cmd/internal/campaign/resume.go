package campaign

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
)

type resumeFlags struct {
	worksFlags
	budget, cell, day string
}

func newResume() *cobra.Command {
	var f resumeFlags
	cmd := &cobra.Command{
		Use:   "resume [CAMPAIGN]",
		Short: "Go on with a campaign that was interrupted",
		Long: `Resume goes on with a campaign whose worker has ended: steps that were under way
are done again or found done, and cells that have no outcome are measured. Without
a campaign it takes the newest one.

With --budget the campaign may cost more than its matrix says, and cells that were
left since the money was not enough are measured too.`,
		Example: `  assay campaign resume
  assay campaign resume 01k9zk2v --budget 40 --budget-day 20`,
		Args: cli.Takes(0, 1, "a campaign's id, or nothing for the newest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, id, err := f.beginOn(ctx, args)
			if err != nil {
				return err
			}
			defer w.close()
			if err := f.pay(ctx, w.store, id, cmd.ErrOrStderr()); err != nil {
				return err
			}
			if err := w.store.ResumeCampaign(ctx, id); err != nil {
				return err
			}
			return w.work(ctx, id, f.quiet, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&f.budget, "budget", "", "what the campaign may cost in all from now on, in `USD`; caps of a cell and of a day that were as high follow it")
	cmd.Flags().StringVar(&f.cell, "budget-cell", "", "what a cell may cost, in `USD`")
	cmd.Flags().StringVar(&f.day, "budget-day", "", "what all campaigns of the database may cost in a UTC day, in `USD`")
	return cmd
}

// pay gives a campaign more money, if that was asked for, and has the cells wait again
// that were left for the want of it.
func (f *resumeFlags) pay(ctx context.Context, s *store.Store, id string, w io.Writer) error {
	if f.budget == "" && f.cell == "" && f.day == "" {
		return nil
	}
	c, err := s.Campaign(ctx, id)
	if err != nil {
		return err
	}
	old := c.Caps.Campaign
	for _, one := range []struct {
		flag, text string
		cap        *assay.Money
		follows    bool
	}{
		{"--budget", f.budget, &c.Caps.Campaign, true},
		{"--budget-cell", f.cell, &c.Caps.Cell, c.Caps.Cell == old},
		{"--budget-day", f.day, &c.Caps.Day, c.Caps.Day == old},
	} {
		if one.text == "" {
			if one.follows {
				*one.cap = c.Caps.Campaign
			}
			continue
		}
		m, err := assay.ParseMoney(one.text, provider.Currency)
		if err != nil || m.Nano <= 0 {
			return fmt.Errorf("%s %s: write an amount of USD above 0, as 40", one.flag, foreign.Line(one.text, 40))
		}
		*one.cap = m
	}
	if err := s.SetCaps(ctx, id, c.Caps); err != nil {
		return err
	}
	n, err := s.Reopen(ctx, id, string(campaign.CauseBudget))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "campaign %s: at most %s in all, %s a cell, %s a day; %d cells are tried again\n", id, dollars(c.Caps.Campaign), dollars(c.Caps.Cell), dollars(c.Caps.Day), n)
	return nil
}

func newCancel() *cobra.Command {
	var f worksFlags
	cmd := &cobra.Command{
		Use:   "cancel [CAMPAIGN]",
		Short: "End a campaign: each of its machines is given back",
		Long: `Cancel asks each cell that is under way to end, and comes back when all machines
are given back. What was measured so far is kept as partial. Without a campaign it
takes the newest one.`,
		Args: cli.Takes(0, 1, "a campaign's id, or nothing for the newest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, id, err := f.beginOn(ctx, args)
			if err != nil {
				return err
			}
			defer w.close()
			worker, err := w.client.Work(w.activities, 10)
			if err != nil {
				return err
			}
			defer worker.Stop()
			if err := w.client.Cancel(ctx, id); err != nil {
				return err
			}
			// The workflow ends as cancelled, which is what was asked for.
			if err := w.client.Wait(ctx, id); ctx.Err() != nil {
				return cli.Unknown(fmt.Errorf("campaign %s still gives back: %w", id, err))
			}
			p, err := progress(ctx, w.store, id, time.Now())
			if err != nil {
				return err
			}
			return p.print(cmd.OutOrStdout())
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// beginOn begins to work on the campaign that was named, or the newest.
func (f *worksFlags) beginOn(ctx context.Context, args []string) (w *works, id string, err error) {
	if w, err = f.begin(ctx, f.openOld); err != nil {
		return nil, "", err
	}
	if id, err = which(ctx, w.store, args); err != nil {
		w.close()
		return nil, "", err
	}
	return w, id, nil
}
