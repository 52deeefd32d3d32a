package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/place"
	"github.com/assay-bench/assay/report"
)

type placeFlags struct {
	remote.Flags
	offline, format, example string
}

func newPlace() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "place DEMAND",
		Short: "Say which model belongs on which node at the least cost",
		Long: `Say which model belongs on which node at the least cost, which demand is not met
and why, and how far the answer is from the best there can be: a client of a server.
It moves nothing.

DEMAND is a YAML file (docs/formats/demand.md): so much of each model, within limits
of the p99. Capacities are those of the nodes' last reports; where a model was not
measured on a node, that of its weakest peer, which is marked. With --offline the
nodes come from a file, and no server is needed; --example prints files to begin with.

Exit codes: 0 everything is met by what was measured; 1 used wrongly, or the server
refused; 2 it is met only if estimates hold; 3 something is not met.`,
		Example: `  assay server place demand.yaml --server https://assay.example.org --token-file viewer.token
  assay server place demand.yaml --offline nodes.yaml --format json`,
		Args: cli.Takes(0, 1, "a demand's file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.example != "" {
				return printExample(cmd.OutOrStdout(), f.example)
			}
			if len(args) == 0 {
				return errors.New("which demand? Name its file; `assay server place --example demand` prints one to begin with")
			}
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.offline, "offline", "", "take the nodes from this `file` (docs/formats/demand.md) in place of a server")
	cli.FormatFlag(cmd.Flags(), &f.format, "of the answer: text or json", "text", "json")
	cmd.Flags().StringVar(&f.example, "example", "", "print an example and stop: `demand` or nodes")
	return cmd
}

func printExample(w io.Writer, which string) error {
	b := map[string][]byte{"demand": place.ExampleDemand, "nodes": place.ExampleNodes}[which]
	if b == nil {
		return fmt.Errorf("--example %q: known are demand, nodes", which)
	}
	_, err := w.Write(b)
	return err
}

func (f *placeFlags) run(ctx context.Context, path string, w io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	demand, err := readDemand(path)
	if err != nil {
		return err
	}
	nodes, err := f.nodes(ctx, demand)
	if err != nil {
		return err
	}
	got, err := place.Place(demand.Priced(nodes), demand.Request)
	if err != nil {
		return err
	}
	if f.format == "json" {
		err = cli.WriteJSON(w, got)
	} else {
		err = cli.Show(w, placePage(got))
	}
	return errors.Join(err, cli.Judged(got.Verdict, placeFault(got)))
}

// placeFault says in one line what keeps an answer from being good.
func placeFault(p place.Placement) error {
	if p.Verdict != assay.Fail {
		return errors.New("it is met only if the estimates hold: measure those nodes with `assay hammer`, or write `estimates: refuse`")
	}
	n := 0
	for _, d := range p.Demands {
		if !d.Met {
			n++
		}
	}
	return fmt.Errorf("%d of %d demands are not met: the answer says why; add nodes, measure those that were not, or ask for less", n, len(p.Demands))
}

func readDemand(path string) (place.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return place.File{}, fmt.Errorf("read the demand: %w", err)
	}
	defer file.Close()
	return place.ReadDemand(file, path)
}

func (f *placeFlags) nodes(ctx context.Context, demand place.File) ([]place.Node, error) {
	if f.offline == "" {
		return askNodes(ctx, f.Flags, demand.Models())
	}
	if f.Server != "" {
		return nil, errors.New("--offline and --server: the nodes come from one of them")
	}
	file, err := os.Open(f.offline)
	if err != nil {
		return nil, fmt.Errorf("--offline: %w", err)
	}
	defer file.Close()
	return place.ReadNodes(file, f.offline, demand.Request.Currency)
}

func placePage(p place.Placement) report.Page {
	nodes := report.Table{Title: "Nodes", Columns: []report.Column{
		{Name: "demand", Words: true}, {Name: "node", Words: true}, {Name: "capacity"}, {Name: "from", Words: true}, {Name: "now", Words: true}, {Name: "an hour"},
	}}
	demands := report.Table{Columns: []report.Column{
		{Name: "demand", Words: true}, {Name: "asked"}, {Name: "unit", Words: true}, {Name: "nodes"}, {Name: "capacity"}, {Name: "may lose"}, {Name: "then kept"}, {Name: "met", Words: true},
	}}
	blocks := []report.Block{}
	for _, d := range p.Demands {
		demands.Rows = append(demands.Rows, []string{d.Name, figure(d.Asked), unitWord(d.Unit), fmt.Sprint(len(d.Nodes)), figure(d.Capacity), fmt.Sprint(d.Redundancy), figure(d.Kept), yesNo(d.Met)})
		for _, g := range d.Nodes {
			nodes.Rows = append(nodes.Rows, []string{d.Name, g.Node, figure(g.Capacity), word(g.Estimated, "estimate", "measured"), word(g.Loads, "loads", "runs"), g.Cost.String()})
		}
		for _, why := range d.Why {
			blocks = append(blocks, report.Paragraph{Head: d.Name + " is not met", Text: why})
		}
	}
	nodes.Note = fmt.Sprintf("%d nodes could serve and are not needed, %d may not be given anything.", len(p.Idle), len(p.Excluded))
	cost := report.Paragraph{Head: "Cost", Text: fmt.Sprintf("%s an hour, and %s for loading models.", p.Cost, p.Loading)}
	bound := report.Paragraph{Head: "Bound", Text: fmt.Sprintf("no placement costs less than %s an hour; this one is at most %.2f %% above the best.", p.Bound, 100*p.Distance)}
	switch {
	case p.Unmet > 0:
		bound.Text = fmt.Sprintf("no placement that meets as much of each demand costs less than %s an hour; this one is at most %.2f %% above it. Of the demands together %.3g are not met, and at least %.3g cannot be.", p.Bound, 100*p.Distance, p.Unmet, p.UnmetBound)
	case p.Optimal:
		bound.Text = fmt.Sprintf("no placement costs less than %s an hour: this one is the best.", p.Bound)
	}
	blocks = append([]report.Block{demands, nodes, cost, bound}, blocks...)
	for i, e := range p.Excluded {
		if i == maxExcluded {
			blocks = append(blocks, report.Paragraph{Head: "Not used", Text: fmt.Sprintf("and %d more; --format json has all", len(p.Excluded)-i)})
			break
		}
		blocks = append(blocks, report.Paragraph{Head: "Not used", Text: e.Node + ": " + e.Why})
	}
	return report.Page{Title: "Placement", Blocks: blocks}
}

// maxExcluded is how many nodes that may not be given anything are listed as text.
const maxExcluded = 20

func figure(v float64) string { return fmt.Sprintf("%.4g", v) }

func unitWord(u place.Unit) string { return word(u == place.Tokens, "tokens/s", "requests/s") }

func yesNo(b bool) string { return word(b, "yes", "no") }

func word(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
