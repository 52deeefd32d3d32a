package inference

import (
	"math"
	"slices"

	"github.com/assay-bench/assay"
)

// kind is what one event of a stream was, as a set.
type kind uint8

const (
	kindChoice  kind = 1 << iota // it has a choice: it can have brought a token
	kindVisible                  // text of the answer, reasoning or tool-call data
	kindRole
	kindFinish
	kindUsage // a count and no choice
	kindDone
)

// mark is one event that arrived. Which of them brought tokens is known only
// when the last one did: see place.
type mark struct {
	at     int64
	read   uint32 // number of the read within the request
	tokens int32  // that it brought, by the engine's own count or by place
	kind   kind
	late   bool // it shared its read with others because the client was late
}

// maxMarks bounds the events of one request beyond four times what was asked
// for.
const maxMarks = 1 << 17

// keepMarks is how many a stream has room for between requests.
const keepMarks = 4096

// mark notes an event. It reports whether the request goes on.
func (s *stream) mark(k kind, tokens int64) bool {
	if len(s.marks) >= s.maxMarks {
		s.err = errEvents
		return false
	}
	if k&kindChoice != 0 && k&kindRole == 0 || k&kindVisible != 0 {
		s.inRead++
		s.arrived += max(1, tokens)
	}
	s.marks = append(s.marks, mark{at: s.at, read: s.reads, tokens: int32(min(tokens, math.MaxInt32)), kind: k})
	return true
}

// count gives how many tokens of the choice came with the event, by the
// engine's count, which the event carries or not.
//
// Counts are kept by choice: vLLM counts those of several choices apart.
func (s *stream) count(e *event) int64 {
	n := e.completion
	if !e.usage {
		n = e.evalN // llama.cpp, by timings_per_token
	}
	if n <= 0 || !e.choices {
		return 0
	}
	if e.index >= len(s.counts) {
		if e.index >= maxChoices {
			return 0
		}
		s.counts = append(s.counts, make([]int64, e.index+1-len(s.counts))...)
	}
	rise := n - s.counts[e.index]
	if rise <= 0 {
		return 0
	}
	s.counts[e.index] = n
	return rise
}

// maxChoices bounds the choices whose tokens are counted apart.
const maxChoices = 1 << 12

// counting reports whether the engine's counts say which chunk brought tokens:
// it is known to count in each, and did, and its counts by choice do not exceed
// its final one.
func (s *stream) counting(total int64) bool {
	n := s.counted()
	return s.c.counting && n > 0 && n <= total
}

// counted is the sum of the counts of all choices.
func (s *stream) counted() (n int64) {
	for _, c := range s.counts {
		n += c
	}
	return n
}

// place decides which events brought how many tokens, given the number of
// tokens by the engine's final count (0: it did not say), and returns how many
// were placed, and how many of these no chunk showed.
//
// An engine that counts in each chunk has told already. Of any other, visible
// chunks are tokens; chunks of a choice that are not fill the room that the
// final count leaves, in order of arrival, the finish chunk last: a token may
// have no text of its own. What is still missing came by the finish chunk.
func (s *stream) place(total int64) (placed, unplaced int64) {
	counting := s.counting(total)
	last := -1 // the finish chunk, or else the last chunk of a choice
	if !counting {
		for i := range s.marks {
			m := &s.marks[i]
			m.tokens = 0
			if m.kind&kindVisible != 0 {
				m.tokens = 1
			}
		}
	}
	for i := range s.marks {
		m := &s.marks[i]
		placed += int64(m.tokens)
		if m.kind&kindChoice != 0 && (last < 0 || m.kind&kindFinish != 0 || s.marks[last].kind&kindFinish == 0) {
			last = i
		}
	}
	if placed >= total {
		return placed, 0
	}
	if !counting {
		placed += s.fill(total-placed, func(k kind) bool { return k&kindFinish == 0 })
		placed += s.fill(total-placed, func(k kind) bool { return k&kindFinish != 0 })
	}
	if unplaced = total - placed; unplaced > 0 && last >= 0 {
		m := &s.marks[last]
		m.tokens = int32(min(int64(m.tokens)+unplaced, math.MaxInt32))
		placed = total
	}
	return placed, unplaced
}

// fill gives a token to silent chunks of a choice, in order, as long as there
// is room.
func (s *stream) fill(room int64, which func(kind) bool) (placed int64) {
	for i := range s.marks {
		m := &s.marks[i]
		if placed >= room {
			break
		}
		if m.tokens == 0 && m.kind&kindChoice != 0 && m.kind&(kindRole|kindVisible) == 0 && which(m.kind) {
			m.tokens = 1
			placed++
		}
	}
	return placed
}

// arrivals writes the marks into the request: first and last token, the gaps
// between, the reads that brought them, and the rest as other chunks.
func (s *stream) arrivals() {
	r := s.r
	chunks, uneven := 0, false
	lastUS := int64(0)
	s.letters = s.letters[:0]
	for i := 0; i < len(s.marks); {
		// One read at a time: of its chunks those with tokens matter.
		end, inRead := i, 0
		for end < len(s.marks) && s.marks[end].read == s.marks[i].read {
			if s.marks[end].tokens > 0 {
				inRead++
			}
			end++
		}
		merged := false
		switch {
		case inRead > 1 && s.marks[i].late:
			merged = true
			r.Reads++
			r.MergedReads++
		case inRead > 1:
			r.Reads++
			r.BurstReads++
			r.BurstChunks += inRead
		case inRead == 1:
			r.Reads++
		}
		for ; i < end; i++ {
			m := &s.marks[i]
			if m.tokens == 0 {
				s.other(m)
				continue
			}
			uneven = uneven || m.tokens != 1
			if chunks == 0 {
				r.First, r.Last = m.at, m.at
				r.FirstMerged = merged
			} else {
				us := max(lastUS, (m.at-r.First)/1000)
				gap := int32(min(us-lastUS, math.MaxInt32))
				if merged {
					gap = assay.MarkGap(gap)
				}
				r.Gaps = append(r.Gaps, gap)
				lastUS = us
				r.Last = max(r.Last, m.at)
			}
			chunks++
		}
	}
	r.Other = ""
	if len(s.letters) > 0 {
		r.Other = string(s.letters)
	}
	if uneven {
		r.ChunkTokens = slices.Grow(r.ChunkTokens[:0], chunks)
		for i := range s.marks {
			if n := s.marks[i].tokens; n > 0 {
				r.ChunkTokens = append(r.ChunkTokens, n)
			}
		}
	}
	switch {
	case r.First == 0:
	case s.answerAt == 0:
		r.NoAnswer = true
	case s.answerAt > r.First:
		r.Answer = s.answerAt
	}
}

// maxOther bounds the chunks without tokens that are kept of a request.
const maxOther = 64 << 10

// other notes a chunk that brought no token.
func (s *stream) other(m *mark) {
	if len(s.letters) >= maxOther {
		return
	}
	var letter byte
	switch {
	case m.kind&kindDone != 0 && m.kind&kindChoice == 0:
		letter = 'd'
	case m.kind&kindFinish != 0:
		letter = 'f'
	case m.kind&kindUsage != 0:
		letter = 'u'
	case m.kind&kindVisible != 0:
		letter = 't'
	case m.kind&kindRole != 0:
		letter = 'r'
	default:
		letter = 'e'
	}
	s.letters = append(s.letters, letter)
	s.r.OtherUS = append(s.r.OtherUS, int32(min(max(0, m.at-s.watch.sent)/1000, math.MaxInt32)))
}
