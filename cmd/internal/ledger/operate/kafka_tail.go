package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
)

type tailFlags struct {
	brokers.Flags
	from              string
	beginning         bool
	follow            bool
	partition         int32
	kind, node        string
	max               int
	keys, times       bool
	format            string
	action, component string // of events only
	events            bool
}

func newLedgerTail() *cobra.Command {
	f := tailFlags{}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print records of the topic, as they come or from the beginning",
		Long: `Tail prints the records of the topic: without --from only new ones, as they come;
with it those that are there, and with --follow new ones too. Signed envelopes are
shown by predicate, node and key. Nothing is verified here: that is for
assay ledger verify, and what is printed is its sender's word.

The records of one node come in order; those of different nodes may be
interleaved in any way.

Exit codes: 0 done, also when interrupted; 1 used wrongly; 2 Kafka cannot be
reached, or the wanted records are not there any more.`,
		Example: `  assay ledger tail --kafka localhost:9092 --from-beginning
  assay ledger tail --kafka localhost:9092 --from 1h --follow --kind envelope
  assay ledger tail --kafka localhost:9092 --from 1200 --partition 3 --max-messages 10 --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.from == "" && !f.beginning {
				f.follow = true
			}
			return brokers.Outcome(f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.Register(fs)
	fs.BoolVar(&f.beginning, "from-beginning", false, "all that is there; the same as --from beginning")
	fs.StringVar(&f.from, "from", "", "where to begin: beginning, a `time` (2026-11-15T08:00:00Z, or 1h ago), or an offset of --partition")
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with new records (default without --from)")
	fs.Int32Var(&f.partition, "partition", -1, "only this one")
	fs.StringVar(&f.kind, "kind", "", "only records of this kind: envelope or event")
	fs.StringVar(&f.node, "node", "", "only records of this node")
	fs.IntVar(&f.max, "max-messages", 0, "end after so many; 0: no limit")
	fs.BoolVar(&f.keys, "keys", true, "print each record's key, the node's id")
	fs.BoolVar(&f.times, "timestamps", true, "print when the broker appended it")
	fs.StringVar(&f.format, "format", "text", "of what is printed: text, or json for one object a line") // -f is to follow, as in tail
	cli.Values(fs, "format", "text", "json")
	return cmd
}

func newLedgerEvents() *cobra.Command {
	f := tailFlags{partition: -1, keys: true, times: true, events: true}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print the operations that nodes reported",
		Long: `Events prints the operation events of the topic: action, component and details.
They are for people and dashboards; nobody signs them.

Exit codes: 0 done, also when interrupted; 1 used wrongly; 2 Kafka cannot be
reached.`,
		Example: `  assay ledger events --kafka localhost:9092 --from 1h
  assay ledger events --kafka localhost:9092 --from beginning --node gpu-7 --action gpu_operation --format json
  assay ledger events --kafka localhost:9092 --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return brokers.Outcome(f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.Register(fs)
	fs.StringVar(&f.from, "from", "1h", "where to begin: beginning, or a `time` (2026-11-15T08:00:00Z, or 1h ago)")
	fs.StringVar(&f.node, "node", "", "only events of this node")
	fs.StringVar(&f.action, "action", "", "only events with this action")
	fs.StringVar(&f.component, "component", "", "only events of this component")
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with new events")
	fs.IntVar(&f.max, "max-messages", 0, "end after so many; 0: no limit")
	fs.StringVar(&f.format, "format", "text", "of what is printed: text, or json for one object a line") // -f is to follow, as in tail
	cli.Values(fs, "format", "text", "json")
	return cmd
}

func (f *tailFlags) check() error {
	switch {
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("unknown format %q; known are text, json", f.format)
	case f.kind != "" && f.kind != string(ledger.KindEnvelope) && f.kind != string(ledger.KindEvent):
		return fmt.Errorf("unknown kind %q; known are %s, %s", f.kind, ledger.KindEnvelope, ledger.KindEvent)
	case f.max < 0:
		return fmt.Errorf("--max-messages is %d; it must not be negative", f.max)
	case f.beginning && f.from != "":
		return errors.New("--from-beginning and --from say two things; leave one out")
	}
	return nil
}

func (f *tailFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	from := f.from
	if f.beginning {
		from = "beginning"
	}
	begin, err := parseBegin(from, time.Now())
	if err != nil {
		return err
	}
	c, err := f.Config()
	if err != nil {
		return err
	}
	r, err := kafka.NewReader(c)
	if err != nil {
		return err
	}
	defer r.Close()
	ranges, err := r.Partitions(ctx)
	if err != nil {
		return err
	}
	if f.partition >= 0 {
		g, ok := ranges[f.partition]
		if !ok {
			return fmt.Errorf("%s has no partition %d; it has %d, from 0 on", c.Topic, f.partition, len(ranges))
		}
		ranges = map[int32]kafka.Range{f.partition: g}
	}
	next, err := begin.offsets(ctx, r, c.Topic, ranges)
	if err != nil {
		return err
	}
	t := &tail{f: f, next: next, ranges: ranges, out: stdout}
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := t.read(ctx, r)
		if !f.follow || !errors.Is(err, kafka.ErrUnreachable) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		fmt.Fprintf(stderr, "%s; trying again\n", printable(err.Error()))
	}))
	if ctx.Err() != nil { // interrupted: the person has seen enough
		return nil
	}
	return err
}

