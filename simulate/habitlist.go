package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Habit is one switch by its name on the command line.
type Habit struct {
	Name  string
	Value string // what stands after =; empty: nothing does
	Help  string
	set   func(c *Config, h *Habits, value string) error
}

// HabitList is every habit, in the order of docs/simulate.md.
func HabitList() []Habit {
	return []Habit{
		{"dialect", "ENGINE", "members of events and their order: plain, vllm, sglang, llama.cpp, ollama, tgi", func(_ *Config, h *Habits, v string) error {
			h.Dialect = Dialect(v)
			return nil
		}},

		{"silent-every", "N", "each N-th token has no text", count(func(h *Habits) *int { return &h.SilentEvery })},
		{"silent-tail", "N", "the last N tokens have no text", count(func(h *Habits) *int { return &h.SilentTail })},
		{"silent-all", "", "no token has text", toggle(func(h *Habits) *bool { return &h.SilentAll })},
		{"eos-after", "N", "the model ends after N tokens by one more without text; under ignore_eos it goes on without text", count(func(h *Habits) *int { return &h.EOSAfter })},
		{"hold-back", "N", "text comes N tokens late, the rest with the last token", count(func(h *Habits) *int { return &h.HoldBack })},
		{"char-tokens", "N", "a character has N tokens: only its last one shows text", count(func(h *Habits) *int { return &h.CharTokens })},
		{"no-chunk", "", "tokens that show nothing get no event", toggle(func(h *Habits) *bool { return &h.NoChunk })},
		{"no-partial", "", "incomplete characters get no event", toggle(func(h *Habits) *bool { return &h.NoPartial })},

		{"speculative", "N", "1 to N tokens in an event (law fixed)", count(func(h *Habits) *int { return &h.Speculative })},
		{"finish", "apart|token", "the finish event has no token, or the last one", func(_ *Config, h *Habits, v string) error {
			h.Finish = Finish(v)
			return nil
		}},
		{"role-null", "", "a role chunk has content null", toggle(func(h *Habits) *bool { return &h.RoleNull })},
		{"role-every", "", "no role chunk: each delta has the role", toggle(func(h *Habits) *bool { return &h.RoleEvery })},
		{"reasoning-only", "FIELD", "all tokens of a chat are reasoning, in this member", func(c *Config, _ *Habits, v string) error {
			c.Reasoning, c.ReasoningField = maxOutput, v
			return nil
		}},
		{"tool-head", "N", "chat answers are a tool call whose first event counts N tokens", func(c *Config, h *Habits, v string) error {
			c.ToolCall = true
			return count(func(h *Habits) *int { return &h.ToolHead })(c, h, v)
		}},

		{"usage", "WHEN", "counts: asked, each, end, never, content, zero, null, finish", func(_ *Config, h *Habits, v string) error {
			h.Usage = Usage(v)
			return nil
		}},
		{"usage-total", "", "counts in events are sums over all choices", toggle(func(h *Habits) *bool { return &h.UsageTotal })},
		{"usage-choice", "", "a usage event after each choice, with its own counts", toggle(func(h *Habits) *bool { return &h.UsageChoice })},
		{"timings", "", "llama.cpp's timings at the end, with timings_per_token in each event", toggle(func(h *Habits) *bool { return &h.Timings })},
		{"metrics", "", "vLLM's metrics of the request in the usage event", toggle(func(h *Habits) *bool { return &h.Metrics })},

		{"refuse", "FIELD", "400 for a request with this member, as ignore_eos or stream_options.continuous_usage_stats; repeatable", func(_ *Config, h *Habits, v string) error {
			if v == "continuous_usage_stats" || v == "include_usage" {
				v = "stream_options." + v
			}
			h.Refuse = append(h.Refuse[:len(h.Refuse):len(h.Refuse)], v)
			return nil
		}},
		{"refuse-new", "", "400 for a request with a member that OpenAI does not know", toggle(func(h *Habits) *bool { return &h.RefuseNew })},
		{"openai-only", "", "404 for Ollama's own API", toggle(func(h *Habits) *bool { return &h.OpenAIOnly })},
		{"strict-host", "", "403 for a Host that is no local name", toggle(func(h *Habits) *bool { return &h.StrictHost })},

		{"comments", "N", "an SSE comment at once and after each N events", count(func(h *Habits) *int { return &h.Comments })},
		{"null-event", "", "several prompts: data: null comes first", toggle(func(h *Habits) *bool { return &h.NullEvent })},
		{"join-role", "", "role and first token in one HTTP chunk", toggle(func(h *Habits) *bool { return &h.JoinRole })},
		{"join-usage", "", "finish and usage in one HTTP chunk", toggle(func(h *Habits) *bool { return &h.JoinUsage })},
		{"join-done", "", "finish, usage and [DONE] in one HTTP chunk", toggle(func(h *Habits) *bool { return &h.JoinDone })},
		{"own-writes", "", "each HTTP chunk is a write of its own", toggle(func(h *Habits) *bool { return &h.OwnWrites })},
		{"events-per-write", "N", "N events are held back and go out in one write", count(func(h *Habits) *int { return &h.EventsWrite })},
		{"dribble", "BYTES[/GAP]", "writes of so many bytes, with this time between them", pair(func(h *Habits) (*int, *time.Duration) { return &h.Dribble, &h.DribbleGap })},
		{"buffer", "BYTES[/TIME]", "a proxy holds back until there are so many bytes, or this time has passed; 0 bytes: time alone", pair(func(h *Habits) (*int, *time.Duration) { return &h.BufferBytes, &h.BufferTime })},
	}
}

