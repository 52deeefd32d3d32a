package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	command "github.com/assay-bench/assay/cmd/internal/ledger"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/notary"
)

type notaryFlags struct {
	brokers.Flags
	key                 keys.SignerFlags
	listen              cli.Listener
	dir, origin, policy string
	trust               []string
	partitions          []int32
	batchSize           int
	batchAge            time.Duration
	checkpoints         time.Duration
	clocks              time.Duration
}

func newLedgerNotary() *cobra.Command {
	var f notaryFlags
	cmd := &cobra.Command{
		Use:   "notary",
		Short: "Log the signed records of a topic, each once, and serve the log",
		Long: `Notary reads the topic's partitions, checks each signed record (its spelling, its
signature, whether the key was good when the broker took it, and its shape) and
appends those that are in order to a Merkle log, each exactly once. Records that
are not in order are named in refused.jsonl with their reason. The log is served
as C2SP tlog-tiles; checkpoints are cosigned by the witnesses of --policy before
they are published.

It may be stopped or killed at any time: the log itself says what is in it. One
notary works in a directory at a time. Back up log/; the rest can be made again.

Exit codes: 0 stopped by a signal; 1 used wrongly; 2 Kafka or the disk did not do
its part, and it can be started again; 3 records were taken away or rewritten, or
the log was put back: see to it before anything else.`,
		Example: `  assay ledger keygen log --kind log --name log.example.org/gpu
  assay ledger notary --kafka localhost:9092 --dir notary --key log.key --origin log.example.org/gpu --trust authority.pub
  assay ledger notary --kafka-config kafka.yaml --dir notary --key log.key --origin log.example.org/gpu --trust authority.pub --policy policy.txt --listen :8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return notaryOutcome(f.run(cmd.Context(), keys.ProcessSecrets()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.Register(fs)
	fs.StringVar(&f.dir, "dir", "", "the notary's `directory`: the log, and how far it is (needed)")
	fs.StringVar(&f.origin, "origin", "", "the log's `name`, as its key was made with (needed)")
	f.key.Register(fs, "key")
	fs.StringArrayVar(&f.trust, "trust", nil, "`file` with statements about keys that are trusted: authorities, or single nodes; may be given several times (needed)")
	fs.StringVar(&f.policy, "policy", "", "`file` that names the witnesses whose cosignatures a checkpoint needs")
	fs.Int32SliceVar(&f.partitions, "partitions", nil, "read these partitions only")
	fs.IntVar(&f.batchSize, "batch-size", 1024, "entries that are written at once, at most")
	fs.DurationVar(&f.batchAge, "batch-age", 100*time.Millisecond, "how long a record waits for others")
	fs.DurationVar(&f.checkpoints, "checkpoint-interval", 5*time.Second, "time between checkpoints of a growing log")
	fs.DurationVar(&f.clocks, "max-clock-difference", 10*time.Minute, "how far the broker's clock and this one may differ before a record is refused")
	f.listen.Register(fs, "127.0.0.1:8080", "answer on this ")
	return cmd
}

// notaryOutcome gives an error its exit code.
func notaryOutcome(err error) error {
	for _, bad := range []error{notary.ErrTruncated, notary.ErrDeleted, notary.ErrRewritten, notary.ErrRolledBack} {
		if errors.Is(err, bad) {
			return cli.Failed(err)
		}
	}
	if errors.Is(err, notary.ErrWrite) || errors.Is(err, notary.ErrLocked) {
		return cli.Unknown(err)
	}
	return brokers.Outcome(err)
}

func (f *notaryFlags) run(ctx context.Context, s keys.Secrets) error {
	switch {
	case f.dir == "":
		return errors.New("--dir: name the directory of the log")
	case f.origin == "" || f.key.Key == "":
		return errors.New("--origin and --key: say which log this is; `assay ledger keygen FILE --kind log --name ORIGIN` makes a key")
	case len(f.trust) == 0:
		return errors.New("--trust: name the statements about keys that are trusted, NAME.pub of an authority; without one every record would be refused")
	case f.batchSize < 1 || f.batchAge <= 0 || f.clocks <= 0 || f.checkpoints < 100*time.Millisecond:
		return errors.New("--batch-size, --batch-age and --max-clock-difference are positive, --checkpoint-interval is at least 100ms")
	}
	if err := f.listen.Check(); err != nil {
		return err // before anybody is asked for a passphrase
	}
	keys, trustedPolicy, err := command.Trusted(f.trust)
	if err != nil {
		return err
	}
	if trustedPolicy != nil {
		return errors.New("--trust takes statements about keys here; a policy is for --policy")
	}
	var policy []byte
	if f.policy != "" {
		if policy, err = os.ReadFile(f.policy); err != nil {
			return fmt.Errorf("read --policy: %w", err)
		}
		if _, err := ledger.ParsePolicy(policy); err != nil {
			return fmt.Errorf("--policy %s: %w", f.policy, err)
		}
	}
	conf, err := f.Config()
	if err != nil {
		return err
	}
	key, err := f.key.OpenNote(ctx, s)
	if err != nil {
		return err
	}
	// The last checkpoint is signed after the context has ended.
	signer, err := ledger.NoteSigner(context.WithoutCancel(ctx), f.origin, key)
	if err != nil {
		return err
	}
	log := cli.Log(ctx)
	routeTessera(log)
	reader, err := kafka.NewReader(conf)
	if err != nil {
		return err
	}
	defer reader.Close()
	return f.serve(ctx, &kafkaFeed{reader: reader, log: log}, notary.Options{
		Dir: f.dir, Topic: conf.Topic, Partitions: f.partitions, Keys: keys, Signer: signer, Policy: policy,
		BatchSize: f.batchSize, BatchAge: f.batchAge, CheckpointInterval: f.checkpoints, MaxClockDifference: f.clocks, Now: s.Now, Log: log,
	})
}

// serve notarises and answers until ctx ends or one of the two fails; then both
// end, the notary last.
func (f *notaryFlags) serve(ctx context.Context, feed notary.Feed, o notary.Options) (err error) {
	n, err := notary.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := n.Close(context.WithoutCancel(ctx)); cerr != nil {
			o.Log.Warn("the notary did not close in order", "error", cerr) // nothing is lost by it: not the command's error
		}
	}()
	ln, err := f.listen.Open(ctx)
	if err != nil {
		return err
	}
	o.Log.Info("the log is served", "log", o.Signer.Name(), "url", ln.URL)
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- ln.Serve(both, n.Handler())
	}()
	err = n.Run(both, feed)
	cancel()
	return errors.Join(err, <-served)
}

// routeTessera makes what Tessera has to say lines of our log, all of which have
// its name; its every step counts as debugging. It speaks by klog, which is one for
// the whole process, which this command is. Two warnings of files that it could not
// remove go by slog's default. That stays what it is, a writer of package log's
// lines; those go where ours go.
func routeTessera(log *slog.Logger) {
	klog.SetLoggerWithOptions(logr.Discard(), klog.WriteKlogBuffer(func(line []byte) {
		level, words := klogWords(line)
		log.Log(context.Background(), level, words, "from", "tessera")
	}))
	stdlog.SetFlags(0)
	stdlog.SetOutput(defaultLines{log})
}

// defaultLines are lines of package log, and of slog's default, which writes there.
type defaultLines struct{ log *slog.Logger }

func (d defaultLines) Write(line []byte) (int, error) {
	level, words := defaultWords(line)
	d.log.Log(context.Background(), level, words, "from", "default log")
	return len(line), nil
}

// defaultWords takes the level off a line of slog's default. A line of package log
// has none: its only users are libraries that have nowhere else to complain.
func defaultWords(line []byte) (level slog.Level, words string) {
	words = string(bytes.TrimSpace(line))
	head, rest, ok := strings.Cut(words, " ")
	if !ok || level.UnmarshalText([]byte(head)) != nil {
		return slog.LevelWarn, words
	}
	return level, rest
}

// klogWords takes the head off a line, which says severity, time and source.
func klogWords(line []byte) (slog.Level, string) {
	level := slog.LevelDebug
	if len(line) > 0 {
		switch line[0] {
		case 'W':
			level = slog.LevelWarn
		case 'E', 'F':
			level = slog.LevelError
		}
	}
	if _, words, ok := bytes.Cut(line, []byte("] ")); ok {
		line = words
	}
	return level, string(bytes.TrimSpace(line))
}

// kafkaFeed is the topic as the notary reads it. Brokers that are away are waited
// for: what is read next is known, so nothing is lost by that.
type kafkaFeed struct {
	reader *kafka.Reader
	log    *slog.Logger
	asked  atomic.Bool
}

// Partitions waits for Kafka the first time, as a service does that may be started
// before it; later answers must be true at once.
func (k *kafkaFeed) Partitions(ctx context.Context) (map[int32]notary.Range, error) {
	tries, away := uint(1), false
	if !k.asked.Swap(true) {
		tries = 0 // for ever
	}
	ranges, err := backoff.Retry(ctx, func() (map[int32]kafka.Range, error) {
		ranges, err := k.reader.Partitions(ctx)
		if !errors.Is(err, kafka.ErrUnreachable) {
			err = backoff.Permanent(err)
		}
		return ranges, err
	}, backoff.WithBackOff(kafkaWaits()), backoff.WithMaxElapsedTime(0), backoff.WithMaxTries(tries), backoff.WithNotify(func(err error, _ time.Duration) {
		if !away {
			k.log.Warn("Kafka is away, and is tried again", "error", err)
		}
		away = true
	}))
	if away && err == nil {
		k.log.Info("Kafka answers")
	}
	if err != nil {
		return nil, err
	}
	out := make(map[int32]notary.Range, len(ranges))
	for p, r := range ranges {
		out[p] = notary.Range(r)
	}
	return out, nil
}

// kafkaWaits are between attempts to reach Kafka.
func kafkaWaits() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, RandomizationFactor: 0.2, MaxInterval: 30 * time.Second}
}

func (k *kafkaFeed) Read(ctx context.Context, from map[int32]int64, deliver func([]notary.Incoming) error) error {
	next := make(map[int32]int64, len(from))
	for p, o := range from {
		next[p] = o
	}
	away, waits := false, kafkaWaits()
	for {
		for records, err := range k.reader.Read(ctx, next) {
			if err != nil {
				if !errors.Is(err, kafka.ErrUnreachable) {
					return feedError(err)
				}
				if !away {
					k.log.Warn("Kafka is away, and is tried again", "error", err)
				}
				away = true
				break
			}
			if away {
				k.log.Info("Kafka is back")
				away = false
				waits.Reset()
			}
			if err := deliver(incoming(records)); err != nil {
				return err
			}
			for _, r := range records {
				next[r.Partition] = r.Offset + 1
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(waits.NextBackOff()):
		}
	}
}

// feedError says in the notary's words what it must know.
func feedError(err error) error {
	switch {
	case errors.Is(err, kafka.ErrTruncated):
		return fmt.Errorf("%w: %w", notary.ErrTruncated, err)
	case errors.Is(err, kafka.ErrDeleted):
		return fmt.Errorf("%w: %w", notary.ErrDeleted, err)
	}
	return err
}

func incoming(records []kafka.Record) []notary.Incoming {
	out := make([]notary.Incoming, len(records))
	for i, r := range records {
		out[i] = notary.Incoming{Position: r.Position, Time: r.Time, Record: r.Record, Err: r.Refused}
		if r.ByProducer {
			out[i].Time = time.Time{} // its producer's word is no time of the broker
		}
	}
	return out
}
