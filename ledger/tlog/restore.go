package tlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/transparency-dev/tessera/api/layout"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// Errors of a restoration.
var (
	// ErrMissing: the copies end before what somebody outside has seen. With them
	// the log would go back, and its witnesses would refuse it for ever.
	ErrMissing = errors.New("entries are missing")
	// ErrNotEmpty: there is something where the log is to be.
	ErrNotEmpty = errors.New("it is not empty")
)

// Restored is what a restoration made.
type Restored struct {
	Dir    string            `json:"dir"`
	Size   uint64            `json:"size"`
	Origin string            `json:"origin"`
	From   map[string]uint64 `json:"from"` // bundles by source
}

// RestoreOptions are for who looks on. The zero value is good.
type RestoreOptions struct {
	Progress func(done, size uint64) // entries; nil: nobody looks
}

// known is a checkpoint, and where it was found.
type known struct {
	ledger.Checkpoint
	where string
}

// Restore makes a log's directory anew from copies: backups, mirrors, what is
// left of the log. Tessera's appender goes on with it.
//
// Each source gives the entries that the ones before it lack. The new log ends
// at the largest checkpoint that is known, and every known checkpoint must be
// one of its beginnings: that of each source, and those in witnessed, which
// come from witnesses and monitors. When no source has the entries up to there,
// it is ErrMissing: a log that went on from an earlier size would be a fork.
//
// Tessera's own migration is not used for it: it waits without end when a write
// fails. The state that it would leave is written here, last, into a directory
// that gets its name when it is complete.
func Restore(ctx context.Context, from []Source, into string, p ledger.Policy, witnessed [][]byte, o RestoreOptions) (Restored, error) {
	r := Restored{Dir: into, From: map[string]uint64{}}
	fail := func(err error) (Restored, error) { return r, fmt.Errorf("restore into %s: %w", into, err) }
	if empty, err := isEmpty(into); err != nil {
		return fail(err)
	} else if !empty {
		return fail(fmt.Errorf("%w; move it away first: it may hold entries that the copies lack", ErrNotEmpty))
	}
	points, err := checkpoints(ctx, from, p, witnessed)
	if err != nil {
		return fail(err)
	}
	target := slices.MaxFunc(points, func(a, b known) int { return cmp.Compare(a.Size, b.Size) })
	temp := strings.TrimSuffix(into, string(filepath.Separator)) + ".restoring"
	if err := os.RemoveAll(temp); err != nil {
		return fail(err)
	}
	s, err := openStore(temp)
	if err != nil {
		return fail(err)
	}
	r.Origin, r.Size = target.Origin, target.Size
	err = s.restore(ctx, from, points, p, &r, o)
	err = errors.Join(err, s.close())
	if err == nil {
		err = rename(temp, into)
	}
	if err != nil {
		return fail(errors.Join(err, os.RemoveAll(temp)))
	}
	return r, nil
}

// checkpoints collects what is known. A source need not have one: a damaged
// log's directory gives entries too.
func checkpoints(ctx context.Context, from []Source, p ledger.Policy, witnessed [][]byte) ([]known, error) {
	var points []known
	p = withoutQuorum(p) // what a single witness has seen, it will hold us to
	for i, raw := range witnessed {
		c, err := p.Open(raw)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %d from outside: %w", i+1, err)
		}
		points = append(points, known{c, "seen from outside"})
	}
	for _, src := range from {
		raw, err := src.Checkpoint(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c, err := p.Open(raw)
		if err != nil {
			return nil, fmt.Errorf("checkpoint of %s: %w", nameOf(src), err)
		}
		points = append(points, known{c, "of " + nameOf(src)})
	}
	if len(points) == 0 {
		return nil, errors.New("no checkpoint is known: without one, nothing says what the log was; take it from a mirror, a witness or a receipt")
	}
	for _, k := range points {
		if k.Origin != points[0].Origin {
			return nil, fmt.Errorf("the checkpoint %s is of the log %q, and the one %s of %q", points[0].where, points[0].Origin, k.where, k.Origin)
		}
	}
	return points, nil
}

