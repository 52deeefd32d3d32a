package main

import (
	"fmt"
	"strings"
)

// Kinds of tokens, as the file has them.
const (
	tokenNormal  = 1
	tokenControl = 3
)

// Tokens before the words: one for each byte, so that any prompt can be read,
// and three specials.
const (
	tokenBOS   = 256
	tokenEOS   = 257
	tokenPad   = 258
	firstWord  = 259
	twoLong    = 32 * 32
	threeLong  = 32 * 32 * 32
	mostWords  = twoLong + threeLong
	spaceToken = "\u0120" // how a byte-level vocabulary writes a space
)

// vocabulary returns the tokens and their kinds.
func vocabulary(words int) ([]string, []int32, error) {
	if words < 1 || words > mostWords {
		return nil, nil, fmt.Errorf("%d words: must be 1 to %d", words, mostWords)
	}
	tokens := append(byteTokens(), "<|bos|>", "<|eos|>", "<|pad|>")
	for i := range words {
		tokens = append(tokens, spaceToken+word(i))
	}
	kinds := make([]int32, len(tokens))
	for i := range kinds {
		kinds[i] = tokenNormal
	}
	kinds[tokenBOS], kinds[tokenEOS], kinds[tokenPad] = tokenControl, tokenControl, tokenControl
	return tokens, kinds, nil
}

// word makes the i-th word: two syllables as long as they last, then three.
// Multiplying by an odd number modulo a power of two permutes, so that
// neighbours look unlike and no word comes twice.
func word(i int) string {
	n, k := i*421%twoLong, 2
	if i >= twoLong {
		n, k = (i-twoLong)*12345%threeLong, 3
	}
	var b strings.Builder
	for range k {
		s := n % 32
		b.WriteByte("bklmnrst"[s/4])
		b.WriteByte("aeio"[s%4])
		n /= 32
	}
	return b.String()
}

// byteTokens is the byte-level alphabet of GPT-2: printable bytes stand for
// themselves, the others for the code points from 256 on.
func byteTokens() []string {
	tokens := make([]string, 256)
	next := rune(256)
	for b := range rune(256) {
		printable := b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad
		if printable {
			tokens[b] = string(b)
			continue
		}
		tokens[b] = string(next)
		next++
	}
	return tokens
}
