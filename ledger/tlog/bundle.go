package tlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/transparency-dev/tessera/api/layout"
)

// ahead is how many bundles are fetched before they are needed.
const ahead = 4

// Leaf is an entry's bytes and its index. The bytes are not yet anybody's word:
// they count when they lead to a signed root.
type Leaf struct {
	Index uint64
	Data  []byte
}

// parseBundle splits an entry bundle, which must have exactly n entries.
func parseBundle(b []byte, n int) ([][]byte, error) {
	entries := make([][]byte, 0, n)
	for at := 0; at < len(b); {
		if len(entries) == n {
			return nil, fmt.Errorf("%w: a bundle of %d entries has more bytes after them", ErrAnswer, n)
		}
		if len(b)-at < 2 {
			return nil, fmt.Errorf("%w: a bundle ends within the length of its entry %d", ErrAnswer, len(entries))
		}
		size := int(binary.BigEndian.Uint16(b[at:]))
		at += 2
		if len(b)-at < size {
			return nil, fmt.Errorf("%w: a bundle ends within its entry %d", ErrAnswer, len(entries))
		}
		entries = append(entries, b[at:at+size:at+size])
		at += size
	}
	if len(entries) != n {
		return nil, fmt.Errorf("%w: a bundle has %d entries where %d were due", ErrAnswer, len(entries), n)
	}
	return entries, nil
}

// cutBundle takes the bytes of a bundle's first n entries.
func cutBundle(b []byte, n int) ([]byte, error) {
	at := 0
	for i := range n {
		if len(b)-at < 2 {
			return nil, fmt.Errorf("%w: a bundle has %d entries where at least %d were due", ErrAnswer, i, n)
		}
		at += 2 + int(binary.BigEndian.Uint16(b[at:]))
		if at > len(b) {
			return nil, fmt.Errorf("%w: a bundle ends within its entry %d", ErrAnswer, i)
		}
	}
	return b[:at], nil
}

// ReadEntries reads the entries from ≤ index < to of a log of this size, which
// says how wide its last bundle is. They are parsed and not checked otherwise.
func ReadEntries(ctx context.Context, src Source, from, to, size uint64) iter.Seq2[Leaf, error] {
	return func(yield func(Leaf, error) bool) {
		to = min(to, size)
		if from >= to {
			return
		}
		for b, err := range bundles(ctx, src, from/tileWidth, (to-1)/tileWidth, size) {
			if err != nil {
				yield(Leaf{}, err)
				return
			}
			entries, err := parseBundle(b.raw, width(b.partial))
			if err != nil {
				yield(Leaf{}, fmt.Errorf("%s: %w", layout.EntriesPath(b.index, b.partial), err))
				return
			}
			for i, e := range entries {
				n := b.index*tileWidth + uint64(i)
				if n < from {
					continue
				}
				if n >= to || !yield(Leaf{n, e}, nil) {
					return
				}
			}
		}
	}
}

// bundle is an entry bundle as a source gave it.
type bundle struct {
	index   uint64
	partial uint8
	raw     []byte
	err     error
}

// bundles gives the bundles first to last of a log of this size, in order. An
// error ends it.
func bundles(ctx context.Context, src Source, first, last, size uint64) iter.Seq2[bundle, error] {
	return func(yield func(bundle, error) bool) {
		fetch := func(ctx context.Context, index uint64) bundle {
			p := layout.PartialTileSize(0, index, size)
			raw, err := src.Entries(ctx, index, p)
			return bundle{index, p, raw, err}
		}
		for b := range inOrder(ctx, first, last, fetch) {
			if !yield(b, b.err) || b.err != nil {
				return
			}
		}
	}
}

// inOrder does the work for first to last, a few at a time, and gives the
// results in order. It goes on after ctx ended, with work that then fails.
func inOrder[T any](ctx context.Context, first, last uint64, work func(context.Context, uint64) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var queue []chan T
		next := first
		for i := first; i <= last; i++ {
			for ; next <= last && len(queue) < ahead; next++ {
				c, index := make(chan T, 1), next
				queue = append(queue, c)
				go func() { c <- work(ctx, index) }()
			}
			result := <-queue[0]
			queue = queue[1:]
			if !yield(result) {
				return
			}
		}
	}
}
