package foreign

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// Head is a writer that keeps the first bytes and counts the rest. It never
// fails and never blocks: a program that does not stop printing holds nobody up
// and fills nothing. The cause of a crash stands at the beginning of what a
// program says. Several goroutines may use one.
type Head struct {
	// Limit is how many bytes are kept; 0 keeps none.
	Limit int
	// Over is called once, when more came than is kept; nil: nobody is told.
	Over func()

	mu      sync.Mutex
	kept    []byte
	dropped int64
}

// Write takes all of p.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	n := max(0, min(len(p), h.Limit-len(h.kept)))
	h.kept = append(h.kept, p[:n]...)
	first := h.dropped == 0 && n < len(p)
	h.dropped += int64(len(p) - n)
	h.mu.Unlock()
	if first && h.Over != nil {
		h.Over()
	}
	return len(p), nil
}

// Bytes copies what is kept, as it came.
func (h *Head) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.kept)
}

// Dropped counts the bytes that were not kept.
func (h *Head) Dropped() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped
}

// Line is what is kept as one line that can be shown, of at most limit bytes.
func (h *Head) Line(limit int) string { return Line(h.marked(), limit) }

// Text is what is kept as a block that can be shown, of at most limit bytes.
func (h *Head) Text(limit int) string { return Clip(h.marked(), limit) }

// marked is what is kept, with a mark where something is missing.
func (h *Head) marked() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := bytes.Clone(h.kept)
	if h.dropped == 0 {
		return b
	}
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				b = b[:len(b)-n] // the rest of this character was dropped
			}
			break
		}
	}
	return append(b, ellipsis...)
}
