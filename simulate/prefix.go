package simulate

import (
	"hash/maphash"
	"sync"
)

// block is the number of words whose prefix is remembered together, as
// engines cache whole blocks of tokens.
const block = 16

// maxBlocks bounds the memory of the cache; a full one forgets everything.
const maxBlocks = 1 << 18

// prefixes remembers the beginnings of prompts.
type prefixes struct {
	mu   sync.Mutex
	seed maphash.Seed
	seen map[uint64]struct{}
}

func newPrefixes() *prefixes {
	return &prefixes{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// look says how many leading words of a prompt were seen before, in whole
// blocks, and remembers the prompt. The whole prompt is never cached: the
// last token must be computed for there to be an answer.
func (p *prefixes) look(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var h maphash.Hash
	h.SetSeed(p.seed)
	words, cached, hitting := 0, 0, true
	start := -1
	flush := func(word string) {
		h.WriteString(word)
		h.WriteByte(' ')
		words++
		if words%block != 0 {
			return
		}
		sum := h.Sum64()
		_, ok := p.seen[sum]
		if hitting = hitting && ok; hitting {
			cached = words
		}
		if !ok {
			if len(p.seen) >= maxBlocks {
				clear(p.seen)
			}
			p.seen[sum] = struct{}{}
		}
	}
	for i := 0; i < len(text); i++ {
		switch space := isSpace(text[i]); {
		case space && start >= 0:
			flush(text[start:i])
			start = -1
		case !space && start < 0:
			start = i
		}
	}
	if start >= 0 {
		flush(text[start:])
	}
	if cached == words && cached > 0 {
		cached -= block
	}
	return cached
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// countWords is the length of a text in tokens: its words.
func countWords(text string) int {
	n, in := 0, false
	for i := 0; i < len(text); i++ {
		space := isSpace(text[i])
		if !space && !in {
			n++
		}
		in = !space
	}
	return n
}
