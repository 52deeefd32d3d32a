package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// segment is one file of a sub-directory.
type segment struct {
	number uint32
	size   int64 // up to where it was accepted
	disk   int64 // what it takes, as far as is known
	sealed bool  // nothing is written to it any more
	damage *DamageError
}

// chunk is a part of a segment that waits, made of whole frames.
type chunk struct {
	segment  uint32
	off, end int64
	n        int
	buf      []byte // ends where the chunk ends; nil: it is only on the disk
}

// spool is one sub-directory: segments, and what of them waits. The Outbox's lock
// guards what is below mu; the files are used by who delivers.
type spool struct {
	path  string
	keep  string // where damaged segments go
	salt  uint32 // of all its segments that this process wrote
	lock  *os.File
	acked *os.File
	room  *os.File

	open       *os.File // the segment that is being read back
	openNumber uint32
	salts      map[uint32]uint32 // of segments that other processes wrote
	dec        decoder

	// guarded by Outbox.mu
	segments []segment
	chunks   []chunk
	taken    int // so many chunks at the front are being delivered, and must not grow
	records  int
	bytes    int64 // of frames that wait
	disk     int64 // of all segments
	memory   int64 // of chunks
	added    uint64
	gone     uint64  // acknowledged or lost
	done     uint64  // of these, how many will not be sent again
	lost     []error // the first few
}

// push adds what became durable. o.mu is held.
func (s *spool) push(c chunk, window int64) {
	s.records += c.n
	s.bytes += c.end - c.off
	s.added += uint64(c.n)
	if c.buf != nil && s.memory+int64(cap(c.buf)) <= window {
		s.memory += int64(cap(c.buf))
	} else {
		c.buf = nil
	}
	if n := len(s.chunks); c.buf == nil && n > s.taken {
		if last := &s.chunks[n-1]; last.buf == nil && last.segment == c.segment && last.end == c.off {
			last.end, last.n = c.end, last.n+c.n
			return
		}
	}
	s.chunks = append(s.chunks, c)
}

// parcel is what one Deliver gets, and where it ends.
type parcel struct {
	records []ledger.Record
	whole   int // so many chunks end in it
	off     int64
	n       int // of the next chunk, up to off
	damage  []*DamageError
}

// next fills a parcel from the chunks of a view that push does not touch.
func (s *spool) next(view []chunk, maxRecords int, maxBytes int64, p *parcel) error {
	*p = parcel{records: p.records[:0]}
	var bytes int64
	for i := range view {
		c := &view[i]
		sc, err := s.scanner(c)
		if err != nil {
			return err
		}
		p.off, p.n = c.off, 0
		for sc.off < sc.end {
			if len(p.records) >= maxRecords || bytes >= maxBytes {
				return nil
			}
			payload, g, err := sc.next()
			if err != nil {
				return fmt.Errorf("%s: %w", s.file(c.segment), err)
			}
			if payload != nil {
				bytes += int64(len(payload))
				r, err := s.dec.record(payload)
				if err == nil {
					p.records = append(p.records, r)
					p.off, p.n = sc.off, p.n+1
					continue
				}
				g = &gap{offset: sc.off - int64(len(payload)) - frameBytes, length: int64(len(payload)) + frameBytes, why: err.Error()}
			}
			p.note(s, c.segment, g)
			p.off = sc.off
		}
		p.whole++
		p.off, p.n = 0, 0
	}
	return nil
}

func (p *parcel) note(s *spool, number uint32, g *gap) {
	for _, d := range p.damage {
		if d.File == s.file(number) {
			d.add(g)
			return
		}
	}
	d := &DamageError{File: s.file(number), Kept: s.kept(number)}
	d.add(g)
	p.damage = append(p.damage, d)
}

// scanner reads a chunk, from memory or from its file.
func (s *spool) scanner(c *chunk) (*scanner, error) {
	salt, ok := s.salts[c.segment]
	if !ok {
		salt = s.salt
	}
	if c.buf != nil {
		return &scanner{salt: salt, off: c.off, end: c.end, piece: c.buf, at: c.end - int64(len(c.buf))}, nil
	}
	if s.open == nil || s.openNumber != c.segment {
		s.closeRead()
		f, err := os.Open(s.file(c.segment))
		if err != nil {
			return nil, fmt.Errorf("read back: %w", err)
		}
		s.open, s.openNumber = f, c.segment
	}
	return &scanner{r: s.open, salt: salt, off: c.off, end: c.end}, nil
}

