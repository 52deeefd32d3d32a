package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
)

// Errors of a position. Neither is got over by reading elsewhere: records are
// missing, and a person must know.
var (
	// ErrTruncated: the wanted offset lies beyond the end. The topic was made anew
	// under its old name, or its brokers lost records that they had acknowledged.
	ErrTruncated = errors.New("the topic is shorter than it was")
	// ErrDeleted: records were removed before they were read.
	ErrDeleted = errors.New("records were deleted before they were read")
)

// OffsetError says which records are missing. It is ErrTruncated or ErrDeleted.
type OffsetError struct {
	Kind  error
	Want  ledger.Position // that was to be read
	Range Range           // that is there
}

func (e *OffsetError) Error() string {
	what := fmt.Sprintf("%v: %s, partition %d: offset %d was to be read, and %d to %d are there",
		e.Kind, e.Want.Topic, e.Want.Partition, e.Want.Offset, e.Range.Start, e.Range.End-1)
	if e.Range.Start >= e.Range.End {
		what = fmt.Sprintf("%v: %s, partition %d: offset %d was to be read, and the partition is empty; the next is %d",
			e.Kind, e.Want.Topic, e.Want.Partition, e.Want.Offset, e.Range.End)
	}
	if errors.Is(e.Kind, ErrTruncated) {
		return what + "; was the topic made anew, or restored from a backup? Records are not taken from another place by themselves"
	}
	return what + "; what is missing must come from the nodes or from a backup; look at the topic's settings with `assay ledger topics`"
}

func (e *OffsetError) Unwrap() error { return e.Kind }

// Range is what a partition holds: offsets from Start up to, and without, End.
type Range struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// Batches: how much is given at once, and how long silence may last before
// somebody asks whether the brokers are still there.
const (
	readRecords = 4096
	readSilence = 5 * time.Second
)

// Reader reads the topic's partitions from offsets that its caller remembers.
// There is no consumer group: nobody else decides where reading begins.
type Reader struct{ conn *Conn }

// NewReader makes a reader. It does not connect.
func NewReader(c Config) (*Reader, error) {
	conn, err := open(c)
	if err != nil {
		return nil, err
	}
	return &Reader{conn}, nil
}

// Close ends the connection.
func (r *Reader) Close() error {
	r.conn.Close()
	return nil
}

// Partitions says what each partition holds now. A topic can get more partitions
// while it is read: ask again from time to time.
func (r *Reader) Partitions(ctx context.Context) (map[int32]Range, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.conn.conf.requestTimeout())
	defer cancel()
	out := map[int32]Range{}
	for _, list := range []struct {
		ask func(context.Context, ...string) (kadm.ListedOffsets, error)
		put func(*Range, int64)
	}{
		{r.conn.admin.ListStartOffsets, func(g *Range, o int64) { g.Start = o }},
		{r.conn.admin.ListEndOffsets, func(g *Range, o int64) { g.End = o }},
	} {
		offsets, err := r.offsets(ctx, list.ask)
		if err != nil {
			return nil, err
		}
		for p, o := range offsets {
			g := out[p]
			list.put(&g, o)
			out[p] = g
		}
	}
	return out, nil
}

// At says for each partition the offset of its first record that was appended at
// a time or later; its end, when there is none.
func (r *Reader) At(ctx context.Context, t time.Time) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.conn.conf.requestTimeout())
	defer cancel()
	return r.offsets(ctx, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return r.conn.admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topics...)
	})
}

func (r *Reader) offsets(ctx context.Context, ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
	topic := r.conn.conf.topic()
	doing := "list the offsets of " + topic
	listed, err := ask(ctx, topic)
	if err != nil {
		return nil, explain(r.conn.conf, doing, err)
	}
	out := map[int32]int64{}
	for _, o := range listed[topic] {
		if o.Err != nil {
			return nil, explain(r.conn.conf, doing, o.Err)
		}
		out[o.Partition] = o.Offset
	}
	if len(out) == 0 {
		return nil, explain(r.conn.conf, doing, kerr.UnknownTopicOrPartition)
	}
	return out, nil
}

// Read gives every record as it comes, from the given offset of each partition on
// and in order within it, without leaving one out, and waits for more at the end. Each error ends it: an
// OffsetError for good, ErrUnreachable until the brokers are back, when a new Read
// goes on from behind the last record that was taken. A batch belongs to the
// caller.
func (r *Reader) Read(ctx context.Context, from map[int32]int64) iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {
		if err := r.read(ctx, maps.Clone(from), yield); err != nil {
			yield(nil, err)
		}
	}
}

// read returns nil when its caller has had enough.
func (r *Reader) read(ctx context.Context, next map[int32]int64, yield func([]Record, error) bool) error {
	conf := r.conn.conf
	if len(next) == 0 {
		return errors.New("read: no partition is named")
	}
	if err := r.check(ctx, next); err != nil {
		return err
	}
	opts, err := conf.options()
	if err != nil {
		return err
	}
	start := map[int32]kgo.Offset{}
	for p, o := range next {
		start[p] = kgo.NoResetOffset().At(o)
	}
	cl, err := kgo.NewClient(append(opts,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{conf.topic(): start}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// An offset that does not come is then one that is not there.
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(16<<20),
		kgo.FetchMaxPartitionBytes(4<<20),
		kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	defer cl.CloseAllowingRebalance()
	for {
		poll, cancel := context.WithTimeout(ctx, readSilence)
		fetches := cl.PollRecords(poll, readRecords)
		cancel()
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		batch, missing := take(fetches, next)
		if len(batch) > 0 && !yield(batch, nil) {
			return nil
		}
		if missing != nil {
			return missing
		}
		if err := r.failure(ctx, fetches, next); err != nil {
			return err
		}
		if len(batch) == 0 {
			// The client tries in silence for ever; we do not.
			if err := r.check(ctx, next); err != nil {
				return err
			}
		}
	}
}

// take decodes what came and moves next on. Records of one partition come in
// order; an offset that was left out is a record that is gone.
func take(fetches kgo.Fetches, next map[int32]int64) ([]Record, error) {
	n := fetches.NumRecords()
	if n == 0 {
		return nil, nil
	}
	batch := make([]Record, 0, n)
	for it := fetches.RecordIter(); !it.Done(); {
		in := it.Next()
		want, ours := next[in.Partition]
		if !ours || in.Offset < want {
			continue // a broker gives whole batches, from before what was asked for
		}
		if in.Offset > want {
			return batch, &OffsetError{ErrDeleted, ledger.Position{Topic: in.Topic, Partition: in.Partition, Offset: want}, Range{in.Offset, in.Offset + 1}}
		}
		next[in.Partition] = in.Offset + 1
		batch = append(batch, decode(in))
	}
	return batch, nil
}

// failure is what the client gave up on.
func (r *Reader) failure(ctx context.Context, fetches kgo.Fetches, next map[int32]int64) error {
	for _, f := range fetches.Errors() {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.Is(f.Err, context.DeadlineExceeded):
			continue // our own wait
		case errors.As(f.Err, &loss):
			return &OffsetError{ErrTruncated, ledger.Position{Topic: f.Topic, Partition: f.Partition, Offset: loss.ConsumedTo}, Range{0, loss.ResetTo}}
		case errors.Is(f.Err, kerr.OffsetOutOfRange):
			if err := r.check(ctx, next); err != nil {
				return err
			}
			// It was out of range a moment ago: the topic grew past it since, so
			// what lies there now is not what would have been there.
			return &OffsetError{ErrTruncated, ledger.Position{Topic: f.Topic, Partition: f.Partition, Offset: next[f.Partition]}, Range{}}
		case errors.Is(f.Err, kerr.UnknownTopicID), errors.Is(f.Err, kerr.InconsistentTopicID):
			return fmt.Errorf("%w: %s was deleted, or made anew under its name, while it was read: %w", ErrTruncated, r.conn.conf.topic(), f.Err)
		default:
			return explain(r.conn.conf, fmt.Sprintf("read partition %d of %s", f.Partition, r.conn.conf.topic()), f.Err)
		}
	}
	return nil
}

// check holds offsets against what the partitions have.
func (r *Reader) check(ctx context.Context, next map[int32]int64) error {
	have, err := r.Partitions(ctx)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(next)) {
		g, ok := have[p]
		want := ledger.Position{Topic: r.conn.conf.topic(), Partition: p, Offset: next[p]}
		switch {
		case !ok && want.Offset == 0:
			return fmt.Errorf("%w: %s has no partition %d", ErrNoTopic, want.Topic, p)
		case !ok || want.Offset > g.End:
			return &OffsetError{ErrTruncated, want, g}
		case want.Offset < g.Start:
			return &OffsetError{ErrDeleted, want, g}
		}
	}
	return nil
}
