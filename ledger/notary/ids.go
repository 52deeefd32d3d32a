package notary

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger/tlog"
)

// ids are the marks of all entries by index, in a file, and those of the last
// entries in memory. Who checks records claims their names, in order; who appends
// adds them when they are in the log.
type ids struct {
	f   *os.File
	sum hash.Hash // of everything in the file

	mu      sync.RWMutex
	n       uint64
	window  map[ulid.ULID]uint64  // the last entry with the id
	twins   map[tlog.Name]uint64  // entries whose id another key has used since
	ring    []tlog.Mark           // by index modulo its length
	older   []tlog.Mark           // sorted; while places are read again that were read long ago
	claimed map[tlog.Name][8]byte // to be logged, and not in the log yet: their sums
}

func openIDs(dir string, window int) (*ids, error) {
	f, err := os.OpenFile(filepath.Join(dir, "ids"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrite, err)
	}
	x := &ids{f: f}
	x.clear(window)
	return x, nil
}

func (x *ids) clear(window int) {
	x.sum, x.n = sha256.New(), 0
	x.window, x.twins, x.ring = map[ulid.ULID]uint64{}, map[tlog.Name]uint64{}, make([]tlog.Mark, window)
	x.claimed = map[tlog.Name][8]byte{}
}

// load takes the first n marks of the file and reports whether their hash is the
// one that is expected; if not, nothing is taken.
func (x *ids) load(n uint64, want []byte) (bool, error) {
	window := len(x.ring)
	r := bufio.NewReaderSize(io.NewSectionReader(x.f, 0, int64(n)*tlog.MarkSize), 1<<20)
	var b [tlog.MarkSize]byte
	for range n {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			x.clear(window)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return false, nil
			}
			return false, fmt.Errorf("read ids: %w", err)
		}
		x.sum.Write(b[:])
		x.remember(tlog.ParseMark(b[:]))
	}
	if got := x.sum.Sum(nil); !slices.Equal(got, want) {
		x.clear(window)
		return false, nil
	}
	return true, nil
}

func (x *ids) remember(m tlog.Mark) {
	size := uint64(len(x.ring))
	slot := &x.ring[x.n%size]
	if x.n >= size {
		x.forget(slot.Name, x.n-size)
	}
	if at, ok := x.window[m.ID]; ok && x.ring[at%size].Key != m.Key {
		x.twins[x.ring[at%size].Name] = at
	}
	*slot = m
	x.window[m.ID] = x.n
	x.n++
}

func (x *ids) forget(k tlog.Name, at uint64) {
	if x.window[k.ID] == at {
		delete(x.window, k.ID)
	}
	if twin, ok := x.twins[k]; ok && twin == at {
		delete(x.twins, k)
	}
}

// near finds a name among the last entries.
func (x *ids) near(k tlog.Name) (uint64, bool) {
	at, ok := x.window[k.ID]
	if ok && x.ring[at%uint64(len(x.ring))].Key == k.Key {
		return at, true
	}
	at, ok = x.twins[k]
	return at, ok
}

// claim is what ids say about a statement that is in order otherwise.
type claim uint8

const (
	claimed    claim = iota // nobody had the name: it is this statement's now
	sameBytes               // they are in the log, or on their way into it
	otherBytes              // are: the id was used before
)

// claim asks whether a statement may be logged, and takes its name if so. Only
// the last entries are looked at, or, while old places are read again, all.
func (x *ids) claim(m tlog.Mark) claim {
	x.mu.Lock()
	defer x.mu.Unlock()
	same := func(sum [8]byte) claim {
		if sum == m.Sum {
			return sameBytes
		}
		return otherBytes
	}
	if sum, ok := x.claimed[m.Name]; ok {
		return same(sum)
	}
	if at, ok := x.near(m.Name); ok {
		return same(x.ring[at%uint64(len(x.ring))].Sum)
	}
	i, ok := slices.BinarySearchFunc(x.older, m.Name, func(o tlog.Mark, k tlog.Name) int { return o.Compare(k) })
	for ; ok && i < len(x.older) && x.older[i].Name == m.Name; i++ {
		if x.older[i].Sum == m.Sum {
			return sameBytes
		}
	}
	if ok {
		return otherBytes
	}
	x.claimed[m.Name] = m.Sum
	return claimed
}

// unclaim gives names back that were claimed and are not logged after all.
func (x *ids) unclaim(names ...tlog.Name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range names {
		delete(x.claimed, k)
	}
}

// restart gives all claims back: what was not added is read again.
func (x *ids) restart() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.claimed)
}

// add appends the marks of entries that are in the log now.
func (x *ids) add(batch []tlog.Mark) error {
	b := make([]byte, 0, len(batch)*tlog.MarkSize)
	for _, m := range batch {
		b = m.Append(b)
	}
	if _, err := x.f.WriteAt(b, int64(x.n)*tlog.MarkSize); err != nil {
		return fmt.Errorf("%w: ids: %w", ErrWrite, err)
	}
	x.sum.Write(b)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range batch {
		x.remember(m)
		delete(x.claimed, m.Name)
	}
	return nil
}

// cut drops what the file holds beyond its marks: of a write that did not count.
func (x *ids) cut() error {
	if err := x.f.Truncate(int64(x.n) * tlog.MarkSize); err != nil {
		return fmt.Errorf("%w: ids: %w", ErrWrite, err)
	}
	return nil
}

// sync makes durable what was added, and gives the hash of all of it.
func (x *ids) sync() ([]byte, error) {
	if err := x.f.Sync(); err != nil {
		return nil, fmt.Errorf("%w: ids: %w", ErrWrite, err)
	}
	return x.sum.Sum(nil), nil
}

// all makes claim look at every entry. A record that was once passed over as a
// duplicate is met again when the topic is read from its beginning, and its first
// may lie further back than the window.
func (x *ids) all() error {
	if x.n <= uint64(len(x.ring)) {
		return nil
	}
	b := make([]byte, x.n*tlog.MarkSize)
	if _, err := x.f.ReadAt(b, 0); err != nil {
		return fmt.Errorf("read ids: %w", err)
	}
	x.older = make([]tlog.Mark, x.n)
	for i := range x.older {
		x.older[i] = tlog.ParseMark(b[i*tlog.MarkSize:])
	}
	slices.SortFunc(x.older, func(a, b tlog.Mark) int { return a.Compare(b.Name) })
	return nil
}

// recentOnly ends what all began.
func (x *ids) recentOnly() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.older = nil
}

// find gives the index of an id, signed by a key if one is named: the last one,
// if there are several.
func (x *ids) find(id ulid.ULID, key *[8]byte) (uint64, bool, error) {
	x.mu.RLock()
	index, ok := x.window[id]
	if key != nil {
		index, ok = x.near(tlog.Name{ID: id, Key: *key})
	}
	n := x.n
	x.mu.RUnlock()
	if ok {
		return index, true, nil
	}
	const block = 1 << 15
	buf := make([]byte, block*tlog.MarkSize)
	for hi := n - min(n, uint64(len(x.ring))); hi > 0; {
		lo := hi - min(hi, block)
		b := buf[:(hi-lo)*tlog.MarkSize]
		if _, err := x.f.ReadAt(b, int64(lo)*tlog.MarkSize); err != nil {
			return 0, false, fmt.Errorf("read ids: %w", err)
		}
		for i := int(hi-lo) - 1; i >= 0; i-- {
			if m := tlog.ParseMark(b[i*tlog.MarkSize:]); m.ID == id && (key == nil || m.Key == *key) {
				return lo + uint64(i), true, nil
			}
		}
		hi = lo
	}
	return 0, false, nil
}
