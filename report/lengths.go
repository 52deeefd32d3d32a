package report

import (
	"fmt"

	"github.com/assay-bench/assay"
)

// lengths says who counted the prompts' tokens, and how far off they are.
func lengths(s assay.Summary) []Block {
	l := s.Lengths
	if l == nil {
		return nil
	}
	how := "prompt lengths are a guess, as the engine counts nothing"
	switch l.From {
	case assay.LengthsCounted:
		how = fmt.Sprintf("%d of %d prompts were counted by the engine's /tokenize", l.Counted, l.Prompts)
		if l.Counted < l.Prompts {
			how += fmt.Sprintf(", the others by tokens a character learned from %d texts of the data", l.Sampled)
		}
	case assay.LengthsSampled:
		how = fmt.Sprintf("tokens a character learned from %d texts of the data by the engine's /tokenize", l.Sampled)
	case assay.LengthsUsage:
		how = fmt.Sprintf("tokens a character learned from %d prompts of the data by the engine's usage", l.Sampled)
	case assay.LengthsWords:
		how = "tokens a word learned by the engine's usage"
	}
	if l.Input > 0 {
		how += fmt.Sprintf("; asked for %.0f tokens a prompt, the engine counted %.0f (%+.1f %%)", l.Asked, l.Input, 100*l.Off)
	}
	return []Block{Paragraph{Head: "lengths", Text: how + "."}}
}
