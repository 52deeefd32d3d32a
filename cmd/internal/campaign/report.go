package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/report/plot"
)

type reportFlags struct {
	databaseFlags
	stateFlags
	out string
}

func newReport() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [CAMPAIGN]",
		Short: "Write BENCHMARK_REPORT.md and .html: speed, cost, failures, spend",
		Long: `Report shows what was measured where, what a million tokens cost, which results no
other one beats (a picture of speed against price for each model), what failed at
which stage and why, what was spent, and where the raw results lie: run directories,
signed when they came home, which "assay ledger verify" checks. Without a campaign
it is about all results in the database.

It prints the report, and with --out DIR writes BENCHMARK_REPORT.md,
BENCHMARK_REPORT.html and the pictures there.

Exit codes: 0 done; 1 used wrongly; 2 there is nothing to report.`,
		Example: `  assay campaign report --out report
  assay campaign report 01K9ZK2V --database sqlite:campaigns.db`,
		Args: cli.Takes(0, 1, "a campaign's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), strings.Join(args, ""), cmd.OutOrStdout())
		},
	}
	f.databaseFlags.register(cmd.Flags())
	f.stateFlags.register(cmd.Flags())
	cmd.Flags().StringVar(&f.out, "out", "", "`directory` to write the report to")
	return cmd
}

func (f *reportFlags) run(ctx context.Context, campaign string, w io.Writer) error {
	db, s, err := f.openOld(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	o, err := outcomeOf(ctx, s, campaign)
	if err != nil {
		return err
	}
	switch {
	case len(o.Manifests) > 0:
	case campaign == "":
		return cli.Unknown(errors.New("nothing was tried or imported yet: assay campaign run measures, assay campaign import takes results"))
	default:
		return cli.Unknown(fmt.Errorf("nothing was tried or imported as campaign %s: without an id the report is about all results in the database", foreign.Line(campaign, 60)))
	}
	o.Archive = archived(o.Benchmarks)
	if trust := filepath.Join(f.dir, archiveStatement); fileThere(trust) {
		o.Trust = trust
	}
	page := record.Page(o)
	if f.out == "" {
		return cli.Show(w, page)
	}
	return f.write(page, w)
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// write makes the files.
func (f *reportFlags) write(page report.Page, w io.Writer) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	save := func(name string, write func(io.Writer) error) error {
		path := filepath.Join(f.out, name)
		if err := cli.SaveFile(path, write); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, path)
		return err
	}
	err := errors.Join(
		save("BENCHMARK_REPORT.md", func(w io.Writer) error { return report.Markdown(w, page) }),
		save("BENCHMARK_REPORT.html", func(w io.Writer) error { return report.HTML(w, page) }),
	)
	n := 0
	for _, b := range page.Blocks {
		if c, ok := b.(report.Chart); ok {
			n++
			err = errors.Join(err, save(fmt.Sprintf("speed-against-price-%d.png", n), func(w io.Writer) error { return plot.PNG(w, c, plot.Options{}) }))
		}
	}
	return err
}

// outcomeOf reads what a report is made of.
func outcomeOf(ctx context.Context, s *store.Store, campaign string) (o record.Outcome, err error) {
	if o.Name = campaign; campaign == "" {
		o.Name = "all campaigns"
	}
	if o.Manifests, err = s.Manifests(ctx, campaign); err != nil {
		return o, err
	}
	if o.Benchmarks, err = s.Benchmarks(ctx, campaign); err != nil {
		return o, err
	}
	ids := []string{campaign}
	if campaign == "" {
		list, err := s.Campaigns(ctx)
		if err != nil {
			return o, err
		}
		ids = nil
		for _, c := range list {
			ids = append(ids, c.ID)
		}
	}
	for _, id := range ids {
		spend, err := s.Spend(ctx, id)
		if err != nil {
			return o, err
		}
		for _, b := range spend {
			o.Spent, o.Reserved = added(o.Spent, b.Spent), added(o.Reserved, b.Reserved)
		}
	}
	return o, nil
}

func added(sum *assay.Money, m assay.Money) *assay.Money {
	if sum != nil {
		m.Nano += sum.Nano
	}
	return &m
}
