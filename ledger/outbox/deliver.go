package outbox

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/assay-bench/assay/ledger"
)

// Sink takes records to where they belong.
//
// Deliver returns an outcome for each record, in their order, when every one of
// them has found its end: taken, there already, or refused for good. A refused
// record goes to refused/ with its reason and holds up nothing behind it, so a sink
// refuses only what cannot become good by waiting. After an error, or an answer that
// leaves one open, none or some may have been taken: the same records come again,
// and nothing behind them comes before. It is called once at a time, so that no later record can overtake
// an earlier one that failed; batches are large instead (Options.BatchRecords), and
// a sink should have all of one under way at once, keeping the order of the records
// of each node. It must end when ctx does, and have a time limit of its own: while
// it hangs, nothing can say that it does.
//
// The slice belongs to the outbox, and is used again after the call; what the
// records refer to is not, so that a client that still holds a value after an
// error reads what it was given. Values must not be altered.
type Sink interface {
	Deliver(ctx context.Context, records []ledger.Record) ([]Outcome, error)
}

// Run delivers until ctx ends or the outbox is closed: first what dead processes
// left, then what this one adds. A sink that fails is tried again for ever, after
// waits that grow; it is logged once that it fails and how much waits, and once when
// it takes records again. Damage is logged too, and sub-directories that cannot be
// taken over. Without a log, nil, nobody is told.
//
// The end of ctx is no error. Damage that was met is one, ErrDamaged.
func (o *Outbox) Run(ctx context.Context, sink Sink, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o.mu.Lock()
	if o.closed || o.running {
		defer o.mu.Unlock()
		if o.closed {
			return ErrClosed
		}
		return ErrRunning
	}
	o.running, o.ran = true, make(chan struct{})
	o.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-o.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	d := &delivery{
		o: o, sink: sink, log: log, refused: map[string]string{},
		waits: &backoff.ExponentialBackOff{InitialInterval: o.o.Retry, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: o.o.RetryMax},
	}
	d.run(ctx)

	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.taken {
		s.release()
	}
	o.taken = nil
	o.own.closeRead()
	o.own.taken = 0
	o.running = false
	close(o.ran)
	return errors.Join(d.damage...)
}

// delivery is one Run.
type delivery struct {
	o       *Outbox
	sink    Sink
	log     *slog.Logger
	parcel  parcel
	scanned time.Time
	refused map[string]string // what was said of sub-directories
	damage  []error           // the first few
	trouble string            // what housekeeping failed at, so that it is said once
	down    bool              // the sink, or the disk that is read back
	waits   *backoff.ExponentialBackOff
}

func (d *delivery) run(ctx context.Context) {
	for ctx.Err() == nil {
		if asked, due := d.o.wantsLook(); due || time.Since(d.scanned) >= d.o.o.Scan {
			d.takeOver()
			d.scanned = time.Now()
			d.o.hadLook(asked)
		}
		s, view := d.front()
		if s == nil {
			d.idle(ctx)
			continue
		}
		if err := s.next(view, d.o.o.BatchRecords, d.o.o.BatchBytes, &d.parcel); err != nil {
			d.unreadable(ctx, s, err)
			continue
		}
		for _, e := range d.parcel.damage {
			d.lost(e)
		}
		if d.deliver(ctx) {
			d.acknowledged(s)
		}
	}
}

// front is the first sub-directory in which something waits.
func (d *delivery) front() (*spool, []chunk) {
	d.o.mu.Lock()
	defer d.o.mu.Unlock()
	for _, s := range d.o.taken {
		if len(s.chunks) > 0 {
			return s, s.chunks
		}
	}
	s := d.o.own
	if len(s.chunks) == 0 {
		return nil, nil
	}
	s.taken = len(s.chunks)
	return s, s.chunks[:len(s.chunks):len(s.chunks)]
}

func (d *delivery) idle(ctx context.Context) {
	t := time.NewTimer(time.Until(d.scanned.Add(d.o.o.Scan)))
	defer t.Stop()
	select {
	case <-d.o.more:
	case <-t.C:
	case <-ctx.Done():
	}
}

