package simulate

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Law names the rule that says when tokens are due.
type Law string

const (
	// LawFixed gives token k of every request at read + TTFT + k·ITL,
	// whatever the load.
	LawFixed Law = "fixed"
	// LawBatching is one engine loop with slots, prefill and shared decode
	// steps; see Batching.
	LawBatching Law = "batching"
)

// Role says when a streamed chat answer sends its chunk that holds only the
// role of the speaker, which is not a token.
type Role string

const (
	RoleFirst Role = "first" // just before the first token, as vLLM does
	RoleEarly Role = "early" // as soon as the request was read: a trap for clients that count it as a token
	RoleOff   Role = "off"   // never
)

// Bounds of what a request may ask for. Everything beyond is a 4xx answer.
const (
	maxBody      = 32 << 20
	maxHeader    = 1 << 20
	maxOutput    = 1 << 20
	maxSequences = 1024
	maxStall     = 10 * time.Minute
)

// ChatOverhead is the number of tokens that the chat template adds to a
// prompt's words, once a request.
const ChatOverhead = 4

// Config says what the engine is. The zero value answers at once with 128
// tokens; DefaultConfig has the times that the documentation uses.
type Config struct {
	Model  string // served name; empty: "sim"
	Seed   uint64 // of faults and words
	APIKey string // empty: none is asked for

	Law      Law           // empty: LawFixed
	TTFT     time.Duration // law fixed: from the request read to the first token
	ITL      time.Duration // law fixed: between tokens
	Batching Batching      // law batching

	OutputTokens   int    // length of an answer that sets no limit itself; 0: 128
	MaxModelLen    int    // prompt and answer together; 0: 131072
	TokensPerChunk int    // law fixed: tokens in one event; 0: 1
	Reasoning      int    // that many first tokens are reasoning
	ReasoningField string // name of their field; empty: "reasoning_content"
	ToolCall       bool   // chat answers are one tool call
	Role           Role   // empty: RoleFirst
	PrefixCache    bool   // remember prompts in blocks of 16 words and report cached_tokens

	Habits            Habits  // of the wire; zero: none
	CompletionsHabits *Habits // those of /v1/completions and /api/generate where they differ; nil: the same

	Faults Faults    // zero: none
	Truth  io.Writer // one JSON line a request; nil: none
}

// DefaultConfig is a steady engine: first token after 50 ms, then one each
// 10 ms, and a batching law of a mid-size model if that is chosen.
func DefaultConfig() Config {
	return Config{
		Model:          "sim",
		Law:            LawFixed,
		TTFT:           50 * time.Millisecond,
		ITL:            10 * time.Millisecond,
		Batching:       DefaultBatching(),
		OutputTokens:   128,
		MaxModelLen:    131072,
		TokensPerChunk: 1,
		ReasoningField: "reasoning_content",
		Role:           RoleFirst,
	}
}

// resolve fills in the documented zero values and refuses what cannot be.
func (c Config) resolve() (Config, error) {
	if c.Model == "" {
		c.Model = "sim"
	}
	if c.Law == "" {
		c.Law = LawFixed
	}
	if c.OutputTokens == 0 {
		c.OutputTokens = 128
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = 131072
	}
	if c.TokensPerChunk == 0 {
		c.TokensPerChunk = 1
	}
	if c.ReasoningField == "" {
		c.ReasoningField = "reasoning_content"
	}
	if c.Role == "" {
		c.Role = RoleFirst
	}
	switch {
	case c.Law != LawFixed && c.Law != LawBatching:
		return c, fmt.Errorf("law %q: want %q or %q", c.Law, LawFixed, LawBatching)
	case c.Role != RoleFirst && c.Role != RoleEarly && c.Role != RoleOff:
		return c, fmt.Errorf("role chunk %q: want %q, %q or %q", c.Role, RoleFirst, RoleEarly, RoleOff)
	case c.TTFT < 0 || c.ITL < 0:
		return c, errors.New("time to first token and gap cannot be negative")
	case c.OutputTokens < 0 || c.OutputTokens > maxOutput:
		return c, fmt.Errorf("output tokens %d: want 1 to %d", c.OutputTokens, maxOutput)
	case c.TokensPerChunk < 0 || c.TokensPerChunk > 1024:
		return c, fmt.Errorf("tokens per chunk %d: want 1 to 1024", c.TokensPerChunk)
	case c.TokensPerChunk > 1 && c.Law == LawBatching:
		return c, errors.New("several tokens a chunk need the fixed law: a batching step gives one")
	case c.Reasoning < 0 || c.MaxModelLen < 0:
		return c, errors.New("token counts cannot be negative")
	}
	if c.CompletionsHabits == nil {
		same := c.Habits
		c.CompletionsHabits = &same
	}
	var err error
	if c.Habits, err = c.Habits.resolve(c.Law); err != nil {
		return c, err
	}
	other, err := c.CompletionsHabits.resolve(c.Law)
	if err != nil {
		return c, err
	}
	c.CompletionsHabits = &other
	if c.Habits.HoldBack > 0 && (c.Reasoning > 0 || c.ToolCall) {
		return c, errors.New("text that is held back needs an answer of text alone: no reasoning, no tool call")
	}
	if c.Batching, err = c.Batching.resolve(); err != nil {
		return c, err
	}
	if err := c.Faults.check(); err != nil {
		return c, err
	}
	return c, nil
}
