package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/report"
)

// kafkaPassword is the variable that may hold the password of SASL, which is
// never an argument: everybody on a machine can read arguments.
const kafkaPassword = "ASSAY_KAFKA_PASSWORD"

// kafkaFlags are those of every command that speaks to Kafka.
type kafkaFlags struct{ brokers, file, topic string }

func (f *kafkaFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.brokers, "kafka", "", "Kafka's `brokers`, HOST:PORT,HOST:PORT…")
	fs.StringVar(&f.file, "kafka-config", "", "YAML `file` with brokers, topic, tls and sasl; the password comes from its password_file or from $"+kafkaPassword)
	fs.StringVar(&f.topic, "topic", "", "the `topic` (default "+ledger.Topic+")")
}

// given reports whether Kafka was asked for.
func (f *kafkaFlags) given() bool { return f.brokers != "" || f.file != "" }

// config is what the flags and the file say together; a flag wins.
func (f *kafkaFlags) config() (kafka.Config, error) {
	var c kafka.Config
	if f.file != "" {
		var err error
		if c, err = kafka.ReadConfig(f.file); err != nil {
			return c, err
		}
	}
	if f.brokers != "" {
		c.Brokers = strings.Split(f.brokers, ",")
	}
	if f.topic != "" {
		c.Topic = f.topic
	}
	if c.Topic == "" {
		c.Topic = ledger.Topic
	}
	if len(c.Brokers) == 0 {
		return c, errors.New("where is Kafka? give --kafka HOST:PORT, or --kafka-config FILE")
	}
	if c.SASL != nil && c.SASL.PasswordFile == "" {
		c.SASL.Password = kafka.Secret(os.Getenv(kafkaPassword))
	}
	return c, nil
}

// kafkaOutcome gives an error of Kafka its exit code: one that is not a matter of
// usage means that nothing could be found out.
func kafkaOutcome(err error) error {
	for _, known := range []error{kafka.ErrUnreachable, kafka.ErrRefused, kafka.ErrNoTopic, kafka.ErrTruncated, kafka.ErrDeleted} {
		if errors.Is(err, known) {
			return cli.Unknown(err)
		}
	}
	if errors.Is(err, kafka.ErrTopic) {
		return cli.Failed(err)
	}
	return err
}

type topicsFlags struct {
	kafkaFlags
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
			return kafkaOutcome(f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.register(fs)
	fs.BoolVar(&f.create, "create", false, "make the topic if it is not there")
	fs.IntVar(&f.partitions, "partitions", kafka.Partitions, "with --create: of a new topic")
	fs.StringVar(&f.format, "format", "text", "of what is printed: text or json")
	return cmd
}

func (f *topicsFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("unknown format %q; known are text, json", f.format)
	}
	if f.partitions < 1 || f.partitions > 10_000 {
		return fmt.Errorf("--partitions is %d; 1 to 10000 are allowed", f.partitions)
	}
	c, err := f.config()
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
		err = report.Text(stdout, topicsPage(topics, ours))
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
