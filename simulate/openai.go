package simulate

import (
	"math"
	"strconv"
)

// openAI renders /v1/chat/completions and /v1/completions as vLLM does: a
// role chunk, one chunk an event, a finish chunk, usage in a chunk of its own
// without choices, and [DONE].
type openAI struct {
	e     *Engine
	chat  bool
	model string // as it stands in JSON, without quotes
}

func (v *openAI) head(b []byte, r *reply) []byte {
	if v.chat {
		b = append(b, `data: {"id":"chatcmpl-`...)
	} else {
		b = append(b, `data: {"id":"cmpl-`...)
	}
	b = append(b, r.quotedID...)
	if v.chat {
		b = append(b, `","object":"chat.completion.chunk","created":`...)
	} else {
		b = append(b, `","object":"text_completion","created":`...)
	}
	b = strconv.AppendInt(b, r.created, 10)
	b = append(b, `,"model":"`...)
	b = append(b, v.model...)
	return append(b, `","choices":[`...)
}

func (v *openAI) tail(b []byte, r *reply) []byte {
	b = append(b, ']')
	if r.running {
		b = append(b, `,"usage":`...)
		b = v.counts(b, r)
	}
	return append(b, "}\n\n"...)
}

func (v *openAI) open(b []byte, r *reply) []byte {
	if !v.chat || v.e.cfg.Role == RoleOff {
		return b
	}
	for _, q := range r.sequences {
		var at int
		b, at = frame(b, r)
		b = v.head(b, r)
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(q.index), 10)
		b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`...)
		b = v.tail(b, r)
		b = seal(b, r, at)
	}
	return b
}

func (v *openAI) tokens(b []byte, q *sequence, n int) []byte {
	r := q.reply
	from := q.given - n
	// Reasoning and answer never share an event.
	if edge := v.e.cfg.Reasoning; v.chat && from < edge && q.given > edge {
		b = v.event(b, q, from, edge)
		from = edge
	}
	if from < q.given {
		b = v.event(b, q, from, q.given)
	}
	if q.left() > 0 {
		return b
	}
	b, at := frame(b, r)
	b = v.head(b, r)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	if v.chat {
		b = append(b, `,"delta":{},"logprobs":null,"finish_reason":"`...)
	} else {
		b = append(b, `,"text":"","logprobs":null,"finish_reason":"`...)
	}
	b = append(b, r.finish...)
	b = append(b, `","stop_reason":null}`...)
	b = v.tail(b, r)
	return seal(b, r, at)
}

// event is one chunk with tokens from up to to.
func (v *openAI) event(b []byte, q *sequence, from, to int) []byte {
	r := q.reply
	b, at := frame(b, r)
	b = v.head(b, r)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	switch {
	case !v.chat:
		b = append(b, `,"text":"`...)
		b = appendWords(b, q, from, to)
		b = append(b, `","logprobs":null,"finish_reason":null,"stop_reason":null}`...)
	case from < v.e.cfg.Reasoning:
		b = append(b, `,"delta":{"`...)
		b = append(b, v.e.cfg.ReasoningField...)
		b = append(b, `":"`...)
		b = appendWords(b, q, from, to)
		b = append(b, `"},"logprobs":null,"finish_reason":null}`...)
	case v.e.cfg.ToolCall:
		b = append(b, `,"delta":{"tool_calls":[{"index":0,`...)
		if from == v.e.cfg.Reasoning {
			b = append(b, `"id":"call-`...)
			b = append(b, r.quotedID...)
			b = append(b, `","type":"function","function":{"name":"look_up","arguments":"`...)
		} else {
			b = append(b, `"function":{"arguments":"`...)
		}
		b = appendArguments(b, q, v.e.cfg.Reasoning, from, to, `\"`)
		b = append(b, `"}}]},"logprobs":null,"finish_reason":null}`...)
	default:
		b = append(b, `,"delta":{"content":"`...)
		b = appendWords(b, q, from, to)
		b = append(b, `"},"logprobs":null,"finish_reason":null}`...)
	}
	b = v.tail(b, r)
	return seal(b, r, at)
}

