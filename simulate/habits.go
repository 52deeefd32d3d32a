package simulate

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Finish says how an answer of OpenAI's API ends.
type Finish string

const (
	FinishApart Finish = "apart" // an event of its own, without a token
	FinishToken Finish = "token" // the event of the last token has the finish_reason, as vLLM's and TGI's do
)

// Usage says where a stream of OpenAI's API has its token counts.
type Usage string

const (
	UsageAsked   Usage = "asked"   // as stream_options say, vLLM's way: in each event, at the end, or never
	UsageEach    Usage = "each"    // in each event and at the end, asked or not
	UsageEnd     Usage = "end"     // at the end; continuous_usage_stats is ignored
	UsageNever   Usage = "never"   // nowhere; stream_options are ignored
	UsageContent Usage = "content" // as asked, but never on a role or a finish event without a token, as SGLang does
	UsageZero    Usage = "zero"    // zeros in each event, true counts at the end, as Ollama's completions do
	UsageNull    Usage = "null"    // null in each event, true counts at the end, as OpenAI does
	UsageFinish  Usage = "finish"  // on the finish event, asked or not, and not in one of its own, as llama.cpp's completions do
)

// Habits are what real engines do on the wire and a naive one does not. The
// zero value has none of them and costs nothing. docs/simulate.md has the
// table; ParseHabit knows each by its name there.
type Habits struct {
	Dialect Dialect // whose members events have, and in which order; empty: Plain

	// Tokens without text. They count, and take their time.
	SilentEvery int  // each N-th token has no text; 0: none
	SilentTail  int  // the last N tokens have none
	SilentAll   bool // no token has
	EOSAfter    int  // the model ends after N tokens by one more, without text; under ignore_eos it goes on without text; 0: never
	HoldBack    int  // text comes N tokens late and all of it with the last token, as before a possible stop string
	CharTokens  int  // a character has N tokens: only its last one shows text; 0: 1
	NoChunk     bool // tokens that show nothing get no event, instead of one without text
	NoPartial   bool // incomplete characters get none, other tokens without text do

	Speculative int    // 1 to N tokens in an event, drawn; law fixed; 0: none
	Finish      Finish // empty: FinishApart
	ToolHead    int    // the parser swallows the first N tokens of a tool call: its first event counts them all
	RoleNull    bool   // a role chunk has content null instead of ""
	RoleEvery   bool   // no role chunk: each delta has the role, as Ollama's do

	Usage       Usage // empty: UsageAsked
	UsageTotal  bool  // counts in events are sums over all choices instead of each choice's own
	UsageChoice bool  // a usage event after each choice's end with its own counts, as llama.cpp's chat does
	Timings     bool  // llama.cpp's timings at the end, and with timings_per_token in each event
	Metrics     bool  // vLLM's metrics of the request on the last event, as with --enable-per-request-metrics

	Refuse     []string // request members that are answered by 400; a dot names one inside, as stream_options.continuous_usage_stats
	RefuseNew  bool     // and so are all that this engine does not know
	OpenAIOnly bool     // what Ollama has below /api is not there: who speaks both is taken for Ollama
	StrictHost bool     // a Host that is no local name is answered by 403, as Ollama does

	Comments    int  // an SSE comment at once and before each N-th event; 0: none
	NullEvent   bool // several prompts: an event "data: null" comes first, as llama.cpp's does
	JoinRole    bool // the role event shares the HTTP chunk of the choice's first event
	JoinUsage   bool // the finish event shares its HTTP chunk with the usage event
	JoinDone    bool // and [DONE] shares theirs
	OwnWrites   bool // each HTTP chunk is written by itself
	EventsWrite int  // that many events (of tokens) are held back and go out in one write; 0: none are

	Dribble     int           // writes have at most so many bytes; 0: no limit
	DribbleGap  time.Duration // between them; 0: back to back
	BufferBytes int           // a proxy holds bytes back until there are so many …
	BufferTime  time.Duration // … or so much time has passed; both 0: no proxy

	manner
}

// manner is what is asked of habits for every token, worked out once: strings
// are slow to compare.
type manner struct {
	hushed bool // some tokens may show nothing
	mutes  bool // and then have no event
	token  bool // FinishToken
	usage  uint8
}

const (
	usageAsked uint8 = iota
	usageEach
	usageEnd
	usageNever
	usageContent
	usageZero
	usageNull
	usageFinish
)

