package notary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"

	"github.com/assay-bench/assay/internal/disk"
)

// flushAge is how long Tessera holds a batch that is not full. The notary makes
// its own batches and has one under way at a time, so this is only the time that
// adding a batch may take; were it shorter, a batch could be written in two parts.
const flushAge = 20 * time.Millisecond

// Notary is one log and its directory. Open it, Run it once, Close it.
type Notary struct {
	o         Options
	lock      *os.File
	witnesses *http.Client

	appender *tessera.Appender
	reader   tessera.LogReader
	shutdown func(context.Context) error
	stop     context.CancelFunc

	ids     *ids
	refused *refusals
	looks   looks

	// What is in the log, as it was read on start, and how far we are since.
	start   start
	handled map[int32]int64  // everything below is done; by the appending goroutine only
	next    map[int32]int64  // everything below was met since Run; by the checking goroutine only
	last    map[int32]uint64 // index of each partition's last entry
	keys    []uint64
	size    uint64
	leaf    []byte // hash of the last entry

	m counters
}

// Open takes the directory, opens or makes the log in it, and reads back from the
// log how far it is.
func Open(ctx context.Context, o Options) (*Notary, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	n, err := open(ctx, o)
	if err != nil {
		return nil, advise(o.Dir, err)
	}
	return n, nil
}

func open(ctx context.Context, o Options) (_ *Notary, err error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrite, err)
	}
	n := &Notary{o: o, witnesses: witnessClient(o.WitnessTimeout)}
	n.m.begin(o.Now())
	if n.lock, err = disk.Lock(filepath.Join(o.Dir, "lock")); errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%w: %w; stop that one first", ErrLocked, err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrite, err)
	}
	defer func() {
		if err != nil {
			n.release()
		}
	}()
	if err := n.sane(); err != nil {
		return nil, err
	}
	if err := n.openLog(ctx); err != nil {
		return nil, err
	}
	if n.ids, err = openIDs(o.Dir, o.Window); err != nil {
		return nil, err
	}
	if n.refused, err = openRefusals(o.Dir, o.RefusedBytes); err != nil {
		return nil, err
	}
	if err := n.recover(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Notary) logDir() string         { return filepath.Join(n.o.Dir, "log") }
func (n *Notary) checkpointPath() string { return filepath.Join(n.logDir(), "checkpoint") }

// sane looks at the published checkpoint before Tessera can replace it.
func (n *Notary) sane() error {
	raw, _, err := published(n.checkpointPath())
	if err != nil {
		return fmt.Errorf("look at the checkpoint of the log: %w", err)
	}
	if raw == nil {
		return nil
	}
	if origin, _, _ := checkpointHead(raw); origin != n.o.Signer.Name() {
		return fmt.Errorf("%w: its origin is %.80q, not %q; give the right --origin or another --dir", ErrOtherLog, origin, n.o.Signer.Name())
	}
	return nil
}

func (n *Notary) openLog(ctx context.Context) (err error) {
	opts := tessera.NewAppendOptions().
		WithCheckpointSigner(n.o.Signer).
		WithBatching(uint(n.o.BatchSize), flushAge).
		WithCheckpointInterval(n.o.CheckpointInterval).
		WithCheckpointRepublishInterval(0).
		WithShutdownTimeout(n.patience())
	if len(n.o.Policy) > 0 {
		group, err := tessera.NewWitnessGroupFromPolicy(n.o.Policy)
		if err != nil {
			return fmt.Errorf("policy: %w", err)
		}
		opts.WithWitnesses(group, &tessera.WitnessOptions{Timeout: n.o.WitnessTimeout})
	}
	// Tessera's goroutines must outlive ctx: they end after what is in flight is
	// resolved, else its futures would never be.
	defer func() {
		// Tessera panics where it cannot take a lock of its own.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: open the log: %v", ErrWrite, p)
		}
	}()
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	driver, err := posix.New(own, posix.Config{Path: n.logDir(), HTTPClient: n.witnesses})
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	n.appender, n.shutdown, n.reader, err = tessera.NewAppender(own, driver, opts)
	if err != nil {
		// A new log asks its witnesses for a checkpoint of size 0 and fails without
		// them; what it made is there, and later checkpoints are tried for ever.
		first := err
		if n.appender, n.shutdown, n.reader, err = tessera.NewAppender(own, driver, opts); err != nil {
			return fmt.Errorf("%w: open the log: %w", ErrWrite, err)
		}
		n.o.Log.Warn("the log is new and has no checkpoint yet", "error", first)
	}
	return nil
}

