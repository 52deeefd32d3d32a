package hammer

import (
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
)

// prompt is what one request asks.
type prompt struct {
	text   string
	input  int // tokens that the text was made for; 0: unknown
	output int // tokens to ask for
}

// prompts gives the prompt with number i, the same for the same run and i.
type prompts interface{ at(i int) prompt }

// ruler turns tokens into words: what the engine counted for prompts of known
// length.
type ruler struct {
	perWord  float64 // tokens a word
	overhead float64 // tokens of the chat template and the like
}

// guess is used until the engine has told, and where it does not.
var guess = ruler{perWord: 1.3}

func (r ruler) words(tokens int) int {
	return max(1, int(math.Round((float64(tokens)-r.overhead)/r.perWord)))
}

// random makes prompts of random words. Every prompt is its own from its first
// words on, which the run's id decides: a prefix cache helps neither within a
// run nor from one run to the next, unless a shared prefix is asked for.
type random struct {
	data   Data
	ruler  ruler
	seed   uint64
	salt   uint64
	prefix string
}

func newRandom(d Data, r ruler, seed uint64, runID string) *random {
	h := fnv.New64a()
	_, _ = io.WriteString(h, runID) // never fails, by its documentation
	p := &random{data: d, ruler: r, seed: seed, salt: h.Sum64()}
	if d.PrefixTokens > 0 {
		rng := rand.New(rand.NewPCG(seed, math.MaxUint64))
		n := max(1, int(math.Round(float64(d.PrefixTokens)/r.perWord)))
		p.prefix = string(appendWords(nil, rng, n)) + " "
	}
	return p
}

func (p *random) at(i int) prompt {
	rng := rand.New(rand.NewPCG(p.seed, uint64(i)))
	in := spread(rng, p.data.InputTokens, p.data.InputSpread)
	out := spread(rng, p.data.OutputTokens, p.data.OutputSpread)
	n := p.ruler.words(in)
	b := make([]byte, 0, len(p.prefix)+6*n)
	b = append(b, p.prefix...)
	own := min(4, n)
	b = appendWords(b, rand.New(rand.NewPCG(p.salt, uint64(i))), own)
	if n > own {
		b = append(b, ' ')
		b = appendWords(b, rng, n-own)
	}
	return prompt{text: string(b), input: in + p.data.PrefixTokens, output: out}
}

func appendWords(b []byte, rng *rand.Rand, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, words[rng.IntN(len(words))]...)
	}
	return b
}

// spread draws a length uniformly from n·(1 ± ratio), at least 1.
func spread(rng *rand.Rand, n int, ratio float64) int {
	if ratio <= 0 {
		return n
	}
	lo := max(1, int(math.Floor(float64(n)*(1-ratio))))
	hi := max(lo, int(math.Ceil(float64(n)*(1+ratio))))
	return lo + rng.IntN(hi-lo+1)
}

// listed are the prompts of a dataset, in an order that the seed decides.
type listed struct{ all []prompt }

func (l listed) at(i int) prompt { return l.all[i%len(l.all)] }
