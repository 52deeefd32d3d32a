package notary

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/assay-bench/assay/internal/parallel"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

// start is what the log said when the notary was opened. It does not change
// until Run, and nothing in it but old changes then.
type start struct {
	places *places                // offsets in the log at or above handled
	before map[int32]int64        // everything below was done before
	anchor map[int32]ledger.Entry // each partition's last entry
	old    map[int32]int64        // up to here older ids are looked at too
	empty  bool                   // a log without entries and without a past
}

// known reports whether a record was dealt with before this start.
func (n *Notary) known(partition int32, offset int64) bool {
	return offset < n.start.before[partition] || n.start.places.has(partition, offset)
}

// recover finds out from the log how far it is.
func (n *Notary) recover(ctx context.Context) error {
	size, err := n.reader.IntegratedSize(ctx)
	if err != nil {
		return fmt.Errorf("read the log's size: %w", err)
	}
	if _, seen, err := published(n.checkpointPath()); err != nil {
		return fmt.Errorf("look at the checkpoint of the log: %w", err)
	} else if seen > size {
		return fmt.Errorf("%w: it has %d entries, its checkpoint %d; an old copy of log/.state was put back? `assay ledger restore` makes the log whole", ErrRolledBack, size, seen)
	}
	if err := n.sweep(size); err != nil {
		return err
	}
	hint, err := n.hint(ctx, size)
	if err != nil {
		if !errors.Is(err, errHint) && !errors.Is(err, errNoHint) {
			return err
		}
		if size > 0 {
			n.o.Log.Warn("positions.json does not serve; the whole log is read", "error", err, "entries", size)
		}
		hint = positions{}
	}
	return n.readBack(ctx, hint, size)
}

// hint reads positions.json and holds it against the log.
func (n *Notary) hint(ctx context.Context, size uint64) (positions, error) {
	p, err := readPositions(n.o.Dir)
	if err != nil {
		return p, err
	}
	no := func(format string, args ...any) (positions, error) {
		return positions{}, fmt.Errorf("%w: %w", errHint, fmt.Errorf(format, args...))
	}
	switch {
	case p.Topic != n.o.Topic:
		return no("it is about the topic %.80q, not %q", p.Topic, n.o.Topic)
	case p.Origin != n.o.Signer.Name():
		return no("it is about the log %.80q, not %q", p.Origin, n.o.Signer.Name())
	case p.Size > size:
		return no("it is about %d entries, and the log has %d", p.Size, size)
	}
	if p.Size > 0 {
		leaf, err := entryAt(ctx, n.reader, p.Size-1, size)
		if err != nil {
			return p, err
		}
		if hexOf(rfc6962.DefaultHasher.HashLeaf(leaf)) != p.LastLeaf {
			return no("entry %d is another one", p.Size-1)
		}
	}
	for partition, index := range p.Last {
		if index >= p.Size {
			return no("partition %d is said to end at entry %d", partition, index)
		}
		leaf, err := entryAt(ctx, n.reader, index, size)
		if err != nil {
			return p, err
		}
		if e, err := ledger.ParseEntry(leaf); err != nil || e.Partition != partition || e.Offset >= p.Next[partition] {
			return no("entry %d is not the last of partition %d", index, partition)
		}
	}
	for partition, next := range p.Next {
		if next < 0 || partition < 0 {
			return no("partition %d is said to be read up to %d", partition, next)
		}
	}
	return p, nil
}

