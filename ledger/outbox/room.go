package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/disk"
)

const (
	lockFile  = "lock"
	roomFile  = "room"
	ackedFile = "acked"
	damageDir = "damaged"

	// lockWait is how long the lock of the directory is waited for. It is held for
	// the time of a look; a process that was stopped by a signal meanwhile would
	// block every other one for ever.
	lockWait = 5 * time.Second
)

// lockDir takes the lock of the whole directory until unlock. Nobody may ask for
// Outbox.mu while holding it.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(time.Millisecond) {
		ok, err := disk.TryLock(f)
		if ok {
			return func() { _ = disk.Unlock(f) }, nil // nothing was written through it
		}
		if err == nil && time.Now().After(end) {
			err = fmt.Errorf("another process has held %s for %v: is one stopped?", f.Name(), lockWait)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
	}
}

// others adds up what everybody but one sub-directory takes of the directory: of
// the living what they claim, of the dead what lies there, and what is damaged.
// The lock of the directory is held.
func others(dir, own string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var n int64
		switch {
		case e.Name() == own || !e.IsDir():
			continue
		case e.Name() == damageDir:
			n, err = filesIn(path)
		case isName(e.Name()):
			n, err = takes(path)
		default:
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("see how much of the room %s takes: %w", path, err)
		}
		sum += n
	}
	return sum, nil
}

func takes(sub string) (int64, error) {
	f, err := os.OpenFile(filepath.Join(sub, lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return filesIn(sub) // its process died while making it, or while removing it
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = disk.Unlock(f) }() // nothing was written through it
	dead, err := disk.TryLock(f)
	if err != nil {
		return 0, err
	}
	if dead {
		return filesIn(sub)
	}
	info, err := os.Stat(filepath.Join(sub, roomFile))
	if errors.Is(err, fs.ErrNotExist) {
		return filesIn(sub)
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// filesIn adds up the files of a directory. The claim of a dead process is none.
func filesIn(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, e := range entries {
		if e.Name() == roomFile {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum, nil
}

func isName(name string) bool {
	id, err := ulid.ParseStrict(name)
	return err == nil && id.String() == name
}

// take finds n bytes of room, or says ErrFull. o.mu is held.
func (o *Outbox) take(n int64) error {
	// The header of a segment that may have to be started belongs to it.
	want := o.own.disk + o.inflight + o.reserved + n + headerBytes
	if want <= o.claim {
		return nil
	}
	unlock, err := lockDir(o.dir)
	if err != nil {
		return fmt.Errorf("outbox %s: claim room: %w", o.dir, err)
	}
	defer unlock()
	foreign, err := others(o.dir, filepath.Base(o.own.path))
	if err != nil {
		return fmt.Errorf("outbox %s: claim room: %w", o.dir, err)
	}
	if foreign+want > o.max {
		return fmt.Errorf("%w: %s has room for %d bytes, %d more are asked for; %d records of this process wait in %d bytes, %d are reserved or on their way to the disk, other processes and what they left take %d: "+
			"deliver what waits (can the sink be reached?) or raise the limit, and start no new run before",
			ErrFull, o.dir, o.max, n, o.own.records, o.own.disk, o.reserved+o.inflight, foreign)
	}
	claim := min(want+o.step, o.max-foreign)
	if err := o.own.setRoom(claim); err != nil {
		return fmt.Errorf("outbox %s: claim room: %w", o.dir, err)
	}
	o.claim = claim
	return nil
}

// giveBack lets go of a claim that is much larger than what is used. Less may be
// claimed without the directory's lock: whoever adds up meanwhile sees too much.
// o.mu is held.
func (o *Outbox) giveBack() {
	used := o.own.disk + o.inflight + o.reserved + headerBytes
	if o.claim-used <= 2*o.step {
		return
	}
	if o.own.setRoom(used+o.step) == nil { // otherwise it is held until the next time
		o.claim = used + o.step
	}
}

// Room is a part of the outbox that is held for records to come.
type Room struct {
	o    *Outbox
	left int64 // guarded by o.mu
}

// Reserve holds room from now on, such as that which a run needs for what it will
// say at its end; Size tells how much a record takes. Without room the answer is
// ErrFull, and the run should not start. The room is held against all processes
// that use the directory, until Release, Close, or the end of the process.
func (o *Outbox) Reserve(bytes int64) (*Room, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("outbox %s: reserve %d bytes: it is less than nothing", o.dir, bytes)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrClosed
	}
	if err := o.take(bytes); err != nil {
		return nil, err
	}
	o.reserved += bytes
	return &Room{o, bytes}, nil
}

// Release lets go of what is left of the room. It may be called more than once.
func (r *Room) Release() {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	r.o.reserved -= r.left
	r.left = 0
	if !r.o.closed {
		r.o.giveBack()
	}
}
