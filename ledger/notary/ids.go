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
)

const idSize = 16

// ids are the ids of all entries by index, in a file, and those of the last
// entries in memory.
type ids struct {
	f   *os.File
	sum hash.Hash // of everything in the file

	mu     sync.RWMutex
	n      uint64
	window map[ulid.ULID]uint64
	ring   []ulid.ULID // by index modulo its length
	older  []ulid.ULID // sorted; while places are read again that were read long ago
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
	x.window, x.ring = map[ulid.ULID]uint64{}, make([]ulid.ULID, window)
}

// load takes the first n ids of the file and reports whether their hash is the
// one that is expected; if not, nothing is taken.
func (x *ids) load(n uint64, want []byte) (bool, error) {
	window := len(x.ring)
	r := bufio.NewReaderSize(io.NewSectionReader(x.f, 0, int64(n)*idSize), 1<<20)
	var id ulid.ULID
	for range n {
		if _, err := io.ReadFull(r, id[:]); err != nil {
			x.clear(window)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return false, nil
			}
			return false, fmt.Errorf("read ids: %w", err)
		}
		x.sum.Write(id[:])
		x.remember(id)
	}
	if got := x.sum.Sum(nil); !slices.Equal(got, want) {
		x.clear(window)
		return false, nil
	}
	return true, nil
}

func (x *ids) remember(id ulid.ULID) {
	slot := &x.ring[x.n%uint64(len(x.ring))]
	if size := uint64(len(x.ring)); x.n >= size && x.window[*slot] == x.n-size {
		delete(x.window, *slot)
	}
	*slot = id
	x.window[id] = x.n
	x.n++
}

// add appends ids of entries that are in the log now.
func (x *ids) add(batch []ulid.ULID) error {
	b := make([]byte, 0, len(batch)*idSize)
	for _, id := range batch {
		b = append(b, id[:]...)
	}
	if _, err := x.f.WriteAt(b, int64(x.n)*idSize); err != nil {
		return fmt.Errorf("%w: ids: %w", ErrWrite, err)
	}
	x.sum.Write(b)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range batch {
		x.remember(id)
	}
	return nil
}

// cut drops what the file holds beyond its ids: of a write that did not count.
func (x *ids) cut() error {
	if err := x.f.Truncate(int64(x.n) * idSize); err != nil {
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

// recent reports whether an id is among the last entries, or, while old places
// are read again, among all of them.
func (x *ids) recent(id ulid.ULID) bool {
	if _, ok := x.window[id]; ok { // only the goroutine that adds asks
		return true
	}
	_, ok := slices.BinarySearchFunc(x.older, id, ulid.ULID.Compare)
	return ok
}

// all makes recent look at every entry. A record that was once passed over as a
// duplicate is met again when the topic is read from its beginning, and its first
// may lie further back than the window.
func (x *ids) all() error {
	if x.n <= uint64(len(x.ring)) {
		return nil
	}
	b := make([]byte, x.n*idSize)
	if _, err := x.f.ReadAt(b, 0); err != nil {
		return fmt.Errorf("read ids: %w", err)
	}
	x.older = make([]ulid.ULID, x.n)
	for i := range x.older {
		copy(x.older[i][:], b[i*idSize:])
	}
	slices.SortFunc(x.older, ulid.ULID.Compare)
	return nil
}

// find gives the index of an id: the last one, if there are several.
func (x *ids) find(id ulid.ULID) (uint64, bool, error) {
	x.mu.RLock()
	index, ok := x.window[id]
	n := x.n
	x.mu.RUnlock()
	if ok {
		return index, true, nil
	}
	const block = 1 << 16
	buf := make([]byte, block*idSize)
	for hi := n - min(n, uint64(len(x.ring))); hi > 0; {
		lo := hi - min(hi, block)
		b := buf[:(hi-lo)*idSize]
		if _, err := x.f.ReadAt(b, int64(lo)*idSize); err != nil {
			return 0, false, fmt.Errorf("read ids: %w", err)
		}
		for i := int(hi-lo) - 1; i >= 0; i-- {
			if ulid.ULID(b[i*idSize:(i+1)*idSize]) == id {
				return lo + uint64(i), true, nil
			}
		}
		hi = lo
	}
	return 0, false, nil
}