// tail is one command under way.
type tail struct {
	f      *tailFlags
	next   map[int32]int64
	ranges map[int32]kafka.Range // as they were at the start
	shown  int
	out    io.Writer
}

// read prints until everything wanted was printed.
func (t *tail) read(ctx context.Context, r *kafka.Reader) error {
	if t.ended() {
		return nil
	}
	for batch, err := range r.Read(ctx, maps.Clone(t.next)) {
		if err != nil {
			return err
		}
		for i := range batch {
			rec := &batch[i]
			t.next[rec.Partition] = rec.Offset + 1
			if !t.f.follow && rec.Offset >= t.ranges[rec.Partition].End {
				continue // it came after we began
			}
			if !t.f.wants(rec) {
				continue
			}
			if err := t.f.print(t.out, rec); err != nil {
				return err
			}
			if t.shown++; t.f.max > 0 && t.shown >= t.f.max {
				return nil
			}
		}
		if t.ended() {
			return nil
		}
	}
	return nil
}

// ended reports whether all that was there at the start was read.
func (t *tail) ended() bool {
	if t.f.follow {
		return false
	}
	for p, g := range t.ranges {
		if t.next[p] < g.End {
			return false
		}
	}
	return true
}

// begin is where reading begins: new records only, unless told otherwise.
type begin struct {
	start  bool
	at     time.Time
	offset int64 // -1: none is given
}

func parseBegin(s string, now time.Time) (begin, error) {
	switch s {
	case "":
		return begin{offset: -1}, nil
	case "beginning":
		return begin{start: true, offset: -1}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return begin{offset: n}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return begin{at: now.Add(-d), offset: -1}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return begin{at: at, offset: -1}, nil
		}
	}
	return begin{}, fmt.Errorf("--from %q is neither beginning, nor a time such as 2026-11-15T08:00:00Z or 1h (ago), nor an offset", s)
}

func (b begin) offsets(ctx context.Context, r *kafka.Reader, topic string, ranges map[int32]kafka.Range) (map[int32]int64, error) {
	next := map[int32]int64{}
	var at map[int32]int64
	switch {
	case b.offset >= 0 && len(ranges) > 1:
		return nil, fmt.Errorf("--from %d is an offset, and the topic has %d partitions: say which by --partition", b.offset, len(ranges))
	case !b.at.IsZero():
		var err error
		if at, err = r.At(ctx, b.at); err != nil {
			return nil, err
		}
	}
	for p, g := range ranges {
		switch {
		case b.offset > g.End:
			// Without --follow nothing would be read, and so nothing be said.
			return nil, &kafka.OffsetError{Kind: kafka.ErrTruncated, Want: ledger.Position{Topic: topic, Partition: p, Offset: b.offset}, Range: g}
		case b.offset >= 0:
			next[p] = b.offset
		case b.start:
			next[p] = g.Start
		case at != nil:
			next[p] = at[p]
		default:
			next[p] = g.End
		}
	}
	return next, nil
}