// appendArguments appends a part of the tool call's arguments, which are
// valid JSON when put together. The quote is escaped inside a JSON string.
func appendArguments(b []byte, q *sequence, start, from, to int, quote string) []byte {
	if from == start {
		b = append(b, '{')
		b = append(b, quote...)
		b = append(b, "query"...)
		b = append(b, quote...)
		b = append(b, ':')
		b = append(b, quote...)
	}
	b = appendWords(b, q, from, to)
	if to == q.output {
		b = append(b, quote...)
		b = append(b, '}')
	}
	return b
}

func (v *openAI) end(b []byte, r *reply) []byte {
	if r.usage {
		var at int
		b, at = frame(b, r)
		b = v.head(b, r)
		b = append(b, `],"usage":`...)
		b = v.counts(b, r)
		b = append(b, "}\n\n"...)
		b = seal(b, r, at)
	}
	return doneEvent(b, r)
}

func doneEvent(b []byte, r *reply) []byte {
	b, at := frame(b, r)
	b = append(b, "data: [DONE]\n\n"...)
	return seal(b, r, at)
}

// counts is a usage object for what has been given so far, false by the
// factor that was asked for.
func (v *openAI) counts(b []byte, r *reply) []byte {
	in, out := v.e.usage(r.input), v.e.usage(r.given)
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, in, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, in+out, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, out, 10)
	if v.e.prefix == nil {
		return append(b, `,"prompt_tokens_details":null}`...)
	}
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, v.e.usage(r.cached), 10)
	return append(b, "}}"...)
}

func (e *Engine) usage(n int) int64 {
	if f := e.cfg.Faults.Usage; f > 0 {
		return int64(math.Round(float64(n) * f))
	}
	return int64(n)
}

func (v *openAI) whole(b []byte, r *reply) []byte {
	if v.chat {
		b = append(b, `{"id":"chatcmpl-`...)
		b = append(b, r.quotedID...)
		b = append(b, `","object":"chat.completion","created":`...)
	} else {
		b = append(b, `{"id":"cmpl-`...)
		b = append(b, r.quotedID...)
		b = append(b, `","object":"text_completion","created":`...)
	}
	b = strconv.AppendInt(b, r.created, 10)
	b = append(b, `,"model":"`...)
	b = append(b, v.model...)
	b = append(b, `","choices":[`...)
	for i, q := range r.sequences {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(q.index), 10)
		if v.chat {
			b = append(b, `,"message":`...)
			b = v.message(b, q)
		} else {
			b = append(b, `,"text":"`...)
			b = appendWords(b, q, 0, q.output)
			b = append(b, '"')
		}
		b = append(b, `,"logprobs":null,"finish_reason":"`...)
		b = append(b, r.finish...)
		b = append(b, `","stop_reason":null}`...)
	}
	b = append(b, `],"usage":`...)
	b = v.counts(b, r)
	return append(b, '}')
}

func (v *openAI) message(b []byte, q *sequence) []byte {
	split := min(v.e.cfg.Reasoning, q.output)
	b = append(b, `{"role":"assistant"`...)
	if split > 0 {
		b = append(b, `,"`...)
		b = append(b, v.e.cfg.ReasoningField...)
		b = append(b, `":"`...)
		b = appendWords(b, q, 0, split)
		b = append(b, '"')
	}
	if v.e.cfg.ToolCall {
		b = append(b, `,"content":null,"tool_calls":[{"id":"call-`...)
		b = append(b, q.reply.quotedID...)
		b = append(b, `","type":"function","function":{"name":"look_up","arguments":"`...)
		b = appendArguments(b, q, split, split, q.output, `\"`)
		return append(b, `"}}]}`...)
	}
	b = append(b, `,"content":"`...)
	b = appendWords(b, q, split, q.output)
	return append(b, `"}`...)
}
