package notary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/api/layout"
)

// bundles is what reads the log back.
type bundles interface {
	ReadEntryBundle(ctx context.Context, index uint64, partial uint8) ([]byte, error)
}

// entriesOf gives the entries from one index up to a size of the log, a bundle
// at a time. The slices are good until each returns.
func entriesOf(ctx context.Context, log bundles, from, size uint64, each func(first uint64, entries [][]byte) error) error {
	for from < size {
		index := from / layout.EntryBundleWidth
		raw, err := log.ReadEntryBundle(ctx, index, layout.PartialTileSize(0, index, size))
		if err != nil {
			return fmt.Errorf("read entries from %d of the log: %w", from, err)
		}
		var b api.EntryBundle
		if err := b.UnmarshalText(raw); err != nil {
			return fmt.Errorf("entries from %d of the log are not whole: %w; see `assay ledger fsck`", index*layout.EntryBundleWidth, err)
		}
		first := index * layout.EntryBundleWidth
		n := min(size-first, layout.EntryBundleWidth)
		if uint64(len(b.Entries)) < n {
			return fmt.Errorf("the log has %d entries from %d on, not %d; see `assay ledger fsck`", len(b.Entries), first, n)
		}
		if err := each(from, b.Entries[from-first:n]); err != nil {
			return err
		}
		from = first + n
	}
	return nil
}

func entryAt(ctx context.Context, log bundles, index, size uint64) ([]byte, error) {
	var e []byte
	err := entriesOf(ctx, log, index, min(size, (index/layout.EntryBundleWidth+1)*layout.EntryBundleWidth), func(_ uint64, entries [][]byte) error {
		e = bytes.Clone(entries[0])
		return nil
	})
	return e, err
}

var errCheckpoint = errors.New("not a checkpoint")

// checkpointHead reads origin and size of a checkpoint that we wrote ourselves;
// signatures are not looked at.
func checkpointHead(raw []byte) (origin string, size uint64, err error) {
	line := bytes.SplitN(raw, []byte("\n"), 3)
	if len(line) < 3 {
		return "", 0, fmt.Errorf("%w: it begins %.60q", errCheckpoint, raw)
	}
	if size, err = strconv.ParseUint(string(line[1]), 10, 64); err != nil {
		return "", 0, fmt.Errorf("%w: %w", errCheckpoint, err)
	}
	return string(line[0]), size, nil
}

// published gives the checkpoint file; size 0 and nil when there is none yet.
func published(path string) (raw []byte, size uint64, err error) {
	raw, err = os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, err
	}
	_, size, err = checkpointHead(raw)
	return raw, size, err
}