// usages are the modes by their names.
var usages = map[Usage]uint8{
	UsageAsked: usageAsked, UsageEach: usageEach, UsageEnd: usageEnd, UsageNever: usageNever,
	UsageContent: usageContent, UsageZero: usageZero, UsageNull: usageNull, UsageFinish: usageFinish,
}

// none reports whether resolved habits are those of the zero value.
func (h *Habits) none() bool {
	return reflect.DeepEqual(*h, Habits{Dialect: Plain, Finish: FinishApart, Usage: UsageAsked, manner: h.manner})
}

// hush reports whether some tokens may show nothing.
func (h *Habits) hush() bool {
	return h.SilentEvery > 0 || h.SilentTail > 0 || h.SilentAll || h.EOSAfter > 0 || h.HoldBack > 0 || h.CharTokens > 1
}

// outlet reports whether writes differ from events.
func (h *Habits) outlet() bool {
	return h.OwnWrites || h.EventsWrite > 1 || h.Dribble > 0 || h.BufferBytes > 0 || h.BufferTime > 0
}

// silent reports whether token k of an answer of n tokens has no text.
func (h *Habits) silent(k, n int) bool {
	return h.SilentAll ||
		(h.SilentEvery > 0 && (k+1)%h.SilentEvery == 0) ||
		k >= n-h.SilentTail ||
		(h.EOSAfter > 0 && k >= h.EOSAfter)
}

// end is up to which token an event that carries tokens up to to shows text.
func (h *Habits) end(q *sequence, to int) int {
	if to == q.output || !h.hushed {
		return to
	}
	if h.CharTokens > 1 {
		to -= to % h.CharTokens
	}
	return max(q.shown, to-h.HoldBack)
}

// partial reports whether token to − 1 is an incomplete character.
func (h *Habits) partial(q *sequence, to int) bool {
	return h.CharTokens > 1 && to%h.CharTokens != 0 && to < q.output
}

// shows reports whether an event that carries tokens up to to would have text.
func (h *Habits) shows(q *sequence, to int) bool {
	for k := q.shown; k < h.end(q, to); k++ {
		if !h.silent(k, q.output) {
			return true
		}
	}
	return false
}

// say appends the text of an event that carries tokens up to to.
func (h *Habits) say(b []byte, q *sequence, to int) []byte {
	return h.words(b, q, q.shown, h.end(q, to))
}

// words appends tokens from up to to, without those that have no text.
func (h *Habits) words(b []byte, q *sequence, from, to int) []byte {
	if !h.hushed {
		return appendWords(b, q, from, to)
	}
	for k := from; k < to; k++ {
		if !h.silent(k, q.output) {
			b = appendWords(b, q, k, k+1)
		}
	}
	return b
}

// resolve fills in the documented zero values and refuses what cannot be.
func (h Habits) resolve(law Law) (Habits, error) {
	if h.Dialect == "" {
		h.Dialect = Plain
	}
	if h.Finish == "" {
		h.Finish = FinishApart
	}
	if h.Usage == "" {
		h.Usage = UsageAsked
	}
	if _, err := dialectOf(h.Dialect); err != nil {
		return h, err
	}
	switch h.Finish {
	case FinishApart, FinishToken:
	default:
		return h, fmt.Errorf("finish %q: want %q or %q", h.Finish, FinishApart, FinishToken)
	}
	if _, ok := usages[h.Usage]; !ok {
		return h, fmt.Errorf("usage %q: want asked, each, end, never, content, zero, null or finish", h.Usage)
	}
	for _, n := range []int{h.SilentEvery, h.SilentTail, h.EOSAfter, h.HoldBack, h.CharTokens, h.Speculative, h.ToolHead, h.Comments, h.EventsWrite, h.Dribble, h.BufferBytes} {
		if n < 0 || n > maxOutput {
			return h, fmt.Errorf("habit of %d: want 0 to %d", n, maxOutput)
		}
	}
	switch {
	case h.Speculative > 1 && law == LawBatching:
		return h, errors.New("speculative decoding needs the fixed law: a batching step gives one token")
	case h.DribbleGap < 0 || h.BufferTime < 0:
		return h, errors.New("times of a habit cannot be negative")
	case h.DribbleGap > 0 && h.Dribble == 0:
		return h, errors.New("a gap between small writes needs their size")
	case h.EventsWrite > 1 && (h.BufferBytes > 0 || h.BufferTime > 0):
		return h, errors.New("several events in one write and a proxy that buffers exclude each other")
	}
	h.manner = manner{hushed: h.hush(), mutes: h.NoChunk || h.NoPartial, token: h.Finish == FinishToken, usage: usages[h.Usage]}
	return h, nil
}
