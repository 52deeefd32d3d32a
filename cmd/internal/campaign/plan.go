package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
	"github.com/assay-bench/assay/examples/campaigns"
	"github.com/assay-bench/assay/report"
)

type planFlags struct {
	clouds.Credentials
	kept    databaseFlags
	offline bool
	format  string
	example bool
}

func newPlan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Say what a matrix comes to, and what it costs at most; rent nothing",
		Long: `Plan expands a matrix (docs/formats/matrix.md) into its cells, computes whether each
model fits the memory of each GPU (weights, KV cache, engine), and skips those that
do not, with the numbers. It asks the providers for prices, unless --offline, and
says what is reserved for a try, what the campaign costs at most, and what is likely
by the tries that --database has, if it is there. It rents nothing.

Exit codes: 0 planned, whatever was skipped; 1 used wrongly; 2 something has no
price; 3 nothing in it can run.`,
		Example: `  assay campaign plan examples/campaigns/gpu-matrix.yaml --offline
  assay campaign plan matrix.yaml --offline --format json | jq '.cells[] | select(.skip)'`,
		Args: cli.Takes(0, 1, "a matrix' file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.example {
				_, err := cmd.OutOrStdout().Write(campaigns.Matrix)
				return err
			}
			if len(args) == 0 {
				return errors.New("which matrix? Name its file; `assay campaign plan --example` prints one to begin with")
			}
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f.Register(cmd.Flags())
	f.kept.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.offline, "offline", false, "ask no provider: sizes and counts, no prices")
	cli.FormatFlag(cmd.Flags(), &f.format, "of the plan: text or json", "text", "json")
	cmd.Flags().BoolVar(&f.example, "example", false, "print a matrix to begin with, and stop")
	return cmd
}

func (f *planFlags) run(ctx context.Context, path string, w io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	m, err := readMatrix(path)
	if err != nil {
		return err
	}
	o := campaign.Options{Guarantees: clouds.Guarantees(nil)}
	if !f.offline {
		accounts, err := f.Load(ctx)
		if err != nil {
			return err
		}
		o.Guarantees = clouds.Guarantees(accounts)
		o.Inventory = inventory(accounts)
		if o.History, err = f.kept.history(ctx); err != nil {
			return err
		}
	}
	p, err := campaign.Make(ctx, m, o)
	if err != nil {
		return err
	}
	if f.format == "json" {
		err = cli.WriteJSON(w, p)
	} else {
		err = cli.Show(w, planPage(p))
	}
	return errors.Join(err, planFault(p))
}

// planFault is what keeps a plan from being good, with its exit code.
func planFault(p campaign.Plan) error {
	switch {
	case p.Runnable == 0:
		return cli.Failed(errors.New("no cell can run: the plan says why of each"))
	case p.Cost != nil && p.Cost.Unpriced > 0:
		return cli.Unknown(fmt.Errorf("%d of %d cells have no price: the plan says why of each", p.Cost.Unpriced, p.Runnable))
	}
	return nil
}

// readMatrix reads a matrix' file.
func readMatrix(path string) (campaign.Matrix, error) {
	file, err := os.Open(path)
	if err != nil {
		return campaign.Matrix{}, fmt.Errorf("read the matrix: %w", err)
	}
	defer file.Close()
	return campaign.ReadMatrix(file, path)
}

func planPage(p campaign.Plan) report.Page {
	cells := report.Table{Title: "Cells", Columns: []report.Column{
		{Name: "GPU", Words: true}, {Name: "provider", Words: true}, {Name: "model", Words: true}, {Name: "engine", Words: true}, {Name: "needs"}, {Name: "usable"},
	}}
	priced := p.Cost != nil
	if priced {
		cells.Columns = append(cells.Columns, report.Column{Name: "an hour"}, report.Column{Name: "likely"}, report.Column{Name: "at most"})
	}
	skipped := report.List{Head: "skipped"}
	unpriced := report.List{Head: "without a price"}
	reasons := map[string][]string{} // cells, by why they have no price
	for _, c := range p.Cells {
		if c.Skip != nil {
			skipped.Items = append(skipped.Items, c.Key()+": "+*c.Skip)
			continue
		}
		row := []string{c.GPU, c.Provider, c.Model, c.Engine, gib(c.Memory.Total()), gib(c.Memory.Usable)}
		if priced {
			row = append(row, costs(c.Cost)...)
		}
		if c.Unpriced != "" {
			reasons[c.Unpriced] = append(reasons[c.Unpriced], c.Key())
		}
		cells.Rows = append(cells.Rows, row)
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		cells := reasons[why]
		of := cells[0]
		if n := len(cells) - 1; n > 0 {
			of += fmt.Sprintf(" and %d more", n)
		}
		unpriced.Items = append(unpriced.Items, of+": "+why)
	}
	providers := report.Table{Title: "If a machine is left alone", Columns: []report.Column{{Name: "provider", Words: true}, {Name: "cells"}, {Name: "what ends", Words: true}}}
	for _, r := range p.Providers {
		providers.Rows = append(providers.Rows, []string{r.Name, fmt.Sprint(r.Cells), r.Guarantee})
	}
	blocks := []report.Block{report.Paragraph{Text: fmt.Sprintf("%d cells, of which %d can run.", p.Count, p.Runnable)}}
	if len(cells.Rows) > 0 {
		blocks = append(blocks, cells)
	}
	for _, l := range []report.List{skipped, unpriced} {
		if len(l.Items) > 0 {
			blocks = append(blocks, l)
		}
	}
	blocks = append(blocks, providers)
	if priced {
		blocks = append(blocks, report.Paragraph{Head: "cost", Text: fmt.Sprintf("likely %s, at most %s (budget %s). %s.",
			dollars(p.Cost.Likely), dollars(p.Cost.Bound), budget(p.Budget.Campaign), p.Cost.History.Source)})
	}
	if len(p.Warnings) > 0 {
		blocks = append(blocks, report.List{Head: "note", Items: p.Warnings})
	}
	return report.Page{Title: "Plan of " + p.Name, Blocks: blocks}
}

func costs(c *campaign.Cost) []string {
	if c == nil {
		return []string{"unknown", "unknown", "unknown"}
	}
	return []string{dollars(c.Hour), dollars(c.Likely), dollars(c.Bound)}
}

// dollars is an amount with two decimals, for tables.
func dollars(m assay.Money) string { return fmt.Sprintf("%.2f %s", m.Units(), m.Currency) }

func budget(m *assay.Money) string {
	if m == nil {
		return "none"
	}
	return dollars(*m)
}

func gib(b int64) string { return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30)) }
