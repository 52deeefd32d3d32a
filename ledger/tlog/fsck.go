package tlog

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"

	"github.com/transparency-dev/tessera/api/layout"

	"github.com/assay-bench/assay/ledger"
)

// Records gives what Kafka holds now at positions: the records' values in the
// same order, nil for one that is no longer there. It is asked for at most 256
// positions at a time, in the log's order, in which those of one partition
// mostly rise.
type Records func(ctx context.Context, at []ledger.Position) ([][]byte, error)

// FsckOptions say what is checked beyond the log itself. The zero value is good.
type FsckOptions struct {
	Keys     *ledger.Keyring         // check each envelope's signature; key statements of the log are added. nil: not
	Records  Records                 // compare each entry with its record. nil: not
	Window   uint64                  // ids closer together than this must differ; 0: 1,048,576, the notary's
	Progress func(done, size uint64) // entries; nil: nobody looks
}

// Problem is one thing that is not as it must be, and the file it is in.
type Problem struct {
	File string `json:"file"`
	What string `json:"what"`
}

// Report is what Fsck found. It is good when it has no problem; notes are worth
// knowing and no damage.
type Report struct {
	Log        string    `json:"log"`
	Origin     string    `json:"origin,omitempty"`
	Size       uint64    `json:"size"`
	Root       string    `json:"root,omitempty"`
	Witnesses  []string  `json:"witnesses"`
	Integrated uint64    `json:"integrated"` // entries that are in the tree; the last ones may wait for a checkpoint
	Bundles    uint64    `json:"bundles"`
	Tiles      uint64    `json:"tiles"`
	Partials   uint64    `json:"partials"` // older partial tiles and bundles that lie beside
	Listed     bool      `json:"listed"`   // every file of a directory was looked at, not only those that belong
	Signatures uint64    `json:"signatures"`
	Compared   uint64    `json:"compared"`
	Problems   []Problem `json:"problems"`
	Unlisted   uint64    `json:"unlisted"` // problems beyond the first 1,000
	Notes      []Problem `json:"notes"`
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return len(r.Problems) == 0 }

const maxProblems = 1000

// Fsck checks a whole log: the checkpoint's signatures, every entry, every hash
// tile at every level made again from the entries and compared byte for byte,
// the root, and that no id and no position is there twice. Of a directory it
// also looks at every file: older partial tiles must be beginnings of the
// newer, and what does not belong is named.
//
// The error says that it could not be checked; what is wrong is in the report.
func Fsck(ctx context.Context, src Source, p ledger.Policy, o FsckOptions) (Report, error) {
	c := &checker{src: src, o: o, r: Report{Log: nameOf(src), Witnesses: []string{}, Problems: []Problem{}, Notes: []Problem{}}}
	if c.o.Window == 0 {
		c.o.Window = 1 << 20
	}
	c.dir, _ = src.(*dirLog)
	err := c.check(ctx, p)
	return c.r, err
}

type checker struct {
	src  Source
	dir  *dirLog // nil: not a directory
	o    FsckOptions
	r    Report
	seen seen

	signed ledger.Checkpoint
	state  treeState // what Tessera has integrated; the checkpoint's own without it

	entries, tiles tree // made from the entries, and from the tiles of level 0

	differ []chunk              // bundles and tiles of level 0 that disagree
	stored map[[2]uint64][]byte // tiles of higher levels that were read for entries, and are compared for tiles too
	stale  []Problem            // older partial tiles that are no beginnings; true only when the entries are right
}

// tree is one of two ways to the root: when they differ, the signed root says
// which of them was altered.
type tree struct {
	tower
	signed hash // its root at the checkpoint's size
	bad    []Problem
}

// chunk is 256 entries, or the last ones.
type chunk struct {
	index   uint64
	partial uint8
	raw     []byte
	leaves  [][]byte
	hashes  []byte // of the leaves
	tile    []byte
	bundleE error
	tileE   error
}

func (k chunk) bundleFile() string { return layout.EntriesPath(k.index, k.partial) }
func (k chunk) tileFile() string   { return layout.TilePath(0, k.index, k.partial) }

func (c *checker) problem(file, format string, args ...any) {
	if len(c.r.Problems) == maxProblems {
		c.r.Unlisted++
		return
	}
	c.r.Problems = append(c.r.Problems, Problem{file, fmt.Sprintf(format, args...)})
}

