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
	"github.com/assay-bench/assay/report"
)

// maxShown is how many points of a history are printed; JSON has them all.
const maxShown = 20

func newHistory() *cobra.Command {
	var f remote.Output
	var metric string
	var days int
	cmd := &cobra.Command{
		Use:   "history NODE",
		Short: "Show how a metric of a node went, and where it changed",
		Long: `Show how a metric of a node went in its newest configuration: where it changed, how
it stands among its peers, and its last reports. docs/trends.md explains it.`,
		Args: cli.Takes(1, 1, "a node's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			p := api.GetHistoryParams{Metric: new(api.TrendMetric(metric)), Days: &days}
			if !p.Metric.Valid() {
				return fmt.Errorf("--metric %q: known are output_tokens_per_second, tpot_p50_ms, ttft_p99_ms, tokens_per_joule", metric)
			}
			r, err := c.GetHistoryWithResponse(cmd.Context(), args[0], &p)
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errors.New("the server's answer is no history")
			}
			if f.JSON() {
				return cli.WriteJSON(cmd.OutOrStdout(), r.JSON200)
			}
			return cli.Show(cmd.OutOrStdout(), historyPage(args[0], *r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&metric, "metric", string(api.TrendMetricOutputTokensPerSecond), "output_tokens_per_second, tpot_p50_ms, ttft_p99_ms or tokens_per_joule")
	cmd.Flags().IntVar(&days, "days", 92, "how far to look back")
	return cmd
}

func historyPage(node string, h api.History) report.Page {
	page := report.Page{Title: fmt.Sprintf("Node %s: %s", node, h.Metric)}
	facts := report.Table{Columns: []report.Column{{Name: "fact"}, {Name: "value", Words: true}}, Rows: [][]string{{"configuration", h.Configuration}, {"reports in it", fmt.Sprint(len(h.Points))}}}
	if h.Unknown != "" {
		facts.Rows = append(facts.Rows, []string{"changes", "unknown: " + h.Unknown})
	} else if len(h.Changes) == 0 {
		facts.Rows = append(facts.Rows, []string{"changes", "none"})
	}
	peers := "unknown: " + h.Peers.Unknown
	if h.Peers.Unknown == "" && h.Peers.Median != nil && h.Peers.Shift != nil {
		peers = fmt.Sprintf("%s against the median %.4g of %d", percent(*h.Peers.Shift), *h.Peers.Median, h.Peers.Peers)
		if h.Peers.Score != nil {
			peers += fmt.Sprintf(" (%+.1f robust standard deviations)", *h.Peers.Score)
		}
	}
	facts.Rows = append(facts.Rows, []string{"among its peers", peers})
	page.Blocks = append(page.Blocks, facts)
	if len(h.Changes) > 0 {
		t := report.Table{Title: "Changes", Columns: []report.Column{{Name: "since"}, {Name: "found"}, {Name: "before"}, {Name: "after"}, {Name: "change"}, {Name: "95 % interval"}, {Name: "how", Words: true}}}
		for _, c := range h.Changes {
			how := "at once"
			if c.Gradual {
				how = "bit by bit"
			}
			t.Rows = append(t.Rows, []string{stamp(c.Time), stamp(c.Found), figure(c.Before), figure(c.After), percent(c.Shift), percent(c.Low) + " to " + percent(c.High), how})
		}
		t.Note = "A change of + is for the better."
		page.Blocks = append(page.Blocks, t)
	}
	t := report.Table{Title: "Last reports", Columns: []report.Column{{Name: "time"}, {Name: "value"}, {Name: "95 % interval"}, {Name: "report", Words: true}}}
	for _, p := range h.Points[max(0, len(h.Points)-maxShown):] {
		interval := "none"
		if p.Low != nil && p.High != nil {
			interval = figure(*p.Low) + " to " + figure(*p.High)
		}
		t.Rows = append(t.Rows, []string{stamp(p.Time), figure(p.Value), interval, p.Report})
	}
	page.Blocks = append(page.Blocks, t)
	return page
}

func newAnomalies() *cobra.Command {
	var f remote.Output
	var kind string
	var limit int
	cmd := &cobra.Command{
		Use:   "anomalies [NODE]",
		Short: "List what was found in nodes' histories, newest first",
		Args:  cli.Takes(0, 1, "a node's id, or nothing for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			p := api.ListAnomaliesParams{Limit: &limit}
			if len(args) == 1 {
				p.Node = &args[0]
			}
			if kind != "" {
				p.Kind = &kind
			}
			r, err := c.ListAnomaliesWithResponse(cmd.Context(), &p)
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errors.New("the server's answer is no list of anomalies")
			}
			if f.JSON() {
				return cli.WriteJSON(cmd.OutOrStdout(), *r.JSON200)
			}
			return cli.Show(cmd.OutOrStdout(), anomaliesPage(*r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&kind, "kind", "", "only those of this kind, as performance_drop")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so `many`")
	return cmd
}

func anomaliesPage(list []api.Anomaly) report.Page {
	t := report.Table{Columns: []report.Column{{Name: "time"}, {Name: "node"}, {Name: "kind", Words: true}, {Name: "what", Words: true}, {Name: "reports", Words: true}}}
	for _, a := range list {
		t.Rows = append(t.Rows, []string{stamp(a.Time), a.Node, a.Kind, a.Text, strings.Join(a.Reports, " ")})
	}
	t.Note = fmt.Sprintf("%d anomalies. What each triggers is the policy's.", len(list))
	return report.Page{Title: "Anomalies", Blocks: []report.Block{t}}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func percent(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) }

func figure(v float64) string { return fmt.Sprintf("%.4g", v) }
