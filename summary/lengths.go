package summary

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
)

// Lengths that are further off than both are worth a warning: a prompt of a few
// words cannot be made to the token.
const (
	lengthsOffShare  = 0.05
	lengthsOffTokens = 2
)

// lengths compares the lengths that prompts were made for with what the engine
// counted.
type lengths struct {
	found       *assay.Lengths // nil: nothing says how they were known
	n           int
	asked, real float64
}

// event takes how lengths are known. The event about the data, if there is one,
// comes after the one about words, and stands.
func (l *lengths) event(e *assay.Event) {
	if e.Kind != assay.EventCalibrated {
		return
	}
	has := func(name string) bool { _, ok := e.Data[name]; return ok }
	count := func(name string) int {
		if v := e.Data[name]; v > 0 && v < math.MaxInt32 {
			return int(v)
		}
		return 0
	}
	switch {
	case has("tokens_per_ascii_character"):
		l.found = &assay.Lengths{From: assay.LengthsGuess, Prompts: count("prompts"), Counted: count("counted_prompts"), Sampled: count("sampled_texts")}
		switch {
		case l.found.Counted > 0:
			l.found.From = assay.LengthsCounted
		case l.found.Sampled > 0:
			l.found.From = assay.LengthsSampled
		case count("input_tokens") > 0:
			l.found.From, l.found.Sampled = assay.LengthsUsage, count("requests")
		}
	case !has("counts_each_chunk"): // of an earlier version
	case has("tokens_per_word"):
		l.found = &assay.Lengths{From: assay.LengthsWords}
	default:
		l.found = &assay.Lengths{From: assay.LengthsGuess}
	}
}

func (l *lengths) request(r *assay.Request) {
	if r.AskedInput > 0 && r.InputTokens > 0 {
		l.n++
		l.asked += float64(r.AskedInput)
		l.real += float64(r.InputTokens)
	}
}

// fill puts it into the summary, with a warning where lengths are off.
func (l *lengths) fill(out *assay.Summary) {
	if l.found == nil {
		return
	}
	f := *l.found
	defer func() { out.Lengths = &f }()
	if l.n == 0 {
		return
	}
	n := float64(l.n)
	f.Asked, f.Input, f.Off = l.asked/n, l.real/n, l.real/l.asked-1
	if math.Abs(f.Off) > lengthsOffShare && math.Abs(f.Input-f.Asked) > lengthsOffTokens {
		out.Warnings = append(out.Warnings, assay.Warning{Kind: "input_length", Text: fmt.Sprintf(
			"prompts were made for %.0f tokens in the mean, and the engine counted %.0f (%+.1f %%)", f.Asked, f.Input, 100*f.Off)})
	}
}