func (s *spool) closeRead() {
	if s.open != nil {
		_ = s.open.Close() // it was only read
		s.open = nil
	}
}

// advance takes an acknowledged parcel out of what waits, and gives the new
// position and the segments that nobody needs any more. o.mu is held.
func (s *spool) advance(p *parcel) (at position, finished []segment) {
	for i := range s.chunks[:p.whole] {
		c := &s.chunks[i]
		s.drop(c, c.end, c.n)
		s.memory -= int64(cap(c.buf))
		at = position{c.segment, c.end}
		c.buf = nil
	}
	s.chunks = s.chunks[p.whole:]
	if len(s.chunks) > 0 && p.off > s.chunks[0].off {
		c := &s.chunks[0]
		s.drop(c, p.off, min(p.n, c.n))
		at = position{c.segment, c.off}
	}
	s.taken = 0
	for _, d := range p.damage {
		for i := range s.segments {
			if sg := &s.segments[i]; s.file(sg.number) == d.File && sg.damage == nil {
				sg.damage = d
			}
		}
		if len(s.lost) < 16 {
			s.lost = append(s.lost, d)
		}
	}
	return at, s.finished()
}

// drop counts a chunk's beginning as done.
func (s *spool) drop(c *chunk, to int64, n int) {
	s.bytes -= to - c.off
	s.records -= n
	s.gone += uint64(n)
	c.off, c.n = to, c.n-n
}

// finished are the segments before the first that waits. o.mu is held.
func (s *spool) finished() []segment {
	n := 0
	for n < len(s.segments) && s.segments[n].sealed && (len(s.chunks) == 0 || s.segments[n].number < s.chunks[0].segment) {
		n++
	}
	return s.segments[:n:n]
}

// settle writes down how far the sink has acknowledged, and removes the segments
// that are done with. What it cannot remove stays for the next time. It gives how
// many it removed.
func (s *spool) settle(at position, finished []segment) (removed int, err error) {
	if at != (position{}) {
		if _, err := s.acked.WriteAt(at.encode(), 0); err != nil {
			return 0, fmt.Errorf("write how far it was acknowledged: %w", err)
		}
	}
	if len(finished) == 0 {
		return 0, nil
	}
	// A missing segment is damage unless it was acknowledged: the position may
	// never be older than a removal.
	if err := s.acked.Sync(); err != nil {
		return 0, fmt.Errorf("write how far it was acknowledged: %w", err)
	}
	for _, sg := range finished {
		if s.openNumber == sg.number {
			s.closeRead()
		}
		if sg.damage != nil {
			err = s.keepDamaged(sg.number)
		} else {
			err = os.Remove(s.file(sg.number))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("remove what was delivered: %w", err)
		}
		removed++
	}
	return removed, nil
}

func (s *spool) keepDamaged(number uint32) error {
	if err := os.Mkdir(s.keep, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(s.file(number), s.kept(number))
}

// forget takes removed segments off the list, when the position is written. o.mu
// is held.
func (s *spool) forget(n int) {
	s.done = s.gone
	for _, sg := range s.segments[:n] {
		s.disk -= sg.disk
	}
	s.segments = s.segments[n:]
}

func (s *spool) file(number uint32) string { return filepath.Join(s.path, segmentName(number)) }

func (s *spool) kept(number uint32) string {
	return filepath.Join(s.keep, filepath.Base(s.path)+"-"+segmentName(number))
}

func (s *spool) setRoom(n int64) error { return s.room.Truncate(n) }

// release closes the files; the lock is free from then on.
func (s *spool) release() {
	s.closeRead()
	for _, f := range []*os.File{s.acked, s.room} {
		if f != nil {
			_ = f.Close() // what must last was synced
		}
	}
	if s.lock != nil {
		_ = disk.Unlock(s.lock) // nothing was written through it
	}
}

// remove deletes a sub-directory of which everything was acknowledged.
func (s *spool) remove(dir string) error {
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range []string{ackedFile, roomFile, lockFile} {
		if err := os.Remove(filepath.Join(s.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(s.path)
}