func (s *store) restore(ctx context.Context, from []Source, points []known, p ledger.Policy, r *Restored, o RestoreOptions) error {
	published := publish(points, p, r.Size)
	reached := func(size uint64) error {
		for _, k := range points {
			if k.Size == size && s.tower.root() != k.Root {
				return fmt.Errorf("%w: the first %d entries do not give the root of the checkpoint %s. An entry of a copy was altered, or the log was forked; look at each copy with `assay ledger fsck`, and leave out the one that is wrong", ErrAltered, size, k.where)
			}
		}
		if o.Progress != nil && (size%tileWidth == 0 || size == r.Size) {
			o.Progress(size, r.Size)
		}
		if size == published.Size {
			return s.flush() // its partial tiles must be there too
		}
		return nil
	}
	if err := reached(0); err != nil {
		return err
	}
	g := &gather{from: from, points: points, size: r.Size, taken: r.From}
	if err := s.grow(ctx, r.Size, g.bundle, reached); err != nil {
		return err
	}
	if err := s.putState(); err != nil {
		return err
	}
	return s.commit(published.Raw)
}

// publish chooses the checkpoint that the new log shows first: the largest that
// the policy accepts. The appender makes one for all entries when it starts.
func publish(points []known, p ledger.Policy, size uint64) known {
	var best, last known
	for _, k := range points {
		if k.Size == size {
			last = k
		}
		if _, err := p.Open(k.Raw); err == nil && (best.Raw == nil || k.Size > best.Size) {
			best = k
		}
	}
	if best.Raw == nil {
		return last
	}
	return best
}

// putState writes what Tessera's appender starts from.
func (s *store) putState() error {
	root := s.tower.root()
	state, err := json.Marshal(treeState{Size: s.tower.size, Root: root[:]})
	if err != nil {
		return err
	}
	if err := s.put(versionFile, []byte(stateVersion)); err != nil {
		return err
	}
	return s.put(treeStateFile, state)
}

// rename gives the finished directory its name.
func rename(temp, into string) error {
	if err := os.Rename(temp, into); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(into))
}

// gather takes each bundle from the first source that has it.
type gather struct {
	from   []Source
	points []known
	size   uint64

	mu    sync.Mutex
	taken map[string]uint64 // bundles by source
}

func (g *gather) bundle(ctx context.Context, index uint64, n int) ([][]byte, error) {
	var longest int
	var why []error
	for _, src := range g.from {
		for _, p := range g.widths(src, index, n) {
			raw, err := src.Entries(ctx, index, p)
			if err == nil {
				var entries [][]byte
				if entries, err = parseBundle(raw, width(p)); err == nil && len(entries) >= n {
					g.mu.Lock()
					g.taken[nameOf(src)]++
					g.mu.Unlock()
					return entries[:n], nil
				}
				longest = max(longest, len(entries))
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				why = append(why, err)
			}
		}
	}
	first := index*tileWidth + uint64(longest)
	return nil, errors.Join(append([]error{fmt.Errorf("%w: %d..%d are in none of the copies, and the log had them: find them in a mirror; otherwise this log must end and one with a new origin begin",
		ErrMissing, first, g.gapEnd(ctx, index)-1)}, why...)...)
}

// widths are those in which a source may have a bundle: as it is needed, as its
// own checkpoint has it, and, in a directory, any that lies there.
func (g *gather) widths(src Source, index uint64, n int) []uint8 {
	list := []uint8{uint8(n % tileWidth)}
	for _, k := range g.points {
		if at := k.Size / tileWidth; at == index && k.Size%tileWidth != 0 {
			list = append(list, uint8(k.Size%tileWidth))
		}
	}
	if d, ok := src.(*dirLog); ok {
		files, _ := d.partials(layout.EntriesPath(index, 0)) // the next source may have it
		for _, f := range files {
			if w, err := strconv.ParseUint(f.Name(), 10, 8); err == nil && w > 0 {
				list = append(list, uint8(w))
			}
		}
	}
	slices.SortFunc(list, func(a, b uint8) int { return width(b) - width(a) })
	return slices.Compact(list)
}

// gapEnd is where entries are there again; it does not look far.
func (g *gather) gapEnd(ctx context.Context, index uint64) uint64 {
	for next := index + 1; next <= index+64; next++ {
		start := next * tileWidth
		if start >= g.size {
			return g.size
		}
		p := layout.PartialTileSize(0, next, g.size)
		for _, src := range g.from {
			if _, err := src.Entries(ctx, next, p); err == nil {
				return start
			}
		}
	}
	return g.size
}
