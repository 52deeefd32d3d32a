package tlog

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api/layout"
)

type hash = [hashSize]byte

func leafHash(entry []byte) hash {
	h := sha256.New()
	h.Write([]byte{rfc6962.RFC6962LeafHashPrefix})
	h.Write(entry)
	return hash(h.Sum(nil))
}

func nodeHash(left, right []byte) hash {
	var b [1 + 2*hashSize]byte
	b[0] = rfc6962.RFC6962NodeHashPrefix
	copy(b[1:], left)
	copy(b[1+hashSize:], right)
	return sha256.Sum256(b[:])
}

// perfect is the root of a perfect tree over a power of two of hashes.
func perfect(hashes []byte) hash {
	work := append(make([]byte, 0, tileWidth*hashSize), hashes...)
	for len(work) > hashSize {
		half := work[:0]
		for i := 0; i < len(work); i += 2 * hashSize {
			h := nodeHash(work[i:i+hashSize], work[i+hashSize:i+2*hashSize])
			half = append(half, h[:]...)
		}
		work = half
	}
	return hash(work)
}

// tower makes a log's hash tiles from its leaves, from left to right: at each
// level it holds the one tile that is not full yet. A full tile's root is one
// hash of the tile above it, and nothing else of it is needed again.
type tower struct {
	size uint64
	open [][]byte // by level: the hashes of the tile that is open
	full func(level, index uint64, tile []byte) error
}

func (t *tower) add(leaf hash) error {
	t.size++
	for level := uint64(0); ; level++ {
		if level == uint64(len(t.open)) {
			t.open = append(t.open, make([]byte, 0, tileWidth*hashSize))
		}
		t.open[level] = append(t.open[level], leaf[:]...)
		if len(t.open[level]) < tileWidth*hashSize {
			return nil
		}
		index := t.size>>(layout.TileHeight*(level+1)) - 1
		if t.full != nil {
			if err := t.full(level, index, t.open[level]); err != nil {
				return err
			}
		}
		leaf = perfect(t.open[level])
		t.open[level] = t.open[level][:0]
	}
}

// clone is for a way back.
func (t *tower) clone() *tower {
	c := *t
	c.open = make([][]byte, len(t.open))
	for i := range t.open {
		c.open[i] = append(make([]byte, 0, tileWidth*hashSize), t.open[i]...)
	}
	return &c
}

// partials gives the tiles that are open.
func (t *tower) partials(give func(level, index uint64, tile []byte) error) error {
	for level, tile := range t.open {
		if len(tile) == 0 {
			continue
		}
		if err := give(uint64(level), t.size>>(layout.TileHeight*(level+1)), tile); err != nil {
			return err
		}
	}
	return nil
}

// root is the tree's root: the perfect trees that make it up, largest first,
// joined from the right.
func (t *tower) root() hash {
	var peaks []hash
	for level := len(t.open) - 1; level >= 0; level-- {
		tile := t.open[level]
		for n := tileWidth / 2; n > 0; n /= 2 {
			if len(tile)/hashSize&n != 0 {
				at := len(tile) / hashSize &^ (2*n - 1) * hashSize
				peaks = append(peaks, perfect(tile[at:at+n*hashSize]))
			}
		}
	}
	if len(peaks) == 0 {
		return sha256.Sum256(nil)
	}
	acc := peaks[len(peaks)-1]
	for i := len(peaks) - 2; i >= 0; i-- {
		acc = nodeHash(peaks[i][:], acc[:])
	}
	return acc
}

// loadTower takes up a tree at its right edge, from the tiles that are open at
// this size. Its root is what the tiles say and must be compared.
func loadTower(ctx context.Context, src Source, size uint64) (*tower, error) {
	t := &tower{size: size}
	for level := uint64(0); size>>(layout.TileHeight*level) > 0; level++ {
		open := make([]byte, 0, tileWidth*hashSize)
		index := size >> (layout.TileHeight * (level + 1))
		if p := layout.PartialTileSize(level, index, size); p != 0 {
			b, err := readTile(ctx, src, level, index, p)
			if err != nil {
				return nil, err
			}
			open = append(open, b...)
		}
		t.open = append(t.open, open)
	}
	return t, nil
}

// readTile reads a tile and sees to its length.
func readTile(ctx context.Context, src Source, level, index uint64, partial uint8) ([]byte, error) {
	b, err := src.Tile(ctx, level, index, partial)
	if err != nil {
		return nil, err
	}
	if len(b) != width(partial)*hashSize {
		return nil, fmt.Errorf("%w: %s has %d bytes where %d were due", ErrAnswer, layout.TilePath(level, index, partial), len(b), width(partial)*hashSize)
	}
	return b, nil
}

// nodeReader reads nodes of a tree of one size out of its tiles. They are not
// checked: what is proven with them is.
type nodeReader struct {
	src   Source
	size  uint64
	tiles map[[2]uint64][]byte
}

func (r *nodeReader) hashes(ctx context.Context, n proof.Nodes) ([][]byte, error) {
	raw := make([][]byte, 0, len(n.IDs))
	for _, id := range n.IDs {
		h, err := r.node(ctx, id)
		if err != nil {
			return nil, err
		}
		raw = append(raw, h[:])
	}
	return n.Rehash(raw, rfc6962.DefaultHasher.HashChildren)
}

func (r *nodeReader) node(ctx context.Context, id compact.NodeID) (hash, error) {
	level, index, inner, at := layout.NodeCoordsToTileAddress(uint64(id.Level), id.Index)
	tile, ok := r.tiles[[2]uint64{level, index}]
	if !ok {
		var err error
		if tile, err = readTile(ctx, r.src, level, index, layout.PartialTileSize(level, index, r.size)); err != nil {
			return hash{}, err
		}
		if r.tiles == nil {
			r.tiles = map[[2]uint64][]byte{}
		}
		r.tiles[[2]uint64{level, index}] = tile
	}
	from, to := int(at)<<inner*hashSize, int(at+1)<<inner*hashSize
	if to > len(tile) {
		return hash{}, fmt.Errorf("%w: %s has no node %d at height %d", ErrAnswer, layout.TilePath(level, index, 0), at, inner)
	}
	return perfect(tile[from:to]), nil
}

// inclusion makes the proof that an entry is in the tree.
func (r *nodeReader) inclusion(ctx context.Context, index uint64) ([][]byte, error) {
	n, err := proof.Inclusion(index, r.size)
	if err != nil {
		return nil, err
	}
	return r.hashes(ctx, n)
}

// consistency makes the proof that the tree goes on from a smaller one.
func (r *nodeReader) consistency(ctx context.Context, from uint64) ([][]byte, error) {
	n, err := proof.Consistency(from, r.size)
	if err != nil {
		return nil, err
	}
	return r.hashes(ctx, n)
}
