package kafka

import (
	"context"
	"errors"

	"github.com/assay-bench/assay/ledger"
)

// lookupBytes bounds what a Lookup keeps of records that it read on the way.
const lookupBytes = 128 << 20

// Lookup finds records by their positions. It is made for somebody who asks for
// them in about the order in which they were read once, such as a log's: what was
// fetched on the way to one is kept for the next.
type Lookup struct {
	reader *Reader
	ranges map[int32]Range
	seen   map[ledger.Position][]byte
	bytes  int
}

// NewLookup makes one for a reader, which it does not close.
func NewLookup(r *Reader) *Lookup { return &Lookup{reader: r} }

// Values gives the values at positions, in their order; nil where the topic has no
// record any more, or never had.
func (l *Lookup) Values(ctx context.Context, at []ledger.Position) ([][]byte, error) {
	if l.ranges == nil {
		var err error
		if l.ranges, err = l.reader.Partitions(ctx); err != nil {
			return nil, err
		}
	}
	if l.bytes > lookupBytes {
		l.seen, l.bytes = nil, 0
	}
	if l.seen == nil {
		l.seen = map[ledger.Position][]byte{}
	}
	if err := l.fetch(ctx, at); err != nil {
		return nil, err
	}
	out := make([][]byte, len(at))
	for i, p := range at {
		out[i] = l.seen[p]
	}
	for _, p := range at { // after all: the same may be asked for twice
		l.bytes -= len(l.seen[p])
		delete(l.seen, p)
	}
	return out, nil
}

// fetch reads on until it has seen, or come past, every position that is there.
func (l *Lookup) fetch(ctx context.Context, at []ledger.Position) error {
	from, upTo := map[int32]int64{}, map[int32]int64{}
	for _, p := range at {
		r, ok := l.ranges[p.Partition]
		if _, known := l.seen[p]; known || !ok || p.Topic != l.reader.conn.conf.topic() || p.Offset < r.Start || p.Offset >= r.End {
			continue
		}
		if first, ok := from[p.Partition]; !ok || p.Offset < first {
			from[p.Partition] = p.Offset
		}
		upTo[p.Partition] = max(upTo[p.Partition], p.Offset)
	}
	if len(from) == 0 {
		return nil
	}
	for batch, err := range l.reader.Read(ctx, from) {
		if errors.Is(err, ErrDeleted) {
			l.ranges = nil // records went away meanwhile: look again the next time
			return nil
		} else if err != nil {
			return err
		}
		for _, r := range batch {
			if last, wanted := upTo[r.Partition]; wanted && r.Offset >= last {
				delete(upTo, r.Partition)
			}
			if _, twice := l.seen[r.Position]; !twice {
				l.seen[r.Position] = r.Value
				l.bytes += len(r.Value)
			}
		}
		if len(upTo) == 0 {
			return nil
		}
	}
	return nil
}
