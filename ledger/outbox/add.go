package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// batch is what one fsync makes durable.
type batch struct {
	buf  []byte
	n    int
	done chan struct{} // closed when err is final
	err  error
}

func newBatch(size int) *batch {
	return &batch{buf: make([]byte, 0, size), done: make(chan struct{})}
}

// batchBytes is where a batch is closed to further records; they wait for the
// next one.
const batchBytes = 2 << 20

// maxLitter is how many segments that came to nothing may lie there, on a disk
// that refuses to remove them.
const maxLitter = 8

// Add accepts records: when it returns nil, they are on the disk. Adds from many
// goroutines share one fsync. ErrFull means that there is no room, and that none
// was accepted. After another error, and after the end of ctx during the wait, some
// may have been: a caller who adds them again sends them twice at worst.
func (o *Outbox) Add(ctx context.Context, records ...ledger.Record) error {
	return o.add(ctx, nil, records)
}

// Add accepts records as Outbox.Add does, into the room that is held first.
func (r *Room) Add(ctx context.Context, records ...ledger.Record) error {
	return r.o.add(ctx, r, records)
}

func (o *Outbox) add(ctx context.Context, room *Room, records []ledger.Record) error {
	var total int64
	for i := range records {
		if err := records[i].Check(); err != nil {
			return fmt.Errorf("outbox %s: record %d of %d (%s): %w", o.dir, i+1, len(records), records[i].ID, err)
		}
		total += frameSize(&records[i])
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("outbox %s: nothing was added: %w", o.dir, err)
	}
	if len(records) == 0 {
		return nil
	}
	batches, err := o.enqueue(ctx, room, records, total)
	for _, b := range batches {
		select {
		case <-b.done:
			if err == nil {
				err = b.err
			}
		case <-ctx.Done():
			return fmt.Errorf("outbox %s: it is not known whether the records were accepted: %w", o.dir, context.Cause(ctx))
		}
	}
	return err
}

// enqueue puts records into batches, and gives those to wait for.
func (o *Outbox) enqueue(ctx context.Context, room *Room, records []ledger.Record, total int64) ([]*batch, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrClosed
	}
	held := int64(0)
	if room != nil {
		held = min(room.left, total)
	}
	if err := o.take(total - held); err != nil {
		return nil, err
	}
	if room != nil {
		room.left -= held
		o.reserved -= held
	}
	o.inflight += total

	var one [1]*batch
	batches := one[:0]
	for len(records) > 0 {
		b := o.cur
		if len(b.buf) >= batchBytes {
			o.mu.Unlock()
			select {
			case <-b.done:
			case <-ctx.Done():
			}
			o.mu.Lock()
			err := ctx.Err()
			if o.closed {
				err = ErrClosed
			}
			if err != nil {
				o.inflight -= Size(records...)
				return batches, fmt.Errorf("outbox %s: the last %d records were not added: %w", o.dir, len(records), err)
			}
			continue
		}
		for len(records) > 0 && len(b.buf) < batchBytes {
			b.buf = appendFrame(b.buf, o.own.salt, &records[0])
			b.n++
			records = records[1:]
		}
		batches = append(batches, b)
		signal(o.wake)
	}
	return batches, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// writer makes batches durable, one at a time, until Close.
func (o *Outbox) writer() {
	defer close(o.written)
	defer func() {
		if o.active != nil {
			_ = o.active.Close() // it was synced
		}
	}()
	for {
		stop := false
		select {
		case <-o.wake:
		case <-o.quit:
			stop = true
		}
		for o.commit() {
		}
		if stop {
			return
		}
	}
}

// commit writes the batch that was gathered, if there is one.
func (o *Outbox) commit() bool {
	// Who was woken by the last fsync comes along, instead of waiting for the next:
	// without it every other batch has one record.
	runtime.Gosched()
	o.mu.Lock()
	b := o.cur
	if b.n == 0 {
		o.mu.Unlock()
		return false
	}
	o.cur = newBatch(min(len(b.buf)+len(b.buf)/8+512, batchBytes+maxPayload))
	rotate := o.active != nil && o.full(int64(len(b.buf)))
	o.mu.Unlock()

	if rotate {
		o.seal()
	}
	started := o.active == nil
	err := o.store(b)

	o.mu.Lock()
	o.inflight -= int64(len(b.buf))
	if err == nil {
		o.stored(b, started)
	}
	o.mu.Unlock()
	b.err = err
	close(b.done)
	signal(o.more)
	return true
}

// full reports whether a batch belongs into a new segment: the one that is written
// would become too large, or is done with and worth removing. o.mu is held.
func (o *Outbox) full(n int64) bool {
	size := o.previous.prevLength
	return size+n > o.o.SegmentBytes || len(o.own.chunks) == 0 && size >= o.o.SegmentBytes/4
}

// seal ends the segment that is written.
func (o *Outbox) seal() {
	_ = o.active.Close() // what was accepted of it was synced
	o.active = nil
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.own.segments); n > 0 {
		o.own.segments[n-1].sealed = true
	}
}

// store writes and syncs a batch, into a new segment if none is open.
func (o *Outbox) store(b *batch) error {
	if o.active == nil {
		if err := o.start(b); err != nil {
			return fmt.Errorf("outbox %s: the records were not accepted: %w", o.dir, err)
		}
		return nil
	}
	_, err := o.active.Write(b.buf)
	if err == nil {
		err = o.active.Sync()
	}
	if err == nil {
		return nil
	}
	// What could be written of the batch is cut off if possible; if not, the next
	// segment says that it was not accepted.
	cut := o.active.Truncate(o.previous.prevLength)
	o.seal()
	if cut != nil {
		o.mu.Lock()
		o.own.segments[len(o.own.segments)-1].disk += int64(len(b.buf))
		o.own.disk += int64(len(b.buf))
		o.mu.Unlock()
	}
	return fmt.Errorf("outbox %s: the records were not accepted: %w", o.dir, err)
}

// start makes a segment with a batch in it.
func (o *Outbox) start(b *batch) error {
	if err := o.sweep(); err != nil && len(o.litter) >= maxLitter {
		return fmt.Errorf("remove segments that came to nothing: %w", err)
	}
	o.number++
	h := header{number: o.number, prev: o.previous.number, prevLength: o.previous.prevLength, salt: o.own.salt}
	path := o.own.file(o.number)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(h.encode())
	if err == nil {
		_, err = f.Write(b.buf)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = disk.SyncDir(o.own.path)
	}
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		o.litter = append(o.litter, path)
		_ = o.sweep()
		return err
	}
	o.active = f
	o.previous = header{number: o.number, prevLength: headerBytes}
	return nil
}

// sweep removes segments that came to nothing.
func (o *Outbox) sweep() error {
	for len(o.litter) > 0 {
		if err := os.Remove(o.litter[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		o.litter = o.litter[1:]
	}
	return nil
}

// stored counts a batch as accepted. o.mu is held.
func (o *Outbox) stored(b *batch, started bool) {
	s := o.own
	n := int64(len(b.buf))
	if started {
		s.segments = append(s.segments, segment{number: o.number, size: headerBytes, disk: headerBytes})
		s.disk += headerBytes
	}
	sg := &s.segments[len(s.segments)-1]
	off := sg.size
	sg.size, sg.disk, s.disk = sg.size+n, sg.disk+n, s.disk+n
	o.previous.prevLength = sg.size
	s.push(chunk{segment: sg.number, off: off, end: sg.size, n: b.n, buf: b.buf}, o.o.MemoryBytes)
}
