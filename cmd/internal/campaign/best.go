package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
)

type bestFlags struct {
	databaseFlags
	model, by, format, campaign string
	slo                         []string
}

func newBest() *cobra.Command {
	var f bestFlags
	cmd := &cobra.Command{
		Use:   "best",
		Short: "Say which machine serves a model fastest or cheapest within limits",
		Long: `Best ranks the results of a model: by speed, or by the cost of a million output
tokens. With --slo only loads count at which all limits were kept; a result of which
that is not known is ranked behind those that keep them, and never counts as one.
Of several results of one kind of machine at one provider the last counts.

Exit codes: 0 there is an answer; 1 used wrongly; 2 it is not known whether any
result keeps the limits, or there is none; 3 none keeps them.`,
		Example: `  assay campaign best --model deepseek-r1:14b --by cost
  assay campaign best --model qwen2:7b --slo "ttft_p99<500ms" --slo "tpot_p99<50ms"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&f.model, "model", "", "the model's `name`; by default all")
	cmd.Flags().StringArrayVar(&f.slo, "slo", nil, "a `limit` to keep, as ttft_p99<500ms; may be repeated")
	cmd.Flags().StringVar(&f.by, "by", "speed", "rank by speed or cost")
	cmd.Flags().StringVar(&f.campaign, "campaign", "", "only results of this campaign's `id`")
	cli.FormatFlag(cmd.Flags(), &f.format, "text or json", "text", "json")
	return cmd
}

func (f *bestFlags) run(ctx context.Context, w io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	q := record.Query{Model: f.model, By: record.Order(f.by)}
	if q.By != record.BySpeed && q.By != record.ByCost {
		return fmt.Errorf("--by %q: known are speed, cost", f.by)
	}
	for _, text := range f.slo {
		o, err := assay.ParseObjective(text)
		if err != nil {
			return fmt.Errorf("--slo: %w", err)
		}
		q.SLO = append(q.SLO, o)
	}
	db, s, err := f.openOld(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := s.Benchmarks(ctx, f.campaign)
	if err != nil {
		return err
	}
	ranked := record.Rank(list, q)
	if f.format == "json" {
		err = cli.WriteJSON(w, ranked)
	} else if len(ranked) > 0 {
		err = cli.Show(w, bestPage(ranked, q))
	}
	return errors.Join(err, bestFault(ranked, list, q))
}

func bestFault(ranked []record.Candidate, all []store.Benchmark, q record.Query) error {
	if len(ranked) == 0 && len(all) > 0 {
		models := map[string]bool{}
		for _, b := range all {
			models[b.Model] = true
		}
		return cli.Unknown(fmt.Errorf("there are no results of %s; there are some of %s", foreign.Line(q.Model, 60), foreign.Line(strings.Join(slices.Sorted(maps.Keys(models)), ", "), 500)))
	}
	if len(ranked) == 0 {
		return cli.Unknown(errors.New("there are no results: measure some with assay campaign run, or import them with assay campaign import"))
	}
	return cli.Judged(ranked[0].Kept, errors.New("no result is known to keep the limits: the answer says why of each"))
}

func bestPage(ranked []record.Candidate, q record.Query) report.Page {
	t := report.Table{Columns: []report.Column{
		{Name: "GPU", Words: true}, {Name: "provider", Words: true}, {Name: "model", Words: true}, {Name: "engine", Words: true},
		{Name: "tokens/s"}, {Name: "an hour"}, {Name: "a million output tokens"}, {Name: "kept", Words: true}, {Name: "why", Words: true},
	}}
	amount := func(m *assay.Money) string {
		if m == nil {
			return "unknown"
		}
		return fmt.Sprintf("%.4g %s", m.Units(), m.Currency)
	}
	for _, c := range ranked {
		gpu, rate := c.GPU, "unknown"
		if c.Count > 1 {
			gpu = fmt.Sprintf("%dx %s", c.Count, gpu)
		}
		if c.TokensPerSecond != nil {
			rate = fmt.Sprintf("%.4g", *c.TokensPerSecond)
		}
		t.Rows = append(t.Rows, []string{gpu, c.Provider, c.Model, c.Engine, rate, amount(c.PricePerHour), amount(c.PerMillion), c.Kept.String(), c.Why})
	}
	title := "Results by " + string(q.By)
	if len(q.SLO) > 0 {
		var limits []string
		for _, o := range q.SLO {
			limits = append(limits, o.String())
		}
		title += " that keep " + strings.Join(limits, ", ")
	}
	return report.Page{Title: title, Blocks: []report.Block{t}}
}
