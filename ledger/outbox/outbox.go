package outbox

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/disk"
)

// Defaults and limits of Options.
const (
	DefaultMaxBytes = 256 << 20
	MinMaxBytes     = 1 << 20 // below it, one segment and one record hardly fit
	maxSegment      = 8 << 20
	minSegment      = 64 << 10
	defaultMemory   = 8 << 20
	defaultRecords  = 16384
	defaultBytes    = 4 << 20
	defaultRetry    = 100 * time.Millisecond
	defaultRetryMax = 30 * time.Second
	defaultScan     = 5 * time.Second
)

// Options say where the outbox is, and how large it may be.
type Options struct {
	Dir string // made if it is not there, for the owner only

	// MaxBytes bounds what all processes together keep in Dir. 0: 256 MiB; less
	// than 1 MiB is refused.
	MaxBytes int64

	// SegmentBytes is about how large a file becomes; a file is removed as a whole.
	// 0: 8 MiB. It is kept between 64 KiB and an eighth of MaxBytes.
	SegmentBytes int64

	// MemoryBytes bounds the records that are kept in memory too, so that a sink
	// that keeps up is served without reading back. 0: 8 MiB; negative: none.
	MemoryBytes int64

	// RefusedBytes bounds the copies in refused/, beside MaxBytes; the oldest go
	// first. 0: a sixteenth of MaxBytes; it is kept at 256 KiB at least.
	RefusedBytes int64

	// BatchRecords and BatchBytes bound what one Deliver gets; one record more than
	// BatchBytes may be in it. 0: 16,384 records and 4 MiB.
	BatchRecords int
	BatchBytes   int64

	// Retry is the first wait after a Deliver that failed; each later one is twice
	// as long up to RetryMax, and by chance up to a half shorter or longer, so that
	// many processes do not come at once. 0: 100 ms, 30 s.
	Retry, RetryMax time.Duration

	// Scan is how often Run looks for sub-directories of processes that died.
	// 0: 5 s.
	Scan time.Duration
}

func (o Options) filled() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("outbox: no directory is given")
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxBytes < MinMaxBytes {
		return o, fmt.Errorf("outbox %s: a limit of %d bytes is too small; it must be at least %d", o.Dir, o.MaxBytes, MinMaxBytes)
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = maxSegment
	}
	o.SegmentBytes = max(minSegment, min(o.SegmentBytes, o.MaxBytes/8))
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemory
	}
	o.RefusedBytes = max(minRefused, defaulted(o.RefusedBytes, o.MaxBytes/16))
	o.BatchRecords = defaulted(o.BatchRecords, defaultRecords)
	o.BatchBytes = defaulted(o.BatchBytes, defaultBytes)
	o.Retry = defaulted(o.Retry, defaultRetry)
	o.RetryMax = max(o.Retry, defaulted(o.RetryMax, defaultRetryMax))
	o.Scan = defaulted(o.Scan, defaultScan)
	return o, nil
}

func defaulted[T int | int64 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Outbox is one process's part of an outbox directory. Its methods may be called
// from any goroutine.
type Outbox struct {
	o         Options
	dir       string
	max, step int64 // of room; the step is what is claimed ahead

	wake    chan struct{} // to the writer: there is a batch
	written chan struct{} // the writer has ended
	more    chan struct{} // to Run: something became durable
	quit    chan struct{} // Close was called

	// of the writer
	active   *os.File
	number   uint32 // of the last segment that was tried
	previous header // number and length of the last one that holds something
	litter   []string

	mu       sync.Mutex
	own      *spool
	taken    []*spool // over from dead processes
	cur      *batch
	inflight int64 // bytes that were let in and are not durable yet
	reserved int64
	claim    int64
	closed   bool
	running  bool
	asked    uint64        // looks for leftovers that Flush wants
	looked   uint64        // of these, how many Run has had
	ran      chan struct{} // closed when no Run is under way
	counts   Counts
	progress chan struct{} // closed and replaced when something was acknowledged
}

// Open makes the directory if needed, and in it a sub-directory for this process.
func Open(options Options) (*Outbox, error) {
	opt, err := options.filled()
	if err != nil {
		return nil, err
	}
	if err := makeDir(opt.Dir); err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	info, err := os.Stat(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("open outbox %s: others may write there (mode %04o), and what lies there is sent in this node's name: chmod 700 it", opt.Dir, info.Mode().Perm())
	}
	if err := checkOwner(opt.Dir, info, userID()); err != nil {
		return nil, err
	}
	own, err := newSpool(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("open outbox %s: %w", opt.Dir, err)
	}
	o := &Outbox{
		o: opt, dir: opt.Dir, max: opt.MaxBytes, step: opt.MaxBytes / 64,
		wake: make(chan struct{}, 1), more: make(chan struct{}, 1),
		written: make(chan struct{}), quit: make(chan struct{}),
		own: own, cur: newBatch(0), progress: make(chan struct{}), ran: make(chan struct{}),
	}
	close(o.ran)
	go o.writer()
	return o, nil
}

// makeDir is MkdirAll that makes the names last: a record is only as durable as
// the directories above it.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return &os.PathError{Op: "mkdir", Path: dir, Err: errors.New("it is a file")}
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.SyncDir(parent)
}

