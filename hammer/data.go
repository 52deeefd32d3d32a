package hammer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
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

func (r ruler) tokens(text string) int {
	return int(math.Round(r.overhead + r.perWord*float64(len(strings.Fields(text)))))
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

// Bounds on a dataset: it is a local file, but not therefore a sane one.
const (
	maxDatasetBytes = 2 << 30
	maxPromptBytes  = 8 << 20
)

// newDataset reads the prompts of a file.
func newDataset(d Data, r ruler, seed uint64) (listed, error) {
	f, err := os.Open(d.Path)
	if err != nil {
		return listed{}, err
	}
	defer f.Close()
	in := io.LimitReader(f, maxDatasetBytes)
	var l listed
	switch d.Kind {
	case "sharegpt":
		l.all, err = readShareGPT(in, d, r)
	default:
		l.all, err = readCustom(in, d, r)
	}
	if err != nil {
		return listed{}, fmt.Errorf("%s: %w", d.Path, err)
	}
	if len(l.all) == 0 {
		return listed{}, fmt.Errorf("%s: no prompt in it can be used", d.Path)
	}
	if d.Shuffle {
		rng := rand.New(rand.NewPCG(seed, 0))
		rng.Shuffle(len(l.all), func(i, j int) { l.all[i], l.all[j] = l.all[j], l.all[i] })
	}
	return l, nil
}

// readCustom reads JSON lines with a "prompt", and optionally "output_tokens".
func readCustom(in io.Reader, d Data, r ruler) ([]prompt, error) {
	var all []prompt
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxPromptBytes)
	for n := 1; s.Scan(); n++ {
		if len(strings.TrimSpace(s.Text())) == 0 {
			continue
		}
		var row struct {
			Prompt string `json:"prompt"`
			Output int    `json:"output_tokens"`
		}
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if row.Prompt == "" {
			return nil, fmt.Errorf("line %d has no \"prompt\"", n)
		}
		out := d.OutputTokens
		if out < 1 {
			out = row.Output
		}
		if out < 1 {
			return nil, fmt.Errorf("line %d has no \"output_tokens\", and no length was given: use --output-len", n)
		}
		all = append(all, prompt{text: row.Prompt, input: r.tokens(row.Prompt), output: out})
	}
	return all, s.Err()
}

// readShareGPT reads ShareGPT's array of conversations: the first turn is the
// prompt, the second one's length is that of the answer. The limits are
// vLLM's, on lengths that are estimated from the words.
func readShareGPT(in io.Reader, d Data, r ruler) ([]prompt, error) {
	dec := json.NewDecoder(in)
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("not a JSON array of conversations")
	}
	var all []prompt
	for n := 1; dec.More(); n++ {
		var row struct {
			Conversations []struct {
				Value string `json:"value"`
			} `json:"conversations"`
		}
		if err := dec.Decode(&row); err != nil {
			return nil, fmt.Errorf("conversation %d: %w", n, err)
		}
		if len(row.Conversations) < 2 {
			continue
		}
		text := row.Conversations[0].Value
		p := prompt{text: text, input: r.tokens(text), output: d.OutputTokens}
		if p.output < 1 {
			p.output = int(math.Round(r.perWord * float64(len(strings.Fields(row.Conversations[1].Value)))))
			if p.output < 4 {
				continue
			}
		}
		if p.input < 4 || p.input > 1024 || p.input+p.output > 2048 {
			continue
		}
		all = append(all, p)
	}
	return all, nil
}
