package outbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/assay-bench/assay/internal/disk"
)

// leftovers takes the locks of the sub-directories whose process is dead, oldest
// first, and reads what waits in them. What cannot be taken over is told with its
// path, and left alone.
func leftovers(dir, own string, refused func(path string, err error), log *slog.Logger) ([]*spool, error) {
	spools, err := lockDead(dir, own, refused)
	if err != nil {
		return nil, err
	}
	var good []*spool
	for _, s := range spools {
		if err := s.recover(log); err != nil {
			s.release()
			refused(s.path, err)
			continue
		}
		good = append(good, s)
	}
	return good, nil
}

func lockDead(dir, own string, refused func(path string, err error)) ([]*spool, error) {
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var spools []*spool
	for _, e := range entries {
		if !e.IsDir() || !isName(e.Name()) || e.Name() == own {
			continue
		}
		s := &spool{path: filepath.Join(dir, e.Name()), keep: filepath.Join(dir, damageDir)}
		ok, err := s.open3()
		if err != nil {
			refused(s.path, err)
		}
		if err != nil || !ok {
			s.release()
			continue
		}
		spools = append(spools, s)
	}
	return spools, nil
}

// open3 opens the lock, takes it, and opens the two other small files. It reports
// false when another process has the lock.
func (s *spool) open3() (bool, error) {
	var err error
	for _, f := range []struct {
		name string
		to   **os.File
	}{{lockFile, &s.lock}, {ackedFile, &s.acked}, {roomFile, &s.room}} {
		if *f.to, err = os.OpenFile(filepath.Join(s.path, f.name), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			*f.to = nil
			return false, err
		}
		if f.name == lockFile {
			if ok, err := disk.TryLock(s.lock); !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// found is a segment as it lies there.
type found struct {
	segment
	header   header
	whole    bool // its header could be read
	unspared bool // by one of its copies only
	void     bool // nothing in it was accepted
}

// recover reads what a dead process left. Damage is told and kept in mind; only
// what cannot be read at all is an error.
func (s *spool) recover(log *slog.Logger) error {
	list, err := s.list()
	if err != nil {
		return err
	}
	var b [ackBytes + 1]byte
	n, err := s.acked.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read how far it was acknowledged: %w", err)
	}
	acked, known := parsePosition(b[:n])

	s.salts = make(map[uint32]uint32, len(list))
	list = s.chain(list, acked, known, log)
	for i := range list {
		f := &list[i]
		if err := s.scan(f, acked, i == len(list)-1, log); err != nil {
			return err
		}
		f.sealed = true
		s.segments = append(s.segments, f.segment)
		s.disk += f.disk
		if f.damage != nil {
			s.lose(f.damage, log)
		}
	}
	return s.setRoom(s.disk)
}

// damaged is the message of records that cannot be read any more.
const damaged = "records in the outbox are damaged"

func (s *spool) lose(d *DamageError, log *slog.Logger) {
	log.Error(damaged, "error", d)
	if len(s.lost) < 16 {
		s.lost = append(s.lost, d)
	}
}

// list reads the headers of all segments, in their order.
func (s *spool) list() ([]found, error) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	var list []found
	for _, e := range entries {
		number, ok := segmentNumber(e.Name())
		if !ok {
			continue
		}
		f, err := s.look(number)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b found) int { return int(int64(a.number) - int64(b.number)) })
	return list, nil
}

func (s *spool) look(number uint32) (found, error) {
	file, err := os.Open(s.file(number))
	if err != nil {
		return found{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return found{}, err
	}
	if !info.Mode().IsRegular() {
		return found{}, fmt.Errorf("%s: it is no file", file.Name())
	}
	f := found{segment: segment{number: number, size: info.Size(), disk: info.Size()}}
	var b [headerBytes]byte
	n, err := file.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return found{}, fmt.Errorf("%s: %w", file.Name(), err)
	}
	h, spare, err := parseHeader(b[:n], number)
	switch {
	case errors.Is(err, errVersion):
		return found{}, fmt.Errorf("%s: %w; deliver it with the version that wrote it", file.Name(), err)
	case err == nil:
		f.header, f.whole, f.unspared = h, true, !spare
	}
	return f, nil
}

