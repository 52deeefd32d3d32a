package summary

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// Asked and counted lengths are compared, and a difference of more than 5 % is a
// warning.
func TestLengthsThatAreOffAreAWarning(t *testing.T) {
	for _, c := range []struct {
		name        string
		data        map[string]float64
		asked, real int
		from        assay.LengthsFrom // empty: nothing is said
		warns       bool
	}{
		{"an earlier version", map[string]float64{"tokens_per_word": 1.3}, 100, 200, "", false},
		{"words, near", map[string]float64{"tokens_per_word": 1.3, "counts_each_chunk": 0}, 100, 104, assay.LengthsWords, false},
		{"words, off", map[string]float64{"tokens_per_word": 1.3, "counts_each_chunk": 1}, 100, 106, assay.LengthsWords, true},
		{"short", map[string]float64{"tokens_per_word": 1.3, "counts_each_chunk": 1}, 8, 10, assay.LengthsWords, false},
		{"a guess", map[string]float64{"counts_each_chunk": 0}, 100, 0, assay.LengthsGuess, false},
		{"counted", map[string]float64{"tokens_per_ascii_character": 0.2, "counted_prompts": 5, "prompts": 9, "sampled_texts": 3}, 100, 100, assay.LengthsCounted, false},
		{"sampled", map[string]float64{"tokens_per_ascii_character": 0.2, "counted_prompts": 0, "sampled_texts": 3}, 100, 90, assay.LengthsSampled, true},
		{"by usage", map[string]float64{"tokens_per_ascii_character": 0.2, "requests": 3, "input_tokens": 300}, 100, 100, assay.LengthsUsage, false},
		{"data, a guess", map[string]float64{"tokens_per_ascii_character": 0.2, "requests": 3}, 100, 0, assay.LengthsGuess, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l lengths
			l.event(&assay.Event{Kind: assay.EventWarning, Data: c.data})
			if l.found != nil {
				t.Fatal("another event is taken for it")
			}
			l.event(&assay.Event{Kind: assay.EventCalibrated, Data: c.data})
			for range 3 {
				l.request(&assay.Request{AskedInput: c.asked, InputTokens: c.real})
			}
			l.request(&assay.Request{AskedInput: 50}) // failed: nobody counted it
			var out assay.Summary
			l.fill(&out)
			if (out.Lengths == nil) != (c.from == "") || out.Lengths != nil && out.Lengths.From != c.from {
				t.Fatalf("%+v", out.Lengths)
			}
			if warned := len(out.Warnings) == 1 && out.Warnings[0].Kind == "input_length" && strings.Contains(out.Warnings[0].Text, "100 tokens"); warned != c.warns || len(out.Warnings) > 1 {
				t.Errorf("warnings %v", out.Warnings)
			}
			if out.Lengths != nil && c.real > 0 && (out.Lengths.Asked != float64(c.asked) || out.Lengths.Input != float64(c.real)) {
				t.Errorf("%+v", out.Lengths)
			}
		})
	}
}
