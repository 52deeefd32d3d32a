package simulate

import (
	"strconv"
	"time"
)

// ollama renders /api/generate and /api/chat: one JSON object a line, the
// last one with the engine's own timings.
type ollama struct {
	e     *Engine
	h     *Habits
	chat  bool
	raw   bool   // no template, and so no context
	model string // as it stands in JSON, without quotes
}

func (v *ollama) head(b []byte) []byte {
	b = append(b, `{"model":"`...)
	b = append(b, v.model...)
	b = append(b, `","created_at":"`...)
	b = time.Now().UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func (v *ollama) open(b []byte, _ *reply) []byte { return b }

func (v *ollama) tokens(b []byte, q *sequence, n int) []byte {
	from := q.given - n
	if edge := v.e.cfg.Reasoning; from < edge && q.given > edge {
		b = v.line(b, q, from, edge)
		from = edge
	}
	b = v.line(b, q, from, q.given)
	if q.left() == 0 && q.covered < q.given {
		q.reply.carries, q.covered = true, q.given // the last line counts them
	}
	return b
}

func (v *ollama) line(b []byte, q *sequence, from, to int) []byte {
	r := q.reply
	if from == to || (v.h.NoChunk && !v.h.shows(q, to)) {
		return b
	}
	b, at := frame(b, r)
	b = v.head(b)
	b = v.text(b, q, q.shown, v.h.end(q, to))
	b = append(b, ",\"done\":false}\n"...)
	r.carries = true
	q.covered, q.own, q.shown = to, to, v.h.end(q, to)
	return seal(b, r, at)
}

// text is the fields that hold tokens from up to to.
func (v *ollama) text(b []byte, q *sequence, from, to int) []byte {
	split := max(from, min(to, v.e.cfg.Reasoning))
	if v.chat {
		b = append(b, `,"message":{"role":"assistant","content":"`...)
	} else {
		b = append(b, `,"response":"`...)
	}
	b = v.h.words(b, q, split, to)
	b = append(b, '"')
	if split > from {
		b = append(b, `,"thinking":"`...)
		b = v.h.words(b, q, from, split)
		b = append(b, '"')
	}
	if v.chat {
		b = append(b, '}')
	}
	return b
}

func (v *ollama) end(b []byte, r *reply) []byte {
	b, at := frame(b, r)
	b = v.head(b)
	b = v.text(b, r.sequences[0], 0, 0)
	b = v.timings(b, r)
	b = append(b, '\n')
	return seal(b, r, at)
}

func (v *ollama) whole(b []byte, r *reply) []byte {
	b = v.head(b)
	b = v.text(b, r.sequences[0], 0, r.output)
	return v.timings(b, r)
}

// timings closes the last object. As Ollama's do, eval_duration starts at the
// first token: it covers eval_count − 1 gaps.
func (v *ollama) timings(b []byte, r *reply) []byte {
	first := r.first
	if first == 0 {
		first = r.ended // the only token is in this very write
	}
	b = append(b, `,"done":true,"done_reason":"`...)
	b = append(b, r.finish...)
	b = append(b, '"')
	if v.h.Dialect == OllamaV1 && !v.chat && !v.raw {
		b = conversation(b, r)
	}
	field := func(name string, n int64) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, max(0, n), 10)
	}
	field("total_duration", r.ended-r.read)
	field("load_duration", r.load)
	field("prompt_eval_count", v.e.usage(r.input))
	field("prompt_eval_duration", first-r.read-r.load)
	field("eval_count", v.e.usage(r.output))
	field("eval_duration", r.ended-first)
	return append(b, '}')
}

// conversation is what Ollama wants back to go on with a conversation: the ids of
// all tokens so far.
func conversation(b []byte, r *reply) []byte {
	b = append(b, `,"context":[`...)
	for k := range r.input + r.output {
		b = appendItem(b, k, int64(k))
	}
	return append(b, ']')
}
