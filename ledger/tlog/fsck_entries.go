package tlog

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/transparency-dev/tessera/api/layout"

	"github.com/assay-bench/assay/internal/parallel"
	"github.com/assay-bench/assay/ledger"
)

// readLeaves looks at what the entries of a chunk say.
func (c *checker) readLeaves(ctx context.Context, k chunk) error {
	parsed := make([]leafEntry, 0, len(k.leaves))
	for i, raw := range k.leaves {
		index := k.index*tileWidth + uint64(i)
		e, err := ledger.ParseEntry(raw)
		if err != nil {
			c.problem(k.bundleFile(), "entry %d: %v", index, err)
			continue
		}
		c.seen.name(NameOf(e.ID, e.Envelope))
		if !c.seen.position(e.Position) {
			c.problem(k.bundleFile(), "entry %d: record %d/%d of %s is in the log a second time", index, e.Partition, e.Offset, e.Topic)
		}
		parsed = append(parsed, leafEntry{e, index, nil})
	}
	if c.o.Keys != nil {
		c.signatures(k, parsed)
	}
	if c.o.Records != nil {
		return c.compareRecords(ctx, k, parsed)
	}
	return nil
}

type leafEntry struct {
	ledger.Entry
	index uint64
	err   error
}

// signatures checks the envelopes of a chunk. Statements about keys count from
// where they are in the log, as they did for the notary; between them the order
// does not matter, and all cores check.
func (c *checker) signatures(k chunk, list []leafEntry) {
	type opened struct {
		envelope  ledger.Envelope
		statement ledger.Statement
		stamp     ledger.Stamp
	}
	open := make([]opened, len(list))
	parallel.Do(context.Background(), len(list), func(i int) {
		o := &open[i]
		if o.envelope, list[i].err = ledger.ReadEnvelope(list[i].Envelope); list[i].err != nil {
			return
		}
		if o.statement, o.stamp, list[i].err = ledger.ParseStatement(o.envelope.Payload); list[i].err != nil {
			return
		}
		if o.stamp.ID != list[i].ID {
			list[i].err = fmt.Errorf("its statement has another id, %s", o.stamp.ID)
		}
	})
	check := func(i int) {
		if e := &list[i]; e.err == nil {
			_, e.err = c.o.Keys.Check(open[i].envelope, open[i].statement, open[i].stamp, e.Time)
		}
	}
	for from := 0; from < len(list); {
		to := from
		for to < len(list) && !open[to].statement.AboutKey() {
			to++
		}
		parallel.Do(context.Background(), to-from, func(i int) { check(from + i) })
		if to < len(list) {
			if list[to].err == nil {
				list[to].err = c.o.Keys.Add(list[to].Envelope, list[to].Time)
			}
			to++
		}
		from = to
	}
	for _, e := range list {
		if e.err != nil {
			c.problem(k.bundleFile(), "entry %d: %v", e.index, e.err)
		}
	}
	c.r.Signatures += uint64(len(list))
}

func (c *checker) compareRecords(ctx context.Context, k chunk, list []leafEntry) error {
	at := make([]ledger.Position, len(list))
	for i, e := range list {
		at[i] = e.Position
	}
	values, err := c.o.Records(ctx, at)
	if err != nil {
		return fmt.Errorf("compare entries with records: %w", err)
	}
	if len(values) != len(at) {
		return fmt.Errorf("compare entries with records: %d values for %d positions", len(values), len(at))
	}
	for i, e := range list {
		c.r.Compared++
		switch {
		case values[i] == nil:
			c.problem(k.bundleFile(), "entry %d: record %d/%d is no longer in Kafka; the log still has it", e.index, e.Partition, e.Offset)
		case !bytes.Equal(values[i], e.Envelope):
			c.problem(k.bundleFile(), "entry %d: record %d/%d in Kafka is not what was logged; the log has what was signed off", e.index, e.Partition, e.Offset)
		}
	}
	return nil
}

// seen remembers names and positions over a whole log in little memory: 8 bytes
// for a name, and about a bit for a position.
type seen struct {
	seed      maphash.Seed
	names     []uint64 // hashes; two that are the same are looked at again
	positions map[stretch]*[8]uint64
}

// stretch is 512 offsets of one partition.
type stretch struct {
	topic     string
	partition int32
	number    int64
}

func (s *seen) name(n Name) {
	if s.names == nil {
		s.seed = maphash.MakeSeed()
	}
	s.names = append(s.names, maphash.Comparable(s.seed, n))
}

// position remembers a position and reports whether it is new.
func (s *seen) position(p ledger.Position) bool {
	if s.positions == nil {
		s.positions = map[stretch]*[8]uint64{}
	}
	key := stretch{p.Topic, p.Partition, p.Offset >> 9}
	bits := s.positions[key]
	if bits == nil {
		bits = new([8]uint64)
		s.positions[key] = bits
	}
	word, bit := p.Offset>>6&7, uint64(1)<<(p.Offset&63)
	if bits[word]&bit != 0 {
		return false
	}
	bits[word] |= bit
	return true
}

// duplicates reports what is in the log more than once. Only when hashes of names
// are the same the log is read again.
func (s *seen) duplicates(ctx context.Context, c *checker) error {
	slices.Sort(s.names)
	twice := map[uint64]bool{}
	for i := 1; i < len(s.names); i++ {
		if s.names[i] == s.names[i-1] {
			twice[s.names[i]] = true
		}
	}
	if len(twice) == 0 {
		return nil
	}
	type earlier struct {
		index uint64
		sum   [8]byte
	}
	last := map[Name]earlier{}
	for l, err := range ReadEntries(ctx, c.src, 0, c.state.Size, c.state.Size) {
		if err != nil {
			return c.damage("tile/entries", err)
		}
		e, err := ledger.ParseEntry(l.Data)
		m := MarkOf(e.ID, e.Envelope)
		if err != nil || !twice[maphash.Comparable(s.seed, m.Name)] {
			continue
		}
		before, again := last[m.Name]
		last[m.Name] = earlier{l.Index, m.Sum}
		if !again {
			continue
		}
		k := chunk{index: l.Index / tileWidth}
		k.partial = layout.PartialTileSize(0, k.index, c.state.Size)
		switch {
		case l.Index-before.index < c.o.Window:
			c.problem(k.bundleFile(), "entry %d: id %s is in the log already, at %d; within %d entries a notary must not log it again", l.Index, e.ID, before.index, c.o.Window)
		case m.Sum == before.sum:
			c.note(k.bundleFile(), "entry %d: id %s is in the log already, at %d, further back than a notary looks: the same statement was sent again", l.Index, e.ID, before.index)
		default:
			c.note(k.bundleFile(), "entry %d: id %s is in the log already, at %d, further back than a notary looks: the same key signed two statements with one id", l.Index, e.ID, before.index)
		}
	}
	return nil
}
