package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

func newCapacity() *cobra.Command {
	var f remote.Flags
	var slo, model, format string
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Say what load the network holds, and until when it will do",
		Long: `Say what load the nodes in rotation hold at an objective, by their last reports, and
when the daily peak of requests will exceed it: a client of a server. docs/trends.md
explains both.`,
		Example: `  assay server capacity --slo 'ttft_p99<500ms,error_rate<1%'`,
		Args:    cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return cli.BadFormat(format)
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			r, err := c.GetCapacityWithResponse(cmd.Context(), &api.GetCapacityParams{Slo: &slo, Model: &model})
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errors.New("the server's answer is no capacity")
			}
			if format == "json" {
				return cli.WriteJSON(cmd.OutOrStdout(), r.JSON200)
			}
			return cli.Show(cmd.OutOrStdout(), capacityPage(*r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&slo, "slo", "", "objectives that the load has to keep, as ttft_p99<500ms,error_rate<1%; by default none")
	cmd.Flags().StringVar(&model, "model", "", "only nodes that were measured with this `model`")
	cli.FormatFlag(cmd.Flags(), &format, "of the answer: text or json", "text", "json")
	return cmd
}

func capacityPage(c api.Capacity) report.Page {
	known := func(v *float64, form string) string {
		if v == nil {
			return "unknown"
		}
		return fmt.Sprintf(form, *v)
	}
	now := report.Table{Title: "Now", Columns: []report.Column{{Name: "what"}, {Name: "value", Words: true}}, Rows: [][]string{
		{"nodes in rotation", fmt.Sprint(c.Nodes)}, {"of them measured", fmt.Sprint(c.Measured)}, {"that count as nothing", fmt.Sprint(c.UnknownNodes)},
		{"requests under way", known(c.Streams, "%.1f")}, {"requests a second", known(c.RequestsPerSecond, "%.2f")}, {"output tokens a second", known(c.OutputTokensPerSecond, "%.0f")},
	}}
	if c.UnknownNodes > 0 {
		now.Note = "A node counts as nothing whose last report does not say whether it keeps the objectives."
	}
	page := report.Page{Title: "Capacity", Blocks: []report.Block{now}}
	f := c.Forecast
	ahead := report.Table{Title: "Ahead", Columns: []report.Column{{Name: "what"}, {Name: "value", Words: true}}}
	if f.Unknown != "" {
		ahead.Rows = [][]string{{"forecast", "unknown: " + f.Unknown}}
		page.Blocks = append(page.Blocks, ahead)
		return page
	}
	day := func(t *time.Time) string {
		switch {
		case c.Streams == nil:
			return "unknown: it is not known what is held"
		case t == nil:
			return "not within 90 days"
		}
		return t.UTC().Format(time.DateOnly)
	}
	share := func(v *float64) string {
		if v == nil {
			return "unknown"
		}
		return fmt.Sprintf("%+.1f %%", 100**v)
	}
	ahead.Rows = [][]string{
		{"peak of the last week", known(f.Peak, "%.1f") + " requests under way"},
		{"growth a week", share(f.GrowthWeek) + ", 95 % interval " + share(f.GrowthWeekLow) + " to " + share(f.GrowthWeekHigh)},
		{"exceeded at the earliest", day(f.Earliest)}, {"exceeded as expected", day(f.Expected)}, {"exceeded at the latest", day(f.Latest)},
	}
	ahead.Note = fmt.Sprintf("From %d days of demand.", f.Days)
	tries := report.Table{Title: "Tried on days that were held out", Columns: []report.Column{{Name: "days ahead"}, {Name: "forecasts"}, {Name: "median error"}, {Name: "within the interval"}}}
	for _, t := range f.Tries {
		tries.Rows = append(tries.Rows, []string{fmt.Sprint(t.Days), fmt.Sprint(t.N), fmt.Sprintf("%.1f %%", 100*t.Error), fmt.Sprintf("%.0f %%", 100*t.Covered)})
	}
	page.Blocks = append(page.Blocks, ahead, tries)
	return page
}
