package hammer

import (
	"hash/fnv"
	"io"
	"math/rand/v2"

	"github.com/assay-bench/assay/load"
)

// mooncakeBlock is the number of tokens that one of Mooncake's hash_ids names.
const mooncakeBlock = 512

// What a stream of words is for. The seeds of different kinds must differ, or
// block 5 would be the text of prompt 5.
const (
	blockWords uint64 = 0x626c6f636b73
	turnWords  uint64 = 0x7475726e73
)

// traced makes the prompts of a trace, so that a prefix cache sees what the
// trace says: requests share the text of the blocks that they begin with, and a
// turn of a conversation begins with the turn before it. What the trace does not
// share is its own, as in random. Number i is line i of the trace; a second
// round of the trace has the numbers that follow, and other texts.
type traced struct {
	words *random
	trace []load.Arrival
	block int   // tokens of a block
	text  []int // by line: which of its conversation's texts a turn continues; nil without conversations
}

func newTraced(words *random, trace []load.Arrival, block int) *traced {
	if block < 1 {
		block = mooncakeBlock
	}
	return &traced{words: words, trace: trace, block: block, text: texts(trace)}
}

// texts numbers the texts of each conversation. A turn that is longer than the
// one before continues its text. One that is not cannot hold it: its history was
// cut or begun anew, and its text is another.
func texts(trace []load.Arrival) []int {
	type last struct{ input, text int }
	latest := map[string]last{}
	var out []int
	for i, a := range trace {
		if a.Conversation == "" {
			continue
		}
		if out == nil {
			out = make([]int, len(trace))
		}
		l, follows := latest[a.Conversation]
		if follows && a.Input <= l.input {
			l.text++
		}
		l.input = a.Input
		latest[a.Conversation], out[i] = l, l.text
	}
	return out
}

func (t *traced) at(i int) prompt {
	round, line := i/len(t.trace), i%len(t.trace)
	a := t.trace[line]
	p := t.words
	in, out := max(1, a.Input), max(1, a.Output)
	if len(a.Blocks) == 0 && a.Conversation == "" {
		return p.sized(i, in, out)
	}
	w := wordy{left: p.ruler.words(in)}
	w.b = make([]byte, 0, len(p.prefix)+6*w.left)
	w.b = append(w.b, p.prefix...)
	// The first words are the run's: what an earlier run, or the round before,
	// left in a cache is not found again.
	own := min(4, w.left)
	w.add(rand.New(rand.NewPCG(p.salt, uint64(round))), own)
	for k, id := range a.Blocks {
		// Ends are counted from the prompt's beginning, so that they are the same
		// for all prompts.
		w.add(rand.New(rand.NewPCG(p.seed^blockWords, uint64(id))), p.ruler.words((k+1)*t.block)-w.n)
	}
	if len(a.Blocks) == 0 {
		w.add(rand.New(rand.NewPCG(p.seed^turnWords, nameOf(a.Conversation, t.text[line]))), w.left)
	}
	w.add(rand.New(rand.NewPCG(p.seed, uint64(i))), w.left) // more than the trace's blocks cover
	return prompt{text: string(w.b), input: in + p.data.PrefixTokens, output: out}
}

// nameOf is the number of a conversation's text.
func nameOf(conversation string, text int) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, conversation) // never fails, by its documentation
	return h.Sum64() + uint64(text)
}

// sized gives prompt i with these lengths.
func (p *random) sized(i, in, out int) prompt {
	q := *p
	q.data.InputTokens, q.data.OutputTokens, q.data.InputSpread, q.data.OutputSpread = in, out, 0, 0
	return q.at(i)
}

// wordy is a prompt in the making.
type wordy struct {
	b    []byte
	n    int // words so far
	left int // words that it may still get
}

// add appends up to n words.
func (w *wordy) add(rng *rand.Rand, n int) {
	if n = min(n, w.left); n < 1 {
		return
	}
	if w.n > 0 {
		w.b = append(w.b, ' ')
	}
	w.b = appendWords(w.b, rng, n)
	w.n += n
	w.left -= n
}
