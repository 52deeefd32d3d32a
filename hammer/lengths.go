package hammer

import (
	"math"
	"unicode/utf8"
)

// letters are the characters of a text, by what they usually cost: in most
// vocabularies several ASCII characters make a token, and one or two others do.
type letters struct{ ascii, wide float64 }

func lettersOf(text string) letters {
	var l letters
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			l.ascii++
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		l.wide++
		i += n
	}
	return l
}

func (l letters) all() float64 { return l.ascii + l.wide }

// scale turns characters into tokens: what the engine counted for texts of the
// very data.
type scale struct {
	ascii, wide float64 // tokens a character
	overhead    float64 // tokens of the chat template and the like, of a prompt
}

// guessScale is used where the engine counts nothing.
var guessScale = scale{ascii: 0.25, wide: 0.8}

// text is the tokens of a text by itself.
func (s scale) text(t string) int {
	l := lettersOf(t)
	return max(1, int(math.Round(s.ascii*l.ascii+s.wide*l.wide)))
}

// prompt is the tokens of a text that is sent as a prompt.
func (s scale) prompt(t string) int { return s.text(t) + int(math.Round(s.overhead)) }

// counted is a text whose tokens, without overhead, are known.
type counted struct {
	letters
	tokens float64
}

// fit finds the scale by least squares, weighted such that a text counts by its
// length: errors add up over a text's characters. A kind of character that is
// rare in the sample gets the same scale as the other.
func fit(sample []counted, overhead float64) (scale, bool) {
	var aa, aw, ww, at, wt, chars, tokens, wide float64
	for _, c := range sample {
		n := c.all()
		if n == 0 || c.tokens <= 0 {
			continue
		}
		aa += c.ascii * c.ascii / n
		aw += c.ascii * c.wide / n
		ww += c.wide * c.wide / n
		at += c.ascii * c.tokens / n
		wt += c.wide * c.tokens / n
		chars += n
		tokens += c.tokens
		wide += c.wide
	}
	if chars == 0 {
		return scale{}, false
	}
	one := tokens / chars
	s := scale{ascii: one, wide: one, overhead: overhead}
	if share := wide / chars; share < 0.02 || share > 0.98 {
		return s, true
	}
	det := aa*ww - aw*aw
	if det < 1e-6*aa*ww {
		return s, true // all texts have the same mixture
	}
	a, w := (at*ww-wt*aw)/det, (wt*aa-at*aw)/det
	// A character is at most a few bytes, and so a few tokens.
	if a > 0 && w > 0 && a <= 1.5 && w <= 8 {
		s.ascii, s.wide = a, w
	}
	return s, true
}

// spreadOver gives k numbers below n, evenly over all of them: a file may be
// sorted.
func spreadOver(n, k int) []int {
	k = min(n, k)
	out := make([]int, k)
	for i := range out {
		out[i] = (2*i + 1) * n / (2 * k)
	}
	return out
}