// newSpool makes a sub-directory whose name comes after all that are there.
func newSpool(dir string) (*spool, error) {
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	ms := ulid.Now()
	for _, e := range entries {
		if id, err := ulid.ParseStrict(e.Name()); err == nil && isName(e.Name()) {
			ms = max(ms, id.Time()+1)
		}
	}
	id, err := ulid.New(ms, rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("name a sub-directory: %w", err)
	}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // it never fails
	s := &spool{path: filepath.Join(dir, id.String()), keep: filepath.Join(dir, damageDir), salt: binary.LittleEndian.Uint32(salt[:])}
	if err := os.Mkdir(s.path, 0o700); err != nil {
		return nil, err
	}
	_, err = s.open3()
	if err == nil {
		// Its bytes are taken now: on a full disk the position must still be written,
		// else nothing that was delivered could be removed.
		_, err = s.acked.WriteAt(position{}.encode(), 0)
	}
	if err == nil {
		err = disk.SyncDir(dir)
	}
	if err != nil {
		s.release()
		_ = os.RemoveAll(s.path) // it is empty; whoever takes it over removes it otherwise
		return nil, err
	}
	return s, nil
}

// Pending is how many records wait for the sink, and how many bytes they take:
// those of this process, and those that Run has taken over.
func (o *Outbox) Pending() (records int, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pending()
}

func (o *Outbox) pending() (records int, bytes int64) {
	records, bytes = o.own.records, o.own.bytes
	for _, s := range o.taken {
		records, bytes = records+s.records, bytes+s.bytes
	}
	return records, bytes
}

// Flush waits until the sink has acknowledged everything that was accepted before
// the call, and everything that dead processes have left by then, except what Run
// says it cannot take over. Refused counts as delivered, and is told: ErrRefused,
// when the sink refused a record since the outbox was opened. Somebody's Run has to deliver it meanwhile: without one
// Flush waits until ctx ends or the outbox is closed. It is an ErrDamaged when
// records of this process could not be read back from the disk.
func (o *Outbox) Flush(ctx context.Context) error {
	o.mu.Lock()
	goal := o.own.added
	o.asked++
	look := o.asked
	for {
		if o.own.done >= goal && o.looked >= look && len(o.taken) == 0 {
			err := errors.Join(o.own.lost...)
			if n := o.counts.Refused; n > 0 {
				err = errors.Join(err, fmt.Errorf("%w: %d; their copies and the reasons are in %s", ErrRefused, n, refusedIn(o.dir)))
			}
			o.mu.Unlock()
			return err
		}
		progress, closed := o.progress, o.closed
		records, bytes := o.pending()
		o.mu.Unlock()
		if closed {
			return fmt.Errorf("flush outbox %s: %w: %d records (%s) still wait there, and are delivered by the next process that delivers", o.dir, ErrClosed, records, amount(bytes))
		}
		signal(o.more)
		select {
		case <-progress:
		case <-o.quit:
		case <-ctx.Done():
			return fmt.Errorf("flush outbox %s: %d records (%s) still wait there, and are delivered by the next process that delivers: %w", o.dir, records, amount(bytes), context.Cause(ctx))
		}
		o.mu.Lock()
	}
}

// wantsLook reports how many looks were asked for, and whether one is due.
func (o *Outbox) wantsLook() (asked uint64, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked, o.asked > o.looked
}

// hadLook tells who waits that leftovers were looked for.
func (o *Outbox) hadLook(asked uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looked = asked
	o.news()
}

// news wakes who waits in Flush. o.mu is held.
func (o *Outbox) news() {
	close(o.progress)
	o.progress = make(chan struct{})
}

// Close waits for the Adds under way and ends Run. What was not delivered stays on
// the disk for the next process; a sub-directory with nothing in it is removed.
func (o *Outbox) Close() error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	ran := o.ran
	o.mu.Unlock()
	close(o.quit)
	<-o.written
	<-ran
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.own.release()
	if len(o.own.chunks) > 0 {
		return nil
	}
	for i := range o.own.segments {
		o.own.segments[i].sealed = true
	}
	err := o.sweep()
	if err == nil {
		_, err = o.own.settle(position{}, o.own.finished())
	}
	if err == nil {
		err = o.own.remove(o.dir)
	}
	if err != nil {
		return fmt.Errorf("close outbox: everything in %s was delivered, and it could not be removed: %w", o.own.path, err)
	}
	return nil
}