// readBack reads what the log holds beyond the hint, and makes ids and keys whole.
func (n *Notary) readBack(ctx context.Context, hint positions, size uint64) error {
	n.start = start{places: newPlaces(), before: map[int32]int64{}, anchor: map[int32]ledger.Entry{}, old: map[int32]int64{}}
	n.last = map[int32]uint64{}
	maps.Copy(n.start.before, hint.Next)
	maps.Copy(n.last, hint.Last)
	n.looks.take(hint.Looked)

	from := hint.Size
	want, err := hex.DecodeString(hint.IDs)
	if err != nil {
		want = nil // does not fit
	}
	if hint.Size > 0 {
		ok, err := n.ids.load(hint.Size, want)
		if err != nil {
			return err
		}
		if !ok {
			n.o.Log.Warn("ids does not fit the log; it is made again from the log")
			from = 0
		}
	}
	if err := n.keysOf(ctx, hint.Keys, size); errors.Is(err, errHint) {
		n.o.Log.Warn("positions.json does not serve; the whole log is read", "error", err, "entries", size)
		n.ids.clear(n.o.Window)
		return n.readBack(ctx, positions{}, size)
	} else if err != nil {
		return err
	}
	n.keys = slices.Clone(hint.Keys)
	if err := entriesOf(ctx, n.reader, from, size, func(first uint64, entries [][]byte) error {
		return n.readBundle(ctx, hint.Size, first, entries)
	}); err != nil {
		return err
	}
	if err := n.ids.cut(); err != nil {
		return err
	}
	n.size = size
	if size > 0 {
		leaf, err := entryAt(ctx, n.reader, size-1, size)
		if err != nil {
			return err
		}
		n.leaf = rfc6962.DefaultHasher.HashLeaf(leaf)
	}
	for partition, index := range n.last {
		leaf, err := entryAt(ctx, n.reader, index, size)
		if err != nil {
			return err
		}
		if n.start.anchor[partition], err = ledger.ParseEntry(leaf); err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
	}
	if hint.Format == "" {
		n.start.empty = size == 0
		maps.Copy(n.start.old, n.start.places.end)
		if err := n.ids.all(); err != nil {
			return err
		}
	}
	n.handled = maps.Clone(n.start.before)
	n.m.sized(size, n.o.Now())
	return nil
}

