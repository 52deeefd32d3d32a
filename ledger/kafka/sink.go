package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
)

// batchBytes bounds a batch of the producer, before compression. It is the
// client's default, below the broker's.
const batchBytes = 1_000_012

// Sink delivers records to the topic. It is what an outbox delivers to.
type Sink struct {
	conf Config
	cl   *kgo.Client
	// The headers' words: read by many at once, written by nobody.
	words map[ledger.Kind][2][]byte
}

// NewSink makes a sink. It does not connect: a node whose broker is away starts,
// and its outbox keeps what it says.
func NewSink(c Config) (*Sink, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	opts = append(opts, producerOptions(c)...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s := &Sink{conf: c, cl: cl, words: map[ledger.Kind][2][]byte{}}
	for _, k := range []ledger.Kind{ledger.KindEnvelope, ledger.KindEvent} {
		s.words[k] = [2][]byte{[]byte(k), []byte(contentType(k))}
	}
	return s, nil
}

// producerOptions are what makes a client a producer that loses nothing.
func producerOptions(c Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), // and idempotent, which is the client's default
		kgo.ProducerBatchMaxBytes(batchBytes),
		// The topic keeps everything for ever, on three disks. Envelopes of 2.5 KB,
		// base64 for the most part, come to 0.33 of their size by zstd, 0.51 by lz4
		// and 0.54 by snappy. Zstd at its fastest level costs two thirds of the rate
		// that a producer has without any, which is still many times what a network
		// of nodes says.
		kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(1), kgo.NoCompression()),
		kgo.ProduceRequestTimeout(min(c.deliveryTimeout(), 10*time.Second)),
		kgo.RecordDeliveryTimeout(c.deliveryTimeout()),
		// Without this a batch whose answer was lost is tried for ever, and nobody
		// hears of it. With it the batch may be there twice: delivery is at least
		// once, and the record's id tells.
		kgo.AllowIdempotentProduceCancellation(),
		// The outbox sends whole batches: waiting for more only waits.
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(1 << 17),
		kgo.MaxBufferedBytes(256 << 20),
		// By the key alone, also when a partition is away for a moment: the
		// records of a node must not go around it.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
}

// Close ends the connection; deliveries under way fail.
func (s *Sink) Close() error {
	s.cl.Close()
	return nil
}

// Deliver returns outcomes when every in-sync replica has every record; a record
// that no reader of ours would take is refused and not sent. After an error
// none, some or all of them are there, and those of one node are there without a
// gap up to the first that is not. It keeps the order of records of one node,
// within a call and from one call to the next, and ends with ctx or after
// Config.Timeout.
//
// After an error the client may hold the records' values a little longer: they
// must not be altered.
func (s *Sink) Deliver(ctx context.Context, records []ledger.Record) ([]outbox.Outcome, error) {
	outcomes := outbox.AllTaken(len(records))
	good := records
	for i := range records {
		if err := records[i].Check(); err != nil {
			outcomes[i] = outbox.Outcome{State: outbox.Refused, Reason: err.Error()}
			if len(good) == len(records) {
				good = slices.Clone(records[:i])
			}
		} else if len(good) < len(records) {
			good = append(good, records[i])
		}
	}
	if len(good) == 0 {
		return outcomes, nil
	}
	if err := s.deliver(ctx, good); err != nil {
		return nil, err
	}
	return outcomes, nil
}

func (s *Sink) deliver(ctx context.Context, records []ledger.Record) error {
	// What is given up here is given up by the client too, as soon as it can: the
	// records come again, behind these.
	within, cancel := context.WithTimeoutCause(ctx, s.conf.deliveryTimeout(), errSlow)
	defer cancel()
	d := &delivery{all: make(chan struct{})}
	d.left.Store(int64(len(records)))
	// One allocation for many records, not five for each.
	out := make([]kgo.Record, len(records))
	headers := make([]kgo.RecordHeader, 3*len(records))
	ids := make([]byte, ulid.EncodedSize*len(records))
	var node string
	var key []byte
	for i := range records {
		r := &records[i]
		id := ids[ulid.EncodedSize*i:][:ulid.EncodedSize:ulid.EncodedSize]
		if err := r.ID.MarshalTextTo(id); err != nil {
			d.done(nil, err) // the buffer has the right size: this does not happen
			continue
		}
		if key == nil || r.Node != node {
			node, key = r.Node, []byte(r.Node)
		}
		words := s.words[r.Kind]
		h := headers[3*i : 3*i+3 : 3*i+3]
		h[0] = kgo.RecordHeader{Key: headerKind, Value: words[0]}
		h[1] = kgo.RecordHeader{Key: headerID, Value: id}
		h[2] = kgo.RecordHeader{Key: headerType, Value: words[1]}
		out[i] = kgo.Record{Topic: s.conf.topic(), Key: key, Value: r.Value, Headers: h}
		s.cl.Produce(within, &out[i], d.done)
	}
	select {
	case <-d.all:
	case <-within.Done():
		// The client may be waiting for an answer that does not come.
		select {
		case <-d.all:
		case <-time.After(100 * time.Millisecond):
		}
	}
	return s.explain(within, d, len(records))
}

// errSlow ends a delivery that took too long.
var errSlow = errors.New("no answer in time")

// delivery is one call of Deliver under way.
type delivery struct {
	left atomic.Int64
	all  chan struct{} // closed when none is left
	mu   sync.Mutex
	bad  int
	err  error // the first
}

func (d *delivery) done(_ *kgo.Record, err error) {
	if err != nil {
		d.mu.Lock()
		d.bad++
		if d.err == nil {
			d.err = err
		}
		d.mu.Unlock()
	}
	if d.left.Add(-1) == 0 {
		close(d.all)
	}
}

func (s *Sink) explain(ctx context.Context, d *delivery, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := int(d.left.Load())
	if d.err == nil && waiting == 0 {
		return nil
	}
	doing := fmt.Sprintf("deliver to %s: %d of %d records were not acknowledged", s.conf.topic(), d.bad+waiting, n)
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errSlow), errors.Is(d.err, kgo.ErrRecordTimeout), errors.Is(d.err, kgo.ErrRecordRetries):
		return fmt.Errorf("%w: %s within %s; is a broker down, or are too few replicas in sync?", ErrUnreachable, doing, s.conf.deliveryTimeout())
	case cause != nil:
		return fmt.Errorf("%s: %w", doing, cause)
	}
	return explain(s.conf, doing, d.err)
}
