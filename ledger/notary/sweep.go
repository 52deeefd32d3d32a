package notary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/transparency-dev/tessera/api/layout"
)

// How far beyond the end tiles are looked for: more than any batch writes.
const (
	sweepTiles   = 256 // of level 0, and bundles: 65,536 entries
	sweepAbove   = 2   // of each level above
	sweepHighest = 7
)

// sweep removes what a batch that was never finished left beyond the log's end.
// It is under no checkpoint, and Tessera would write over most of it. But not over
// a partial tile of a width that the log then never has: that would stay, and look
// like a tile that somebody altered.
func (n *Notary) sweep(size uint64) error {
	for level := uint64(0); level <= sweepHighest; level++ {
		nodes := size >> (layout.TileHeight * level)
		first, width := nodes/layout.TileWidth, nodes%layout.TileWidth
		look := uint64(sweepAbove)
		if level == 0 {
			look = sweepTiles
		}
		for index := first; index < first+look; index++ {
			paths := []string{layout.TilePath(level, index, 0)}
			if level == 0 {
				paths = append(paths, layout.EntriesPath(index, 0))
			}
			for _, path := range paths {
				if err := sweepTile(filepath.Join(n.logDir(), path), width); err != nil {
					return fmt.Errorf("%w: remove what an unfinished batch left: %w", ErrWrite, err)
				}
			}
			width = 0
		}
	}
	return nil
}

// sweepTile removes a full tile, and its partial ones that are wider than what
// the log has.
func sweepTile(full string, width uint64) error {
	if err := os.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	list, err := os.ReadDir(full + ".p")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range list {
		if w, err := strconv.ParseUint(f.Name(), 10, 64); err == nil && w > width {
			if err := os.Remove(filepath.Join(full+".p", f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