// readBundle takes entries of one bundle. Those below known are only there for
// their ids.
func (n *Notary) readBundle(ctx context.Context, known, first uint64, entries [][]byte) error {
	es := make([]ledger.Entry, len(entries))
	keyish := make([]bool, len(entries))
	batch := make([]tlog.Mark, len(entries))
	var mu sync.Mutex
	var bad error
	parallel.Do(ctx, len(entries), func(i int) {
		var err error
		if es[i], err = ledger.ParseEntry(entries[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			bad = fmt.Errorf("%w: entry %d: %w", ErrOtherLog, first+uint64(i), err)
			return
		}
		batch[i] = tlog.MarkOf(es[i].ID, es[i].Envelope)
		keyish[i] = first+uint64(i) >= known && ledger.IsAboutKey(es[i].Envelope)
	})
	if err := errors.Join(bad, ctx.Err()); err != nil {
		return err
	}
	for i, e := range es {
		index := first + uint64(i)
		if index < known {
			continue
		}
		if e.Topic != n.o.Topic || e.Partition < 0 || e.Offset < 0 {
			return fmt.Errorf("%w: entry %d is of the topic %.80q, not %q", ErrOtherLog, index, e.Topic, n.o.Topic)
		}
		if !n.start.places.add(e.Partition, e.Offset) {
			n.o.Log.Error("an entry is from a position as an earlier one is; see `assay ledger fsck`", "entry", index, "partition", e.Partition, "offset", e.Offset)
		}
		if keep, ok := n.last[e.Partition]; !ok || index > keep {
			n.last[e.Partition] = index
		}
		if keyish[i] {
			n.keys = append(n.keys, index)
			n.addLogged(index, e)
		}
	}
	return n.ids.add(batch)
}

// keysOf gives the statements about keys in the log back to the keyring.
func (n *Notary) keysOf(ctx context.Context, indices []uint64, size uint64) error {
	for _, index := range indices {
		if index >= size {
			return fmt.Errorf("%w: a key is said to be at entry %d", errHint, index)
		}
		leaf, err := entryAt(ctx, n.reader, index, size)
		if err != nil {
			return err
		}
		e, err := ledger.ParseEntry(leaf)
		if err != nil || !ledger.IsAboutKey(e.Envelope) {
			return fmt.Errorf("%w: entry %d is not about a key", errHint, index)
		}
		n.addLogged(index, e)
	}
	return nil
}

// addLogged gives the keyring what was good when it was logged. Whom this notary
// trusts may have changed since; then it is said, and the key does not count.
func (n *Notary) addLogged(index uint64, e ledger.Entry) {
	if err := n.o.Keys.Add(e.Envelope, e.Time); err != nil {
		n.o.Log.Warn("a statement about a key does not count any more", "entry", index, "error", err)
	}
}

// begin holds the partitions against the log and says from where to read each.
func (n *Notary) begin(ranges map[int32]Range) (map[int32]int64, error) {
	read := n.o.Partitions
	if read == nil {
		read = slices.Collect(maps.Keys(ranges))
		for p := range n.last {
			if _, ok := ranges[p]; !ok {
				read = append(read, p) // gone: said below
			}
		}
	}
	slices.Sort(read)
	from := make(map[int32]int64, len(read))
	for _, p := range slices.Compact(read) {
		r, ok := ranges[p]
		if !ok {
			return nil, fmt.Errorf("%w: topic %s has no partition %d", ErrTruncated, n.o.Topic, p)
		}
		next := n.start.before[p]
		seen := max(next, n.start.places.end[p])
		if r.End < seen {
			return nil, fmt.Errorf("%w: partition %d of %s ends at %d and was read up to %d: records were taken away, or the topic was made anew. Give it back as it was, or begin a new log with another --dir and --origin", ErrTruncated, p, n.o.Topic, r.End, seen)
		}
		if n.start.empty {
			if next = r.Start; next > 0 {
				n.o.Log.Warn("what was before the partition's beginning is not in this log", "partition", p, "begins", next)
			}
			n.start.before[p], n.handled[p] = next, next
		}
		if r.Start > next {
			return nil, fmt.Errorf("%w: partition %d of %s begins at %d and was read up to %d. Look for what lay between elsewhere, and begin a new log with another --dir and --origin", ErrDeleted, p, n.o.Topic, r.Start, next)
		}
		from[p] = next
		// The last record that was logged is read once more, when it is near: it shows
		// that this is the topic that it was.
		if e, ok := n.start.anchor[p]; ok && e.Offset < next && e.Offset >= r.Start && next-e.Offset <= maxAnchor {
			from[p] = e.Offset
		} else if ok && e.Offset < next {
			delete(n.start.anchor, p)
		}
		if _, ok := n.handled[p]; !ok {
			n.handled[p] = next
		}
	}
	return from, nil
}

// maxAnchor is how many records are read again for the sake of the last one.
const maxAnchor = 100_000

// inOrder checks what the feed gave, and that it is the topic that was logged.
func (n *Notary) inOrder(ctx context.Context, batch []Incoming) ([]checked, error) {
	for i := range batch {
		in := &batch[i]
		if in.Topic != n.o.Topic || in.Offset < 0 || in.Partition < 0 {
			return nil, fmt.Errorf("the feed gave record %s/%d/%d, which was not asked for", in.Topic, in.Partition, in.Offset)
		}
		a, ok := n.start.anchor[in.Partition]
		if !ok || in.Offset < a.Offset {
			continue
		}
		if in.Offset > a.Offset || !sameRecord(a, in) {
			return nil, fmt.Errorf("%w: %s/%d/%d was logged with the id %s. The topic was made anew or rewritten; begin a new log with another --dir and --origin", ErrRewritten, a.Topic, a.Partition, a.Offset, a.ID)
		}
		delete(n.start.anchor, in.Partition)
	}
	out := n.check(ctx, batch)
	return out, ctx.Err()
}

func sameRecord(e ledger.Entry, in *Incoming) bool {
	return in.Err == nil && in.Record.ID == e.ID && in.Time.UnixMilli() == e.Time.UnixMilli() && bytes.Equal(in.Record.Value, e.Envelope)
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }
