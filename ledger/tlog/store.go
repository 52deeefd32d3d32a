package tlog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/transparency-dev/tessera/api/layout"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// store is a copy of a log in a directory. Entries are copied; tiles are made
// from them, so that what another log serves cannot get in. The checkpoint is
// written last: up to it, the copy is right; what lies beyond counts for
// nothing and is written again.
type store struct {
	root  *os.Root
	name  string
	tower *tower
	tail  [][]byte        // entries of the bundle that is not full
	dirty map[string]bool // directories to be synced
	made  map[string]bool // directories that are there
	stale []string        // partial tiles that a full one replaced
}

// fetchBundle gives the entries of a bundle of which n are needed.
type fetchBundle func(ctx context.Context, index uint64, n int) ([][]byte, error)

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a copy of a log: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("make a copy of a log: %w", err)
	}
	return &store{root: root, name: dir, tower: &tower{}, dirty: map[string]bool{}, made: map[string]bool{}}, nil
}

func (s *store) close() error { return s.root.Close() }

// resume takes up a copy at its own checkpoint.
func (s *store) resume(ctx context.Context, c ledger.Checkpoint) error {
	src := &dirLog{name: s.name, root: s.root}
	t, err := loadTower(ctx, src, c.Size)
	if err != nil {
		return fmt.Errorf("copy in %s: %w", s.name, err)
	}
	if t.root() != c.Root {
		return fmt.Errorf("copy in %s: its tiles do not lead to its own checkpoint: it was altered or is damaged; look with `assay ledger fsck`, and move it away to begin anew", s.name)
	}
	s.tower, s.tail = t, nil
	if p := layout.PartialTileSize(0, c.Size/tileWidth, c.Size); p != 0 {
		raw, err := src.Entries(ctx, c.Size/tileWidth, p)
		if err != nil {
			return fmt.Errorf("copy in %s: %w", s.name, err)
		}
		if s.tail, err = parseBundle(raw, int(p)); err != nil {
			return fmt.Errorf("copy in %s: %w", s.name, err)
		}
	}
	return nil
}

// grow copies entries up to a size. at is called whenever the copy has a size,
// of which the caller wants to know the root; it must not be less than the copy.
func (s *store) grow(ctx context.Context, to uint64, fetch fetchBundle, at func(size uint64) error) error {
	s.tower.full = func(level, index uint64, tile []byte) error {
		return s.put(layout.TilePath(level, index, 0), tile)
	}
	if s.tower.size >= to {
		return nil
	}
	type fetched struct {
		index   uint64
		entries [][]byte
		err     error
	}
	work := func(ctx context.Context, index uint64) fetched {
		n := min(to-index*tileWidth, tileWidth)
		entries, err := fetch(ctx, index, int(n))
		return fetched{index, entries, err}
	}
	for b := range inOrder(ctx, s.tower.size/tileWidth, (to-1)/tileWidth, work) {
		if b.err != nil {
			return b.err
		}
		have := int(s.tower.size - b.index*tileWidth)
		for i := range have {
			if !bytes.Equal(b.entries[i], s.tail[i]) {
				return fmt.Errorf("entry %d: %w: it is not what was copied before", b.index*tileWidth+uint64(i), ErrAltered)
			}
		}
		if len(b.entries) == tileWidth {
			if err := s.put(layout.EntriesPath(b.index, 0), joinBundle(b.entries)); err != nil {
				return err
			}
		}
		for i, e := range b.entries[have:] {
			if err := s.tower.add(leafHash(e)); err != nil {
				return err
			}
			s.tail = b.entries[:have+i+1]
			if at != nil {
				if err := at(s.tower.size); err != nil {
					return err
				}
			}
		}
		if len(b.entries) == tileWidth {
			s.tail = nil
		}
	}
	return nil
}

// flush writes what is partial, so that the copy can be given a checkpoint.
func (s *store) flush() error {
	if n := uint8(s.tower.size % tileWidth); n != 0 {
		if err := s.put(layout.EntriesPath(s.tower.size/tileWidth, n), joinBundle(s.tail)); err != nil {
			return err
		}
	}
	err := s.tower.partials(func(level, index uint64, tile []byte) error {
		return s.put(layout.TilePath(level, index, uint8(len(tile)/hashSize)), tile)
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(s.dirty)) {
		if err := disk.SyncDirIn(s.root, filepath.FromSlash(dir)); err != nil {
			return fmt.Errorf("sync directory %s: %w", dir, err)
		}
	}
	clear(s.dirty)
	return nil
}

// commit gives the copy a checkpoint, which the caller has compared with the
// copy's root.
func (s *store) commit(raw []byte) error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := writeFile(s.root, layout.CheckpointPath, raw, disk.PowerCut); err != nil {
		return err
	}
	for _, p := range s.stale {
		if err := s.root.RemoveAll(filepath.FromSlash(p)); err != nil {
			return fmt.Errorf("take away older partial tiles: %w", err)
		}
	}
	s.stale = nil
	return nil
}

func (s *store) put(name string, b []byte) error {
	dir := path.Dir(name)
	if !s.made[dir] {
		if err := s.root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return fmt.Errorf("make directory %s: %w", dir, err)
		}
		s.made[dir] = true
		for d := dir; ; d = path.Dir(d) {
			s.dirty[d] = true
			if d == "." {
				break
			}
		}
	}
	s.dirty[dir] = true
	if err := writeFile(s.root, name, b, disk.Content); err != nil {
		return err
	}
	if path.Ext(dir) != ".p" {
		s.stale = append(s.stale, name+".p")
	}
	return nil
}

func joinBundle(entries [][]byte) []byte {
	var b []byte
	for _, e := range entries {
		b = append(b, byte(len(e)>>8), byte(len(e)))
		b = append(b, e...)
	}
	return b
}

// fetchFrom reads bundles of a log of one size.
func fetchFrom(src Source, size uint64) fetchBundle {
	return func(ctx context.Context, index uint64, n int) ([][]byte, error) {
		p := layout.PartialTileSize(0, index, size)
		raw, err := src.Entries(ctx, index, p)
		if err != nil {
			return nil, err
		}
		entries, err := parseBundle(raw, width(p))
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", layout.EntriesPath(index, p), nameOf(src), err)
		}
		return entries[:n], nil
	}
}