func (c *checker) note(file, format string, args ...any) {
	if len(c.r.Notes) < maxProblems {
		c.r.Notes = append(c.r.Notes, Problem{file, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) check(ctx context.Context, p ledger.Policy) error {
	raw, err := c.src.Checkpoint(ctx)
	if err != nil {
		return c.damage(layout.CheckpointPath, err)
	}
	if c.signed, err = p.Open(raw); err != nil {
		c.problem(layout.CheckpointPath, "%v", err)
		return nil
	}
	c.r.Origin, c.r.Size = c.signed.Origin, c.signed.Size
	c.r.Root = base64.StdEncoding.EncodeToString(c.signed.Root[:])
	for _, w := range c.signed.Cosigned {
		c.r.Witnesses = append(c.r.Witnesses, w.Name)
	}
	c.state = treeState{Size: c.signed.Size, Root: c.signed.Root[:]}
	if c.dir != nil {
		if err := c.readState(ctx); err != nil {
			return err
		}
	}
	c.r.Integrated = c.state.Size
	c.entries.full = c.compareUpper(ctx, &c.entries)
	c.tiles.full = c.compareUpper(ctx, &c.tiles)
	c.stored = map[[2]uint64][]byte{}
	if err := c.walkTree(ctx); err != nil {
		return err
	}
	if err := c.publishedTiles(ctx); err != nil {
		return err
	}
	c.judge()
	if err := c.seen.duplicates(ctx, c); err != nil {
		return err
	}
	if c.dir != nil {
		c.r.Listed = true
		return c.listFiles()
	}
	return nil
}

// damage tells what is wrong with a log from what keeps us from reading it.
func (c *checker) damage(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.problem(file, "is missing")
	case errors.Is(err, ErrAnswer):
		c.problem(file, "%v", err)
	default:
		return fmt.Errorf("check log %s: %w", c.r.Log, err)
	}
	return nil
}

func (c *checker) walkTree(ctx context.Context) error {
	end := c.state.Size
	c.markSigned(0)
	if end == 0 {
		return nil
	}
	for k := range inOrder(ctx, 0, (end-1)/tileWidth, c.readChunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.chunk(ctx, k); err != nil {
			return err
		}
		if c.o.Progress != nil {
			c.o.Progress(c.entries.size, end)
		}
	}
	for _, t := range []*tree{&c.entries, &c.tiles} {
		err := t.partials(func(level, index uint64, tile []byte) error {
			if level == 0 {
				return nil // compared with its bundle
			}
			return c.compareTile(ctx, t, level, index, uint8(len(tile)/hashSize), tile)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readChunk reads, parses and hashes one bundle and its tile. It runs beside
// others and touches nothing shared.
func (c *checker) readChunk(ctx context.Context, index uint64) chunk {
	k := chunk{index: index, partial: layout.PartialTileSize(0, index, c.state.Size)}
	n := width(k.partial)
	if k.raw, k.bundleE = c.src.Entries(ctx, index, k.partial); k.bundleE == nil {
		k.leaves, k.bundleE = parseBundle(k.raw, n)
	}
	for _, e := range k.leaves {
		h := leafHash(e)
		k.hashes = append(k.hashes, h[:]...)
	}
	k.tile, k.tileE = readTile(ctx, c.src, 0, index, k.partial)
	return k
}

func (c *checker) chunk(ctx context.Context, k chunk) error {
	if k.bundleE != nil {
		if err := c.damage(k.bundleFile(), k.bundleE); err != nil {
			return err
		}
	}
	if k.tileE != nil {
		if err := c.damage(k.tileFile(), k.tileE); err != nil {
			return err
		}
	}
	c.r.Bundles++
	c.r.Tiles++
	// What cannot be read is taken from the other side, so that the rest can be
	// checked: it is a problem already.
	fromEntries, fromTile := k.hashes, k.tile
	switch {
	case k.bundleE != nil && k.tileE != nil:
		fromEntries = make([]byte, width(k.partial)*hashSize)
		fromTile = fromEntries
	case k.bundleE != nil:
		fromEntries = fromTile
	case k.tileE != nil:
		fromTile = fromEntries
	}
	if !bytes.Equal(fromEntries, fromTile) {
		d := k
		d.raw, d.leaves = nil, nil
		c.differ = append(c.differ, d)
	}
	if c.dir != nil && k.bundleE == nil {
		if err := c.stalePartials(layout.EntriesPath(k.index, 0), k.raw, width(k.partial)); err != nil {
			return err
		}
		if err := c.stalePartials(layout.TilePath(0, k.index, 0), k.hashes, width(k.partial)); err != nil {
			return err
		}
	}
	if err := c.readLeaves(ctx, k); err != nil {
		return err
	}
	for at := 0; at < len(fromEntries); at += hashSize {
		if err := errors.Join(c.entries.add(hash(fromEntries[at:at+hashSize])), c.tiles.add(hash(fromTile[at:at+hashSize]))); err != nil {
			return err
		}
		c.markSigned(c.entries.size)
	}
	return nil
}

func (c *checker) markSigned(size uint64) {
	if size == c.signed.Size {
		c.entries.signed, c.tiles.signed = c.entries.root(), c.tiles.root()
	}
}

func (c *checker) compareUpper(ctx context.Context, t *tree) func(level, index uint64, tile []byte) error {
	return func(level, index uint64, tile []byte) error {
		if level == 0 {
			return nil // compared with its bundle
		}
		return c.compareTile(ctx, t, level, index, 0, tile)
	}
}

// compareTile holds a tile of a higher level against what it must be. The tree
// of the entries comes first and reads it.
func (c *checker) compareTile(ctx context.Context, t *tree, level, index uint64, partial uint8, want []byte) error {
	file := layout.TilePath(level, index, partial)
	key := [2]uint64{level, index}
	got, read := c.stored[key]
	if t == &c.entries {
		c.r.Tiles++
		b, err := readTile(ctx, c.src, level, index, partial)
		if err != nil {
			return c.damage(file, err)
		}
		got, read = b, true
		c.stored[key] = b
		if c.dir != nil {
			if err := c.stalePartials(layout.TilePath(level, index, 0), want, width(partial)); err != nil {
				return err
			}
		}
	} else {
		delete(c.stored, key)
	}
	if read && !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		t.bad = append(t.bad, Problem{file, fmt.Sprintf("was altered: its hash %d is not that of the tile below it", i/hashSize)})
	}
	return nil
}

// publishedTiles sees that what the checkpoint needs is there too, when the log
// has grown beyond it.
func (c *checker) publishedTiles(ctx context.Context) error {
	size := c.signed.Size
	if size == c.state.Size {
		return nil
	}
	for level := uint64(0); size>>(layout.TileHeight*level) > 0; level++ {
		index := size >> (layout.TileHeight * (level + 1))
		p := layout.PartialTileSize(level, index, size)
		if p == 0 {
			continue
		}
		if _, err := readTile(ctx, c.src, level, index, p); err != nil {
			if err := c.damage(layout.TilePath(level, index, p), err); err != nil {
				return err
			}
		}
		if level == 0 {
			if _, err := c.src.Entries(ctx, index, p); err != nil {
				if err := c.damage(layout.EntriesPath(index, p), err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// judge names what was altered. The entries and the tiles each lead to a root;
// the one that is signed tells which of them to believe.
func (c *checker) judge() {
	right := func(t *tree) bool {
		return t.signed == c.signed.Root && bytes.Equal(rootOf(t), c.state.Root)
	}
	switch {
	case right(&c.entries):
		for _, k := range c.differ {
			c.problem(k.tileFile(), "was altered: its hash %d is not that of entry %d", k.first(), k.index*tileWidth+k.first())
		}
		c.add(c.entries.bad)
		c.add(c.stale)
	case right(&c.tiles):
		for _, k := range c.differ {
			c.problem(k.bundleFile(), "was altered: entry %d does not have the hash that the checkpoint's tree has for it", k.index*tileWidth+k.first())
		}
		c.add(c.tiles.bad)
	default:
		for _, k := range c.differ {
			c.problem(k.bundleFile(), "does not agree with %s about entry %d, and neither leads to the signed root", k.tileFile(), k.index*tileWidth+k.first())
		}
		c.add(c.entries.bad)
		if c.entries.signed != c.signed.Root {
			c.problem(layout.CheckpointPath, "its root is not that of the %d entries", c.signed.Size)
		}
		if !bytes.Equal(rootOf(&c.entries), c.state.Root) && c.state.file {
			c.problem(treeStateFile, "its root is not that of the %d entries", c.state.Size)
		}
	}
}

// first is where the two sides of a chunk begin to differ.
func (k chunk) first() uint64 {
	i := 0
	for i < min(len(k.hashes), len(k.tile)) && k.hashes[i] == k.tile[i] {
		i++
	}
	return uint64(i / hashSize)
}

func (c *checker) add(list []Problem) {
	for _, p := range list {
		c.problem(p.File, "%s", p.What)
	}
}

func rootOf(t *tree) []byte {
	h := t.root()
	return h[:]
}
