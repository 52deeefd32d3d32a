package tlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/transparency-dev/tessera/api/layout"

	"github.com/assay-bench/assay/internal/disk"
)

// Tessera's own files, which a log has while somebody appends to it.
const (
	stateDir      = ".state"
	treeStateFile = stateDir + "/treeState"
	gcStateFile   = stateDir + "/gcState"
	versionFile   = stateDir + "/version"
	stateVersion  = "1"
)

// treeState is how far Tessera has integrated.
type treeState struct {
	Size uint64 `json:"size"`
	Root []byte `json:"root"`
	file bool   // it was read from a file
}

type gcState struct {
	FromSize uint64 `json:"fromSize"`
}

// readState reads how far a directory's tree goes. A mirror has no such state
// and ends at its checkpoint.
func (c *checker) readState(ctx context.Context) error {
	if b, err := c.dir.read(versionFile, 4096); err == nil {
		if string(b) != stateVersion {
			c.problem(versionFile, "is %.20q; only %q is known here", b, stateVersion)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return c.damage(versionFile, err)
	}
	b, err := c.dir.read(treeStateFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return c.damage(treeStateFile, err)
	}
	var s treeState
	if err := json.Unmarshal(b, &s); err != nil || len(s.Root) != hashSize || !spelled(s, b) {
		c.problem(treeStateFile, "is not what Tessera writes")
		return nil
	}
	s.file = true
	// Sizes beyond what can be there would have us look for entries without end.
	if s.Size < c.signed.Size {
		c.problem(treeStateFile, "ends at entry %d, and the checkpoint at %d: the log would go on from too early and fork; restore it with `assay ledger restore`", s.Size, c.signed.Size)
		return nil
	}
	if s.Size > c.signed.Size {
		last := (s.Size - 1) / tileWidth
		if _, err := c.dir.Entries(ctx, last, layout.PartialTileSize(0, last, s.Size)); errors.Is(err, fs.ErrNotExist) {
			c.problem(treeStateFile, "says that there are %d entries, and the last ones are missing", s.Size)
			return nil
		}
	}
	c.state = s
	return nil
}

// spelled reports whether b is the one spelling of v.
func spelled(v any, b []byte) bool {
	again, err := json.Marshal(v)
	return err == nil && bytes.Equal(again, b)
}

// stalePartials compares older, shorter versions of a tile or bundle with what
// is right: n elements, in want.
func (c *checker) stalePartials(full string, want []byte, n int) error {
	list, err := c.dir.partials(full)
	if err != nil {
		return fmt.Errorf("check log %s: %w", c.r.Log, err)
	}
	cut := cutBundle
	if !strings.HasPrefix(full, "tile/entries/") {
		cut = cutTile
	}
	for _, f := range list {
		w, err := strconv.ParseUint(f.Name(), 10, 8)
		if err != nil || w == 0 || !f.Type().IsRegular() {
			continue // listFiles names it
		}
		file := full + ".p/" + f.Name()
		got, err := c.dir.read(file, maxBundle)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the log grew, and took it away
		}
		if err != nil {
			if err := c.damage(file, err); err != nil {
				return err
			}
			continue
		}
		c.r.Partials++
		// A batch that was never finished may reach beyond the log's end.
		expect := want
		var err1, err2 error
		if int(w) < n {
			expect, err1 = cut(want, int(w))
		} else if int(w) > n {
			got, err2 = cut(got, n)
		}
		if err1 != nil || err2 != nil || !bytes.Equal(got, expect) {
			c.stale = append(c.stale, Problem{file, "was altered: it is not the beginning of what the log holds there"})
		}
	}
	return nil
}

// listFiles looks at every name in the directory.
func (c *checker) listFiles() error {
	beyond, temporary := 0, 0
	err := fs.WalkDir(c.dir.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of a log that is at work
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			c.problem(name, "is no regular file")
			return nil
		}
		switch belongs(name, c.state.Size) {
		case isForeign:
			c.problem(name, "does not belong to a log")
		case isBeyond:
			beyond++
		case isTemporary:
			temporary++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check log %s: %w", c.r.Log, err)
	}
	if beyond > 0 {
		c.note("tile", "%d files are beyond the log's end: a batch that was not finished, or the log grew meanwhile", beyond)
	}
	if temporary > 0 {
		c.note(".", "%d temporary files were left over by a crash, or are being written", temporary)
	}
	return c.readGC()
}

func (c *checker) readGC() error {
	b, err := c.dir.read(gcStateFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return c.damage(gcStateFile, err)
	}
	var g gcState
	if err := json.Unmarshal(b, &g); err != nil || !spelled(g, b) || g.FromSize%tileWidth != 0 {
		c.problem(gcStateFile, "is not what Tessera writes")
	} else if g.FromSize > c.state.Size {
		c.problem(gcStateFile, "says that partial tiles were cleared up to entry %d, and the log ends at %d", g.FromSize, c.state.Size)
	}
	return nil
}

type belonging int

const (
	isForeign belonging = iota
	isOurs
	isBeyond
	isTemporary
)

// belongs says whether a log of this size has a file of this name.
func belongs(name string, size uint64) belonging {
	if b := belongsExactly(name, size); b != isForeign {
		return b
	}
	// Tessera writes NAME and a number, and renames.
	for i := len(name) - 1; i > 0 && len(name)-i <= 10 && name[i] >= '0' && name[i] <= '9'; i-- {
		if b := belongsExactly(name[:i], size); b != isForeign {
			return isTemporary
		}
	}
	if dir, base := path.Split(name); disk.Unfinished(base) && (dir == "" || strings.HasPrefix(dir, "tile/")) {
		return isTemporary
	}
	return isForeign
}

func belongsExactly(name string, size uint64) belonging {
	switch name {
	case layout.CheckpointPath, treeStateFile, treeStateFile + ".lock", gcStateFile, gcStateFile + ".lock", versionFile, stateDir + "/publish.lock":
		return isOurs
	}
	rest, ok := strings.CutPrefix(name, "tile/")
	if !ok {
		return isForeign
	}
	kind, number, ok := strings.Cut(rest, "/")
	if !ok {
		return isForeign
	}
	index, partial, err := layout.ParseTileIndexPartial(number)
	if err != nil {
		return isForeign
	}
	level := uint64(0)
	again := layout.EntriesPath(index, partial)
	if kind != "entries" {
		if level, err = layout.ParseTileLevel(kind); err != nil || level > 7 {
			return isForeign
		}
		again = layout.TilePath(level, index, partial)
	}
	if again != name {
		return isForeign
	}
	if at := size >> (layout.TileHeight * level); index > at/tileWidth || index*tileWidth+uint64(width(partial)) > at {
		return isBeyond
	}
	return isOurs
}
