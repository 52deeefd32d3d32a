package tlog

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// Keys reads a whole log and gives every statement about a key in it, key
// statements and revocations, in the log's order and with their proofs. The
// entries are those under the checkpoint: the root is made again from them, so
// that none was left out on the way. Whether a statement counts is for a keyring
// to say.
func Keys(ctx context.Context, src Source, p ledger.Policy, now time.Time, progress func(done, size uint64)) (*ledger.Snapshot, ledger.Checkpoint, error) {
	cp, err := Checkpoint(ctx, src, p)
	if err != nil {
		return nil, cp, err
	}
	out := &ledger.Snapshot{Checkpoint: cp.Raw, Origin: cp.Origin, Size: cp.Size, Root: cp.Root, Time: now.UTC().Truncate(time.Second)}
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
			e.Envelope = append([]byte(nil), e.Envelope...)
			out.Statements = append(out.Statements, ledger.Receipt{Entry: e, Index: leaf.Index})
		}
		if progress != nil && leaf.Index%tileWidth == 0 {
			progress(leaf.Index, cp.Size)
		}
	}
	if tree.size != cp.Size || tree.root() != cp.Root {
		return nil, cp, fmt.Errorf("%w: the entries of %s do not make the root of its checkpoint; assay ledger fsck says more", ErrAltered, nameOf(src))
	}
	nodes := &nodeReader{src: src, size: cp.Size}
	for i := range out.Statements {
		r := &out.Statements[i]
		path, err := nodes.inclusion(ctx, r.Index)
		if err != nil {
			return nil, cp, fmt.Errorf("prove entry %d of %s: %w", r.Index, nameOf(src), err)
		}
		for _, h := range path {
			r.Proof = append(r.Proof, hash(h))
		}
	}
	if _, err := p.VerifySnapshot(out); err != nil {
		return nil, cp, fmt.Errorf("%w: what %s gives does not prove its own statements: %w", ErrAltered, nameOf(src), err)
	}
	return out, cp, nil
}