func count(at func(*Habits) *int) func(*Config, *Habits, string) error {
	return func(_ *Config, h *Habits, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want a count", v)
		}
		*at(h) = n
		return nil
	}
}

func toggle(at func(*Habits) *bool) func(*Config, *Habits, string) error {
	return func(_ *Config, h *Habits, v string) error {
		on, err := strconv.ParseBool(v)
		if v == "" {
			on, err = true, nil
		}
		if err != nil {
			return fmt.Errorf("%q: want true or false, or nothing", v)
		}
		*at(h) = on
		return nil
	}
}

func pair(at func(*Habits) (*int, *time.Duration)) func(*Config, *Habits, string) error {
	return func(_ *Config, h *Habits, v string) error {
		size, gap, timed := strings.Cut(v, "/")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want BYTES or BYTES/TIME, as 16/200us", v)
		}
		var d time.Duration
		if timed {
			if d, err = time.ParseDuration(gap); err != nil {
				return fmt.Errorf("%q: want BYTES or BYTES/TIME, as 16/200us", v)
			}
		}
		bytes, time := at(h)
		*bytes, *time = n, d
		return nil
	}
}

// SetHabit switches a habit on: NAME or NAME=VALUE of HabitList, for both
// APIs, or after "chat:" or "completions:" for one of them.
func (c *Config) SetHabit(s string) error {
	name, value, given := strings.Cut(s, "=")
	only, rest, one := strings.Cut(name, ":")
	if one {
		name = rest
	}
	for _, h := range HabitList() {
		if h.Name != name {
			continue
		}
		if h.Value != "" && !given {
			if name != "reasoning-only" {
				return fmt.Errorf("habit %s: want %s=%s", name, name, h.Value)
			}
			value = c.ReasoningField
		}
		if c.CompletionsHabits == nil {
			same := c.Habits
			c.CompletionsHabits = &same
		}
		for i, to := range []*Habits{&c.Habits, c.CompletionsHabits} {
			if one && only != [...]string{"chat", "completions"}[i] {
				continue
			}
			if err := h.set(c, to, value); err != nil {
				return fmt.Errorf("habit %s=%w", name, err)
			}
		}
		if one && only != "chat" && only != "completions" {
			return fmt.Errorf("habit %s: want chat:%s, completions:%s, or neither", s, name, name)
		}
		return nil
	}
	return fmt.Errorf("no habit %q: docs/simulate.md has their table", name)
}

// Like switches on what an engine does: vllm, sglang, llama.cpp, ollama or
// tgi. It replaces all habits that were set before.
func (c *Config) Like(engine string) error {
	var chat, completions Habits
	field := "reasoning_content"
	switch Dialect(engine) {
	case VLLM:
		chat = Habits{Dialect: VLLM, OpenAIOnly: true, Finish: FinishToken, OwnWrites: true}
		completions = chat
		field = "reasoning"
	case SGLang:
		chat = Habits{Dialect: SGLang, OpenAIOnly: true, Usage: UsageContent, NoChunk: true, OwnWrites: true}
		completions = Habits{Dialect: SGLang, OpenAIOnly: true, Finish: FinishToken, OwnWrites: true}
	case LlamaCpp:
		chat = Habits{Dialect: LlamaCpp, OpenAIOnly: true, Usage: UsageEnd, UsageChoice: true, Timings: true, NoChunk: true,
			RoleNull: true, JoinRole: true, JoinUsage: true, OwnWrites: true}
		completions = Habits{Dialect: LlamaCpp, OpenAIOnly: true, Usage: UsageFinish, Timings: true, NoPartial: true, NullEvent: true, OwnWrites: true}
	case OllamaV1:
		chat = Habits{Dialect: OllamaV1, Usage: UsageEnd, NoChunk: true, RoleEvery: true, JoinDone: true, StrictHost: true, OwnWrites: true}
		completions = chat
		completions.Usage = UsageZero
		field = "reasoning"
	case TGI:
		chat = Habits{Dialect: TGI, OpenAIOnly: true, Usage: UsageFinish, Finish: FinishToken, RoleEvery: true, OwnWrites: true}
		completions = chat
	default:
		return fmt.Errorf("no engine %q: want vllm, sglang, llama.cpp, ollama or tgi", engine)
	}
	c.Habits, c.CompletionsHabits = chat, &completions
	if c.ReasoningField == "" || c.ReasoningField == "reasoning_content" { // not chosen otherwise
		c.ReasoningField = field
	}
	return nil
}
