package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Job is what to ask of the engine.
type Job struct {
	// Prompt is the text to go on with; for chats, the one message of the user
	// when there are no Messages.
	Prompt string
	// Prompts are several prompts in one request (OpenAI completions only).
	// When it is not empty, Prompt is not looked at.
	Prompts []string
	// Messages is a conversation, for chats.
	Messages []Message

	MaxTokens int // 0: the engine decides
	// IgnoreEOS asks for exactly MaxTokens. Not every engine knows the word:
	// Ollama does not.
	IgnoreEOS   bool
	Temperature *float64 // nil: the engine decides
	TopP        *float64 // likewise

	// Extra is a JSON object whose members go into the request's body, in place
	// of ours where the names meet.
	Extra json.RawMessage
	// Headers go behind the client's own.
	Headers map[string]string
}

// Message is one turn of a conversation.
type Message struct {
	Role    string
	Content string
}

var (
	errPrompts  = errors.New("several prompts in one request need the backend openai")
	errMessages = errors.New("messages need a chat backend")
)

// member is one member of a JSON object, with its name's quotes.
type member struct {
	name  string
	value []byte
}

// extra is a parsed Job.Extra. Jobs of one run nearly always share theirs.
type extra struct {
	raw     []byte
	members []member
	options []member // of Ollama's "options", which are merged and not replaced
}

func parseExtra(raw []byte, options bool) (*extra, error) {
	x := &extra{raw: bytes.Clone(raw)}
	var err error
	if x.members, err = membersOf(x.raw); err != nil {
		return nil, fmt.Errorf("extra body: %w", err)
	}
	if options {
		for i, m := range x.members {
			if m.name != "options" {
				continue
			}
			if x.options, err = membersOf(m.value); err != nil {
				return nil, fmt.Errorf("extra body: options: %w", err)
			}
			x.members = slices.Delete(x.members, i, i+1)
			break
		}
	}
	return x, nil
}

func membersOf(raw []byte) ([]member, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	out := make([]member, 0, len(m))
	for name, value := range m {
		var b bytes.Buffer
		if err := json.Compact(&b, value); err != nil {
			return nil, err
		}
		out = append(out, member{name, b.Bytes()})
	}
	slices.SortFunc(out, func(a, b member) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return out, nil
}

// object appends a JSON object whose members others may override.
type object struct {
	b    []byte
	over []member
	n    int
}

func (o *object) open(over []member) { o.b, o.over, o.n = append(o.b, '{'), over, 0 }

// name begins a member; false: it is overridden.
func (o *object) name(s string) bool {
	for _, m := range o.over {
		if m.name == s {
			return false
		}
	}
	o.bare(s)
	return true
}

func (o *object) bare(s string) {
	if o.n > 0 {
		o.b = append(o.b, ',')
	}
	o.n++
	o.b = append(appendString(o.b, s), ':')
}

func (o *object) str(name, v string) {
	if o.name(name) {
		o.b = appendString(o.b, v)
	}
}

func (o *object) lit(name, v string) {
	if o.name(name) {
		o.b = append(o.b, v...)
	}
}

func (o *object) num(name string, v int) {
	if o.name(name) {
		o.b = strconv.AppendInt(o.b, int64(v), 10)
	}
}

func (o *object) float(name string, v *float64) {
	if v != nil && o.name(name) {
		o.b = strconv.AppendFloat(o.b, *v, 'g', -1, 64)
	}
}

func (o *object) close() {
	for _, m := range o.over {
		o.bare(m.name)
		o.b = append(o.b, m.value...)
	}
	o.b = append(o.b, '}')
}

// appendBody appends the request's JSON body.
func (c *Client) appendBody(b []byte, job *Job) ([]byte, error) {
	if len(job.Prompts) > 0 && c.backend != OpenAI {
		return b, errPrompts
	}
	if len(job.Messages) > 0 && !c.backend.Chat() {
		return b, errMessages
	}
	x := new(extra)
	if len(job.Extra) > 0 {
		if x = c.extra.Load(); x == nil || !bytes.Equal(x.raw, job.Extra) {
			var err error
			if x, err = parseExtra(job.Extra, !c.backend.sse()); err != nil {
				return b, err
			}
			c.extra.Store(x)
		}
	}
	o := object{b: b}
	o.open(x.members)
	o.str("model", c.model)
	if c.backend.Chat() {
		if o.name("messages") {
			o.b = appendMessages(o.b, job)
		}
	} else if o.name("prompt") {
		o.b = appendPrompt(o.b, job)
	}
	o.lit("stream", "true")
	if c.backend.sse() {
		c.openAIOptions(&o, job)
	} else if len(x.options) > 0 || job.MaxTokens > 0 || job.Temperature != nil || job.TopP != nil {
		o.bare("options")
		in := object{b: o.b}
		in.open(x.options)
		if job.MaxTokens > 0 {
			in.num("num_predict", job.MaxTokens)
		}
		in.float("temperature", job.Temperature)
		in.float("top_p", job.TopP)
		in.close()
		o.b = in.b
	}
	o.close()
	return o.b, nil
}

func (c *Client) openAIOptions(o *object, job *Job) {
	if job.MaxTokens > 0 {
		o.num("max_tokens", job.MaxTokens)
	}
	o.float("temperature", job.Temperature)
	o.float("top_p", job.TopP)
	if job.IgnoreEOS {
		o.lit("ignore_eos", "true")
	}
	if c.timingsPerToken {
		o.lit("timings_per_token", "true")
	}
	switch c.usage {
	case UsageOnce:
		o.lit("stream_options", `{"include_usage":true}`)
	case UsageEach:
		o.lit("stream_options", `{"include_usage":true,"continuous_usage_stats":true}`)
	}
}

func appendPrompt(b []byte, job *Job) []byte {
	if len(job.Prompts) == 0 {
		return appendString(b, job.Prompt)
	}
	b = append(b, '[')
	for i, p := range job.Prompts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, p)
	}
	return append(b, ']')
}

func appendMessages(b []byte, job *Job) []byte {
	b = append(b, '[')
	add := func(i int, m Message) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"role":`...)
		b = appendString(b, m.Role)
		b = append(b, `,"content":`...)
		b = appendString(b, m.Content)
		b = append(b, '}')
	}
	for i, m := range job.Messages {
		add(i, m)
	}
	if len(job.Messages) == 0 {
		add(0, Message{"user", job.Prompt})
	}
	return append(b, ']')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. encoding/json's way costs an
// allocation of the whole prompt for each request.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + n
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