// Close ends the log's work: it waits for a checkpoint over everything that was
// logged, as long as witnesses may take, and gives the directory free. Without
// that checkpoint nothing is lost; the next start publishes it.
func (n *Notary) Close(ctx context.Context) error {
	defer n.release()
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	// Tessera waits for what this process added only, not for what was there.
	waits := &backoff.ExponentialBackOff{InitialInterval: time.Millisecond, Multiplier: 2, MaxInterval: 100 * time.Millisecond}
	size, err := backoff.Retry(ctx, func() (uint64, error) {
		_, size, err := published(n.checkpointPath())
		switch {
		case err != nil:
			return size, backoff.Permanent(fmt.Errorf("look at the checkpoint of the log: %w", err))
		case size < n.size:
			return size, errBehind
		}
		return size, nil
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0))
	if err != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("the last checkpoint has %d of %d entries; the next start publishes the rest: %w", size, n.size, context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	if err := n.shutdown(ctx); err != nil {
		return fmt.Errorf("end the log's work: %w", err)
	}
	return nil
}

// errBehind is a checkpoint that has not everything yet.
var errBehind = errors.New("the checkpoint is behind the log")

// patience is how long the next checkpoint may take.
func (n *Notary) patience() time.Duration {
	return 2*n.o.CheckpointInterval + n.o.WitnessTimeout + time.Second
}

func (n *Notary) release() {
	if n.stop != nil {
		n.stop()
	}
	n.witnesses.CloseIdleConnections()
	if n.ids != nil {
		n.ids.f.Close() // derived, and synced where it counts
	}
	if n.refused != nil {
		n.refused.f.Close() // as above
	}
	_ = disk.Unlock(n.lock) // nothing was written through it
}

// Run reads the feed and logs what is in order, until ctx ends (nil), the feed
// ends (nil), or something must not go on. It saves how far it came. Partitions
// that are added to the topic meanwhile are read too.
func (n *Notary) Run(ctx context.Context, feed Feed) (err error) {
	defer func() { n.m.stopped(err) }()
	for {
		err := n.run(ctx, feed)
		if !errors.Is(err, errMorePartitions) {
			return err
		}
		n.o.Log.Info(err.Error())
		maps.Copy(n.start.before, n.handled)
		n.start.empty = false
	}
}

var errMorePartitions = errors.New("the topic has more partitions than before")

func (n *Notary) run(ctx context.Context, feed Feed) error {
	n.rewind()
	asked := n.o.Now()
	ranges, err := feed.Partitions(ctx)
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("ask for partitions: %w", err)
	}
	from, err := n.begin(ranges)
	if err != nil {
		return err
	}
	n.looks.see(ranges, asked)
	n.m.lag(ranges, n.handled, n.o.Now())

	work, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)

	in, out := make(chan []Incoming, 2), make(chan []checked, 4)
	feedErr := make(chan error, 1)
	wg.Go(func() {
		defer close(in)
		feedErr <- feed.Read(work, from, func(batch []Incoming) error {
			for len(batch) > 0 { // small enough that checking and appending overlap
				part := batch[:min(len(batch), n.o.BatchSize)]
				select {
				case in <- part:
				case <-work.Done():
					return context.Cause(work)
				}
				batch = batch[len(part):]
			}
			return nil
		})
	})
	wg.Go(func() {
		defer close(out)
		for batch := range in {
			c, err := n.inOrder(work, batch)
			if err != nil {
				cancel(err)
				return
			}
			select {
			case out <- c:
			case <-work.Done():
				return
			}
		}
	})
	wg.Go(func() { n.watch(work, feed, from, cancel) })

	if err := n.appendAll(work, out); err != nil {
		cancel(err)
		return advise(n.o.Dir, err)
	}
	if err := n.save(); err != nil {
		return advise(n.o.Dir, err)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := context.Cause(work); err != nil {
		return err
	}
	if err := <-feedErr; err != nil {
		return fmt.Errorf("read the topic: %w", err)
	}
	return nil
}

// watch asks from time to time how far the topic is, for metrics and health, and
// whether it has partitions that nobody reads.
func (n *Notary) watch(ctx context.Context, feed Feed, read map[int32]int64, stop context.CancelCauseFunc) {
	t := time.NewTicker(n.o.LookInterval)
	defer t.Stop()
	var sick string
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		asked := n.o.Now()
		ranges, err := feed.Partitions(ctx)
		if ctx.Err() != nil {
			return
		}
		n.looks.see(ranges, asked)
		n.m.asked(ranges, err, n.o.Now())
		for p := range ranges {
			if _, ok := read[p]; !ok && n.o.Partitions == nil {
				stop(fmt.Errorf("%w: partition %d is new", errMorePartitions, p))
				return
			}
		}
		words := ""
		if err := n.Trouble(); err != nil {
			words = err.Error()
		}
		if words != "" && sick == "" {
			n.o.Log.Warn("it does not keep up", "error", words)
		} else if words == "" && sick != "" {
			n.o.Log.Info("it keeps up again")
		}
		sick = words
	}
}

// save writes positions.json, after everything that it speaks of is durable.
func (n *Notary) save() error {
	if err := n.refused.sync(); err != nil {
		return err
	}
	sum, err := n.ids.sync()
	if err != nil {
		return err
	}
	return positions{
		Topic: n.o.Topic, Origin: n.o.Signer.Name(), Size: n.size, LastLeaf: hexOf(n.leaf), IDs: hexOf(sum),
		Next: maps.Clone(n.handled), Last: maps.Clone(n.last), Keys: n.keys, Looked: n.looks.last(),
	}.write(n.o.Dir)
}

var errStopped = errors.New("stopped")
