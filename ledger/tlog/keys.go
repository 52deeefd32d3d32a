package tlog

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay/ledger"
)

// Keys reads a whole log and gives every statement about a key in it, key
// statements and revocations, as envelopes in the log's order. The entries are
// those under the checkpoint: the root is made again from them, so that none was
// left out on the way. Whether a statement counts is for a keyring to say.
func Keys(ctx context.Context, src Source, p ledger.Policy, progress func(done, size uint64)) ([][]byte, ledger.Checkpoint, error) {
	cp, err := Checkpoint(ctx, src, p)
	if err != nil {
		return nil, cp, err
	}
	var out [][]byte
	var tree tower
	for leaf, err := range ReadEntries(ctx, src, 0, cp.Size, cp.Size) {
		if err != nil {
			return nil, cp, err
		}
		if err := tree.add(leafHash(leaf.Data)); err != nil {
			return nil, cp, err
		}
		e, err := ledger.ParseEntry(leaf.Data)
		if err != nil {
			return nil, cp, fmt.Errorf("%w: entry %d: %w", ErrAltered, leaf.Index, err)
		}
		if ledger.IsAboutKey(e.Envelope) {
			out = append(out, append([]byte(nil), e.Envelope...))
		}
		if progress != nil && leaf.Index%tileWidth == 0 {
			progress(leaf.Index, cp.Size)
		}
	}
	if tree.size != cp.Size || tree.root() != cp.Root {
		return nil, cp, fmt.Errorf("%w: the entries of %s do not make the root of its checkpoint; assay ledger fsck says more", ErrAltered, nameOf(src))
	}
	return out, cp, nil
}
