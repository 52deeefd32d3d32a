package assay

// Lengths is how the lengths of prompts were known, and how far those that were
// asked for are from what the engine counted.
type Lengths struct {
	From    LengthsFrom `json:"from"`
	Prompts int         `json:"prompts,omitempty"` // of the dataset
	Counted int         `json:"counted,omitempty"` // of these, those that the engine counted one by one
	Sampled int         `json:"sampled,omitempty"` // texts that the scale was learned from
	// Means over all requests whose tokens the engine counted; 0: none were.
	Asked float64 `json:"asked_tokens_mean"`
	Input float64 `json:"input_tokens_mean"`
	Off   float64 `json:"off_share"` // input ÷ asked − 1
}

// LengthsFrom is who said how many tokens a prompt has.
type LengthsFrom string

// The ways, from the best to the worst.
const (
	LengthsCounted LengthsFrom = "tokenize"        // the engine's /tokenize, prompt by prompt
	LengthsSampled LengthsFrom = "tokenize_sample" // tokens a character, by its /tokenize of a sample
	LengthsUsage   LengthsFrom = "usage_sample"    // tokens a character, by its usage for a sample
	LengthsWords   LengthsFrom = "words"           // tokens a word of random data, by its usage
	LengthsGuess   LengthsFrom = "guess"           // the engine counts nothing
)
