package tlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
)

// Checkpoint reads a log's checkpoint and holds it against the policy.
func Checkpoint(ctx context.Context, src Source, p ledger.Policy) (ledger.Checkpoint, error) {
	raw, err := src.Checkpoint(ctx)
	if err != nil {
		return ledger.Checkpoint{}, fmt.Errorf("read the checkpoint: %w", err)
	}
	c, err := p.Open(raw)
	if err != nil {
		return ledger.Checkpoint{}, fmt.Errorf("checkpoint of %s: %w", nameOf(src), err)
	}
	return c, nil
}

// Find gives the index of the entry with this id in a log of this size. Two keys
// may have signed with one id, each their own statement: keyID names the key, and
// "" takes the last entry with the id. Hints of the notary say where to look; the
// entry is read and says itself what it is. Without a hint the log is read from
// its end. It is ErrNotFound when the log has no such entry below this size.
func Find(ctx context.Context, src Source, id ulid.ULID, keyID string, size uint64) (uint64, error) {
	if h, ok := src.(hinter); ok {
		index, err := h.lookup(ctx, id, keyID)
		switch {
		case err == nil && index < size:
			if e, err := readEntry(ctx, src, index, size); err == nil && isIt(e, id, keyID) {
				return index, nil
			}
		case err == nil:
			return 0, fmt.Errorf("%s: %w as far as its checkpoint goes: it is at %d, the checkpoint ends at %d", id, ErrNotFound, index, size)
		case errors.Is(err, errNotListed) && answers(ctx, src, h, size):
			return 0, fmt.Errorf("%s: %w, by the word of its notary", id, ErrNotFound)
		case !errors.Is(err, errNoHint) && !errors.Is(err, errNotListed):
			return 0, err
		}
	}
	return scan(ctx, src, id, keyID, size)
}

func isIt(e ledger.Entry, id ulid.ULID, keyID string) bool {
	signer, _ := ledger.SignedBy(e.Envelope)
	return e.ID == id && (keyID == "" || signer == keyID)
}

// answers reports whether a source has an index of ids at all: one that finds
// the newest entry says something when it does not find another. A server of
// files finds none.
func answers(ctx context.Context, src Source, h hinter, size uint64) bool {
	if size == 0 {
		return false
	}
	e, err := readEntry(ctx, src, size-1, size)
	if err != nil {
		return false
	}
	keyID, _ := ledger.SignedBy(e.Envelope)
	index, err := h.lookup(ctx, e.ID, keyID)
	return err == nil && index == size-1
}

// scan looks for an id bundle by bundle, the newest first.
func scan(ctx context.Context, src Source, id ulid.ULID, keyID string, size uint64) (uint64, error) {
	for end := size; end > 0; {
		from := (end - 1) / tileWidth * tileWidth
		found, at := false, uint64(0)
		for l, err := range ReadEntries(ctx, src, from, end, size) {
			if err != nil {
				return 0, fmt.Errorf("look for %s: %w", id, err)
			}
			// An entry that is not ours is for fsck to complain about.
			if e, err := ledger.ParseEntry(l.Data); err == nil && isIt(e, id, keyID) {
				found, at = true, l.Index
			}
		}
		if found {
			return at, nil
		}
		end = from
	}
	return 0, fmt.Errorf("%s: %w (all %d entries were read)", id, ErrNotFound, size)
}

func readEntry(ctx context.Context, src Source, index, size uint64) (ledger.Entry, error) {
	for l, err := range ReadEntries(ctx, src, index, index+1, size) {
		if err != nil {
			return ledger.Entry{}, err
		}
		e, err := ledger.ParseEntry(l.Data)
		if err != nil {
			return ledger.Entry{}, fmt.Errorf("entry %d: %w", index, err)
		}
		return e, nil
	}
	return ledger.Entry{}, fmt.Errorf("entry %d: %w: the log has %d", index, ErrNotFound, size)
}

// ProveAt makes the receipt of an entry under a checkpoint, and gives the entry's
// envelope with it. It is verified before it is given: a log whose tiles do not
// fit its checkpoint gives no receipt.
func ProveAt(ctx context.Context, src Source, p ledger.Policy, c ledger.Checkpoint, index uint64) (ledger.Receipt, []byte, error) {
	fail := func(err error) (ledger.Receipt, []byte, error) {
		return ledger.Receipt{}, nil, fmt.Errorf("prove entry %d of %s: %w", index, nameOf(src), err)
	}
	if index >= c.Size {
		return fail(fmt.Errorf("%w: its checkpoint ends at %d", ErrNotFound, c.Size))
	}
	e, err := readEntry(ctx, src, index, c.Size)
	if err != nil {
		return fail(err)
	}
	path, err := (&nodeReader{src: src, size: c.Size}).inclusion(ctx, index)
	if err != nil {
		return fail(err)
	}
	r := ledger.Receipt{Entry: e, Index: index, Checkpoint: c.Raw}
	r.Entry.Envelope = nil
	for _, h := range path {
		r.Proof = append(r.Proof, hash(h))
	}
	if _, err := p.VerifyReceipt(r, e.Envelope); err != nil {
		return fail(fmt.Errorf("what the log gives does not prove it: %w; look at the log with `assay ledger fsck`", err))
	}
	return r, e.Envelope, nil
}

// withoutQuorum is the policy's keys alone: for a checkpoint that fewer
// witnesses have seen than a reader would ask for, and that the log signed all
// the same.
func withoutQuorum(p ledger.Policy) ledger.Policy {
	text, err := p.MarshalText()
	if err != nil {
		return p
	}
	var keys strings.Builder
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == "quorum" {
			line = "\n"
		}
		keys.WriteString(line)
	}
	keys.WriteString("\nquorum none\n")
	q, err := ledger.ParsePolicy([]byte(keys.String()))
	if err != nil {
		return p // the zero policy, which trusts nobody either way
	}
	return q
}