// deliver gives the parcel to the sink until it is taken, or ctx ends.
func (d *delivery) deliver(ctx context.Context) bool {
	for len(d.parcel.records) > 0 {
		outcomes, err := d.sink.Deliver(ctx, d.parcel.records)
		if err == nil {
			err = checkOutcomes(d.parcel.records, outcomes)
		}
		if err == nil {
			d.settleOutcomes(outcomes)
			break
		}
		if ctx.Err() != nil {
			return false
		}
		d.failed(ctx, err)
		if ctx.Err() != nil {
			return false
		}
	}
	if d.down {
		d.down = false
		d.waits.Reset()
		records, bytes := d.o.Pending()
		d.log.Info("the outbox delivers again", "records", records, "bytes", bytes)
	}
	return true
}

// failed logs it if it is news, and waits.
func (d *delivery) failed(ctx context.Context, err error) {
	if !d.down {
		d.down = true
		records, bytes := d.o.Pending()
		d.log.Warn("the outbox cannot deliver; what waits is sent as soon as it can", "error", err, "records", records, "bytes", bytes, "dir", d.o.dir)
	}
	t := time.NewTimer(d.waits.NextBackOff())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// acknowledged forgets the parcel, and removes the files that are done with.
func (d *delivery) acknowledged(s *spool) {
	o := d.o
	o.mu.Lock()
	at, finished := s.advance(&d.parcel)
	o.mu.Unlock()
	removed, err := s.settle(at, finished)
	o.mu.Lock()
	s.forget(removed)
	if s == o.own && !o.closed {
		o.giveBack()
	}
	o.mu.Unlock()
	if s != o.own {
		err = errors.Join(err, d.finish(s))
	}
	d.troubled(err)
	o.mu.Lock()
	o.news()
	o.mu.Unlock()
}

// finish removes a sub-directory that was taken over, when nothing waits in it.
// What cannot be removed is let go, and found again by the next look.
func (d *delivery) finish(s *spool) error {
	switch {
	case len(s.chunks) > 0:
		return s.setRoom(s.disk)
	case len(s.segments) > 0:
		d.drop(s)
		return nil // why is told already
	}
	err := s.remove(d.o.dir)
	d.drop(s)
	return err
}

// drop lets go of a sub-directory that was taken over.
func (d *delivery) drop(s *spool) {
	d.o.mu.Lock()
	defer d.o.mu.Unlock()
	for i, t := range d.o.taken {
		if t == s {
			d.o.taken = append(d.o.taken[:i:i], d.o.taken[i+1:]...)
		}
	}
	s.release()
}

// troubled logs an error of housekeeping once: it loses nothing, and is tried
// again.
func (d *delivery) troubled(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.trouble {
		d.log.Warn("the outbox is not tidied; nothing is lost by it, some records may be sent twice", "error", err, "dir", d.o.dir)
	}
	d.trouble = text
}

func (d *delivery) lost(err error) {
	d.log.Error(damaged, "error", err)
	if len(d.damage) < 16 {
		d.damage = append(d.damage, err)
	}
}

// takeOver looks for sub-directories of dead processes.
func (d *delivery) takeOver() {
	o := d.o
	found, err := leftovers(o.dir, filepath.Base(o.own.path), d.refuse, d.log)
	if err != nil {
		d.refuse(o.dir, err)
		return
	}
	o.mu.Lock()
	o.taken = append(o.taken, found...)
	o.mu.Unlock()
	for _, s := range found {
		for _, e := range s.lost {
			if len(d.damage) < 16 {
				d.damage = append(d.damage, e)
			}
		}
		if len(s.chunks) == 0 {
			d.parcel = parcel{records: d.parcel.records[:0]}
			d.acknowledged(s)
		}
	}
}

// unreadable is an error of the disk. What another process left is put aside until
// the next look, so that it holds up nobody; our own is tried again.
func (d *delivery) unreadable(ctx context.Context, s *spool, err error) {
	if s == d.o.own {
		d.failed(ctx, err)
		return
	}
	d.drop(s)
	d.refuse(s.path, err)
}

// refuse logs once why records of a dead process are not delivered.
func (d *delivery) refuse(path string, err error) {
	if d.refused[path] == err.Error() {
		return
	}
	d.refused[path] = err.Error()
	d.log.Warn("the outbox cannot take over what a process that ended left; it stays there and is tried again", "path", path, "error", err)
}
