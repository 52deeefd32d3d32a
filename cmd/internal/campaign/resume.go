package campaign

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

func newResume() *cobra.Command {
	var f worksFlags
	cmd := &cobra.Command{
		Use:   "resume [CAMPAIGN]",
		Short: "Go on with a campaign that was interrupted",
		Long: `Resume goes on with a campaign whose worker has ended: steps that were under way
are done again or found done, and cells that have no outcome are measured. Without
a campaign it takes the newest one.`,
		Args: cli.Takes(0, 1, "a campaign's id, or nothing for the newest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, id, err := f.beginOn(ctx, args)
			if err != nil {
				return err
			}
			defer w.close()
			if err := w.store.ResumeCampaign(ctx, id); err != nil {
				return err
			}
			return w.work(ctx, id, f.quiet, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd.Flags())
	return cmd
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
	if w, err = f.begin(ctx); err != nil {
		return nil, "", err
	}
	if id, err = which(ctx, w.store, args); err != nil {
		w.close()
		return nil, "", err
	}
	return w, id, nil
}
