package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/report"
)

type topicsFlags struct {
	brokers.Flags
	create     bool
	partitions int
	format     string
}

func newLedgerTopics() *cobra.Command {
	var f topicsFlags
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "List Kafka's topics, and check the settings of the ledger's",
		Long: `Topics lists the topics of a cluster, and says which settings of the ledger's own
are wrong: those that would lose records, or let a sender say when a record was
appended. A topic that exists is never altered; the command to do so is printed.

Exit codes: 0 the topic is there and right; 1 used wrongly; 2 Kafka cannot be
reached, or the topic is not there; 3 a setting is wrong.`,
		Example: `  assay ledger topics --kafka localhost:9092
  assay ledger topics --kafka localhost:9092 --create --partitions 12`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return brokers.Outcome(f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.Register(fs)
	fs.BoolVar(&f.create, "create", false, "make the topic if it is not there")
	fs.IntVar(&f.partitions, "partitions", kafka.Partitions, "with --create: of a new topic")
	cli.FormatFlag(fs, &f.format, "of what is printed: text or json", "text", "json")
	return cmd
}

func (f *topicsFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("unknown format %q; known are text, json", f.format)
	}
	if f.partitions < 1 || f.partitions > 10_000 {
		return fmt.Errorf("--partitions is %d; 1 to 10000 are allowed", f.partitions)
	}
	c, err := f.Config()
	if err != nil {
		return err
	}
	conn, err := kafka.Dial(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	if f.create {
		made, err := conn.EnsureTopic(ctx, f.partitions)
		if err != nil && !errors.Is(err, kafka.ErrTopic) {
			return err // a wrong setting is said below, after the list
		}
		if made {
			fmt.Fprintf(stderr, "made the topic %s\n", c.Topic)
		}
	}
	topics, err := conn.Topics(ctx)
	if err != nil {
		return err
	}
	var ours *kafka.Topic
	for i := range topics {
		if topics[i].Name == c.Topic {
			ours = &topics[i]
		} else {
			topics[i].Settings = nil // another's, to whom our rules do not apply
		}
	}
	if f.format == "json" {
		if topics == nil {
			topics = []kafka.Topic{}
		}
		err = cli.WriteJSON(stdout, topics)
	} else {
		err = cli.Show(stdout, topicsPage(topics, ours))
	}
	switch {
	case err != nil:
		return err
	case ours == nil:
		return fmt.Errorf("%w: %s; --create makes it", kafka.ErrNoTopic, c.Topic)
	}
	return ours.Check()
}

func topicsPage(topics []kafka.Topic, ours *kafka.Topic) report.Page {
	list := report.Table{Columns: []report.Column{{Name: "topic", Words: true}, {Name: "partitions"}, {Name: "replication"}, {Name: "in sync"}}}
	for _, t := range topics {
		list.Rows = append(list.Rows, []string{t.Name, strconv.Itoa(t.Partitions), strconv.Itoa(t.Replication), strconv.Itoa(t.InSync)})
	}
	page := report.Page{Title: "Topics", Blocks: []report.Block{list}}
	if ours == nil {
		return page
	}
	settings := report.Table{Columns: []report.Column{{Name: "setting of " + ours.Name, Words: true}, {Name: "is", Words: true}, {Name: "should be", Words: true}, {Name: "", Words: true}}}
	for _, s := range ours.Settings {
		mark := "ok"
		if s.Wrong {
			mark = "WRONG: " + s.Why
		}
		settings.Rows = append(settings.Rows, []string{s.Name, s.Value, s.Want, mark})
	}
	page.Blocks = append(page.Blocks, settings)
	return page
}