// chain goes back from the last segment: each says which one was before it and how
// much of that was accepted. Segments that nothing names held nothing accepted. A
// segment that is named and not there is lost, unless it was acknowledged.
func (s *spool) chain(list []found, acked position, known bool, log *slog.Logger) []found {
	for i := len(list) - 1; i >= 0; i-- {
		f := &list[i]
		if f.void || !f.whole || f.header.prev == 0 {
			continue
		}
		j := i - 1
		for j >= 0 && list[j].number > f.header.prev {
			list[j].void = true
			j--
		}
		if j >= 0 && list[j].number == f.header.prev {
			p := &list[j]
			if p.size < f.header.prevLength {
				p.hurt(s).add(&gap{p.size, f.header.prevLength - p.size, "the file is shorter than what was accepted into it", false})
			}
			p.size = min(p.size, f.header.prevLength)
			continue
		}
		// Segments are removed in order and after the position is on the disk: only
		// the first may miss the one before it.
		if j >= 0 || known && (acked.segment < f.header.prev || acked.segment == f.header.prev && acked.offset < f.header.prevLength) {
			s.lose(&DamageError{File: s.file(f.header.prev), Places: 1, Bytes: f.header.prevLength, Why: "the file is missing"}, log)
		}
	}
	return list
}

func (f *found) hurt(s *spool) *DamageError {
	if f.damage == nil {
		f.damage = &DamageError{File: s.file(f.number), Kept: s.kept(f.number)}
	}
	return f.damage
}

// scan finds the whole frames of a segment behind the acknowledged position.
func (s *spool) scan(f *found, acked position, last bool, log *slog.Logger) error {
	from := int64(headerBytes)
	switch {
	case f.void || f.number < acked.segment:
		return nil
	case f.number == acked.segment:
		from = max(from, acked.offset)
	}
	file, err := os.Open(s.file(f.number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if !f.whole || f.disk < headerBytes {
		return s.headless(f, file, last, log)
	}
	if f.unspared && f.size >= headerBytes {
		f.hurt(s).add(&gap{0, copyBytes, "one of the two copies of the segment's header is damaged, which loses nothing", false})
	}
	s.salts[f.number] = f.header.salt
	sc := &scanner{r: file, salt: f.header.salt, off: from, end: f.size}
	open := chunk{segment: f.number, off: from, end: from}
	for {
		payload, g, err := sc.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
		if payload != nil {
			if _, err := s.dec.record(payload); err != nil {
				n := int64(len(payload)) + frameBytes
				g = &gap{sc.off - n, n, err.Error(), false}
			} else {
				open.end, open.n = sc.off, open.n+1
				continue
			}
		}
		if open.n > 0 {
			s.push(open, 0)
		}
		if err != nil {
			return nil
		}
		open = chunk{segment: f.number, off: sc.off, end: sc.off}
		if g.tail && last {
			log.Info("the end of a segment was being written when its process ended; it was not accepted, and is dropped", "file", file.Name(), "bytes", g.length, "offset", g.offset)
			continue
		}
		f.hurt(s).add(g)
	}
}

// headless is a segment whose header cannot be read. As the last one, and when it
// is short or empty, it was being made when the process ended.
func (s *spool) headless(f *found, file *os.File, last bool, log *slog.Logger) error {
	if last {
		torn := f.size < headerBytes
		if !torn {
			var err error
			if torn, err = zeros(file, f.size); err != nil {
				return fmt.Errorf("%s: %w", file.Name(), err)
			}
		}
		if torn {
			log.Info("a segment was being made when its process ended; nothing in it was accepted, and it is dropped", "file", file.Name())
			return nil
		}
	}
	f.hurt(s).add(&gap{0, f.size, errHeader.Error(), false})
	return nil
}

func zeros(r io.ReaderAt, size int64) (bool, error) {
	b := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(b)) {
		n, err := r.ReadAt(b[:min(int64(len(b)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if slices.ContainsFunc(b[:n], func(c byte) bool { return c != 0 }) {
			return false, nil
		}
	}
	return true, nil
}
