package hammer

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay/load"
)

// commonWords is the number of words that two prompts begin with alike.
func commonWords(a, b prompt) int {
	x, y := strings.Fields(a.text), strings.Fields(b.text)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// tokensBy is what an engine with this ruler counts.
func tokensBy(r ruler, text string) int {
	return int(math.Round(r.overhead + r.perWord*float64(len(strings.Fields(text)))))
}

// Requests of a trace share the text of the blocks that they begin with, and no
// more.
func TestEqualHashIDsShareTheirText(t *testing.T) {
	trace := []load.Arrival{
		{Input: 2300, Output: 5, Blocks: []int64{1, 2, 3, 4, 5}},
		{Input: 1900, Output: 5, Blocks: []int64{1, 2, 3, 7}},
		{Input: 1900, Output: 5, Blocks: []int64{9, 2, 3, 7}}, // its first block is another
		{Input: 5000, Output: 5, Blocks: []int64{1, 2, 3, 4}}, // more than its blocks cover
		{Input: 5000, Output: 5, Blocks: []int64{1, 2, 3, 4}},
		{Input: 700, Output: 5, Blocks: []int64{1, 2, 3}}, // less
		{Input: 300, Output: 5},
		{Input: 300, Output: 5},
	}
	for _, r := range []ruler{{perWord: 1}, {perWord: 1.37, overhead: 21}} {
		words := func(seed uint64, run string) *traced {
			return newTraced(newRandom(Data{}, r, seed, run), trace, 0)
		}
		s := words(7, "run")
		for _, c := range []struct{ a, b, tokens int }{
			{0, 1, 3 * 512}, {3, 4, 4 * 512}, {0, 3, 4 * 512}, {0, 5, 700}, {1, 5, 700},
		} {
			want := r.words(c.tokens)
			// One word in many is equal by chance, so one or two more may be.
			if got := commonWords(s.at(c.a), s.at(c.b)); got < want || got > want+2 {
				t.Errorf("lines %d and %d share %d words, want %d", c.a, c.b, got, want)
			}
		}
		if got := commonWords(s.at(0), s.at(2)); got > 4+2 { // the run's own words
			t.Errorf("another first block, and %d words are shared", got)
		}
		if got := commonWords(s.at(6), s.at(7)); got > 2 {
			t.Errorf("lines without blocks share %d words", got)
		}
		for i, a := range trace {
			p := s.at(i)
			if got := float64(tokensBy(r, p.text)); !(math.Abs(got-float64(a.Input)) <= r.perWord) || p.input != a.Input || p.output != a.Output {
				t.Errorf("line %d: %.0f tokens for %d, asked %d and %d", i, got, a.Input, p.input, p.output)
			}
			if again := words(7, "run").at(i); again != p {
				t.Errorf("line %d is not the same again", i)
			}
			for name, other := range map[string]prompt{
				"the next round": s.at(len(trace) + i), "another run": words(7, "other").at(i),
			} {
				if n := commonWords(p, other); n > 2 {
					t.Errorf("line %d shares %d words with %s: a cache would know it", i, n, name)
				}
			}
		}
		if n := commonWords(s.at(0), words(8, "run").at(0)); n > 4+2 {
			t.Errorf("another seed gives %d equal words", n)
		}
	}
}

// The block's length is an option: vLLM's own traces have 16.
func TestBlockLengthIsAnOption(t *testing.T) {
	trace := []load.Arrival{{Input: 100, Output: 1, Blocks: []int64{1, 2, 3}}, {Input: 100, Output: 1, Blocks: []int64{1, 2, 4}}}
	s := newTraced(newRandom(Data{}, ruler{perWord: 1}, 1, "run"), trace, 16)
	if got := commonWords(s.at(0), s.at(1)); got < 32 || got > 34 {
		t.Errorf("%d words are shared, want 32", got)
	}
}

// A turn's prompt is the conversation so far and new words.
func TestTurnsShareTheirText(t *testing.T) {
	turn := func(name string, input int) load.Arrival {
		return load.Arrival{Input: input, Output: 3, Conversation: name}
	}
	trace := []load.Arrival{turn("a", 50), turn("b", 50), turn("a", 80), turn("a", 200), turn("b", 40), turn("b", 90)}
	r := ruler{perWord: 1.2, overhead: 5}
	s := newTraced(newRandom(Data{}, r, 7, "run"), trace, 0)
	for _, c := range []struct{ before, turn int }{{0, 2}, {2, 3}, {4, 5}} {
		a, b := s.at(c.before), s.at(c.turn)
		if !strings.HasPrefix(b.text, a.text+" ") || b.input != trace[c.turn].Input {
			t.Errorf("line %d does not continue line %d", c.turn, c.before)
		}
	}
	// Conversations share nothing but the run's own words, nor does one whose
	// history was cut.
	for _, c := range []struct{ a, b int }{{0, 1}, {1, 4}} {
		if n := commonWords(s.at(c.a), s.at(c.b)); n > 4+2 {
			t.Errorf("lines %d and %d share %d words", c.a, c.b, n)
		}
	}
	for i, a := range trace {
		if got := float64(tokensBy(r, s.at(i).text)); !(math.Abs(got-float64(a.Input)) <= r.perWord) {
			t.Errorf("line %d: %.0f tokens for %d", i, got, a.Input)
		}
	}
}
