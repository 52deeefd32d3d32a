package simulate

import (
	"math"
	"strconv"
)

// openAI renders /v1/chat/completions and /v1/completions: a role chunk, one
// chunk an event, a finish chunk, usage in a chunk of its own without choices,
// and [DONE], with the habits of the engine that it plays.
type openAI struct {
	e     *Engine
	h     *Habits
	shape *shape
	chat  bool
	model string   // as it stands in JSON, without quotes
	token template // of the shape, filled for this reply
}

func (v *openAI) open(b []byte, r *reply) []byte {
	if v.h.NullEvent && len(r.sequences) > 1 {
		b = rawEvent(b, r, "data: null\n\n")
	}
	if v.h.JoinRole || !v.speaks() {
		return b
	}
	for _, q := range r.sequences {
		b = v.event(b, &event{q: q, kind: kindRole})
	}
	return b
}

// speaks reports whether a role has an event of its own.
func (v *openAI) speaks() bool {
	return v.chat && v.e.cfg.Role != RoleOff && !v.h.RoleEvery
}

func (v *openAI) tokens(b []byte, q *sequence, n int) []byte {
	from := q.given - n
	// Reasoning and answer never share an event.
	if edge := v.e.cfg.Reasoning; v.chat && from < edge && q.given > edge {
		b = v.some(b, q, from, edge, false)
		from = edge
	}
	ends := q.left() == 0
	with := ends && from < q.given && v.h.token
	// A parser that has nothing to show of the last token ends with a bare event.
	bare := with && v.chat && (v.calls() || (v.h.NoChunk && !v.h.shows(q, q.given)))
	if bare {
		q.own = q.given
	} else {
		b = v.some(b, q, from, q.given, with)
	}
	if !ends {
		return b
	}
	if !with || bare {
		q.reply.carries = q.covered < q.given
		v.join(&b, q.reply, v.h.JoinUsage || v.h.JoinDone)
		b = v.event(b, &event{q: q, count: q.given, from: q.given, to: q.given, kind: kindFinish, last: v.closes(q)})
	}
	q.covered = q.given
	if v.h.UsageChoice && q.reply.usage {
		b = v.event(b, &event{q: q, count: q.given, kind: kindUsage, last: true})
	}
	if q.reply.given < q.reply.output || !v.h.JoinDone {
		v.part(&b, q.reply, v.h.UsageChoice || !q.reply.usage || !v.h.JoinUsage || q.reply.given < q.reply.output)
	}
	return b
}

// closes reports whether the end of q is the last event that it has.
func (v *openAI) closes(q *sequence) bool {
	if v.h.Timings && (v.h.usage == usageFinish || !q.reply.usage) {
		return true
	}
	return !v.counted(q.reply) && q.reply.given == q.reply.output
}

// counted reports whether a stream has an event of counts.
func (v *openAI) counted(r *reply) bool {
	switch v.h.usage {
	case usageNever, usageFinish:
		return false
	case usageEach:
		return true
	}
	return r.usage
}

// some sends tokens from up to to, if they have an event.
func (v *openAI) some(b []byte, q *sequence, from, to int, ends bool) []byte {
	if from == to {
		return b
	}
	if !ends && v.mute(q, to) {
		if v.h.JoinRole && !q.opened {
			b = v.greet(b, q, to)
		}
		return b
	}
	ev := event{q: q, from: from, to: to, count: to, kind: kindToken}
	if ends {
		ev.kind, ev.last = kindLast, v.closes(q)
	}
	first := v.h.JoinRole && !q.opened && v.speaks()
	q.opened = true
	v.join(&b, q.reply, first)
	if first {
		b = v.event(b, &event{q: q, kind: kindRole})
	}
	q.reply.carries = true
	b = v.event(b, &ev)
	v.part(&b, q.reply, first)
	q.covered, q.own = to, to
	if !v.calls() || ev.from < v.e.cfg.Reasoning || !v.shape.nameAlone || q.called {
		q.shown = v.h.end(q, to)
	}
	q.called = v.calls() && ev.from >= v.e.cfg.Reasoning
	return b
}

// mute reports whether tokens up to to get no event.
func (v *openAI) mute(q *sequence, to int) bool {
	if v.calls() && to > v.e.cfg.Reasoning && to < min(v.e.cfg.Reasoning+v.h.ToolHead, q.output) {
		return true
	}
	return v.h.mutes && (v.h.NoChunk || (v.h.NoPartial && v.h.partial(q, to))) && !v.h.shows(q, to)
}

// greet is what a first token that shows nothing sends where the role shares
// its HTTP chunk: the role alone, which then counts it. An incomplete
// character sends nothing, and then the role never comes.
func (v *openAI) greet(b []byte, q *sequence, to int) []byte {
	if q.opened = true; v.h.partial(q, to) || !v.speaks() {
		return b
	}
	q.reply.carries = true
	b = v.event(b, &event{q: q, to: to, count: to, kind: kindRole})
	q.covered, q.own = to, to
	return b
}

// calls reports whether the answer is a tool call.
func (v *openAI) calls() bool { return v.chat && v.e.cfg.ToolCall }

// event appends one event in its frame.
func (v *openAI) event(b []byte, ev *event) []byte {
	t := v.token
	switch ev.kind {
	case kindRole:
		t = v.shape.role
	case kindLast:
		t = v.shape.last
	case kindFinish:
		t = v.shape.finish
	case kindUsage:
		t = v.shape.usage
	}
	b, at := frame(b, ev.q.reply)
	b = append(b, "data: "...)
	b = v.render(b, t, ev)
	b = append(b, "\n\n"...)
	return seal(b, ev.q.reply, at)
}

// delta is what an event says: the text of a completion, or the members of a
// chat's delta.
func (v *openAI) delta(b []byte, ev *event) []byte {
	q := ev.q
	if !v.chat {
		return v.h.say(b, q, ev.to)
	}
	if v.h.RoleEvery {
		b = append(b, `"role":"assistant",`...)
	}
	s := v.shape
	switch {
	case ev.from < v.e.cfg.Reasoning:
		b = append(b, s.reasoning.before...)
		b = append(b, '"')
		b = append(b, v.e.cfg.ReasoningField...)
		b = append(b, `":"`...)
		b = v.h.say(b, q, ev.to)
		b = append(b, '"')
		return append(b, s.reasoning.after...)
	case v.calls():
		b = append(b, s.tools.before...)
		b = v.call(b, q, ev)
		return append(b, s.tools.after...)
	}
	b = append(b, s.content.before...)
	b = append(b, `"content":"`...)
	b = v.h.say(b, q, ev.to)
	b = append(b, '"')
	return append(b, s.content.after...)
}

// call is a part of a tool call. The first has its name, and counts all tokens
// that the parser swallowed until it knew it.
func (v *openAI) call(b []byte, q *sequence, ev *event) []byte {
	start := v.e.cfg.Reasoning
	b = append(b, `"tool_calls":[`...)
	switch {
	case q.called:
		b = append(b, `{"index":0,"function":{"arguments":"`...)
	case v.shape.nameAlone:
		b = append(b, `{"id":"chatcmpl-tool-`...)
		b = append(b, q.reply.quotedID...)
		return append(b, `","type":"function","index":0,"function":{"name":"look_up"}}]`...)
	default:
		b = append(b, `{"index":0,"id":"call-`...)
		b = append(b, q.reply.quotedID...)
		b = append(b, `","type":"function","function":{"name":"look_up","arguments":"`...)
	}
	end := q.output
	if v.h.token {
		end-- // the last token is swallowed too
	}
	b = appendArguments(b, q, start, max(q.shown, start), ev.to, end, `\"`)
	return append(b, `"}}]`...)
}

// appendArguments appends a part of the tool call's arguments, which are
// valid JSON when put together. The quote is escaped inside a JSON string.
func appendArguments(b []byte, q *sequence, start, from, to, end int, quote string) []byte {
	if from == start {
		b = append(b, '{')
		b = append(b, quote...)
		b = append(b, "query"...)
		b = append(b, quote...)
		b = append(b, ':')
		b = append(b, quote...)
	}
	b = appendWords(b, q, from, to)
	if to == end {
		b = append(b, quote...)
		b = append(b, '}')
	}
	return b
}

func (v *openAI) end(b []byte, r *reply) []byte {
	q := r.sequences[len(r.sequences)-1]
	if v.counted(r) && !v.h.UsageChoice {
		b = v.event(b, &event{q: q, count: r.given, kind: kindUsage, last: true})
	}
	v.part(&b, r, !v.h.JoinDone)
	b = doneEvent(b, r)
	v.part(&b, r, true)
	return b
}

func doneEvent(b []byte, r *reply) []byte { return rawEvent(b, r, "data: [DONE]\n\n") }

func rawEvent(b []byte, r *reply, text string) []byte {
	b, at := frame(b, r)
	b = append(b, text...)
	return seal(b, r, at)
}

// join starts an HTTP chunk that several events share, and part ends it.
func (v *openAI) join(b *[]byte, r *reply, yes bool) {
	if !yes || r.joined {
		return
	}
	*b, r.joinAt = frame(*b, r)
	r.joined = true
}

func (v *openAI) part(b *[]byte, r *reply, yes bool) {
	if !yes || !r.joined {
		return
	}
	r.joined = false
	*b = seal(*b, r, r.joinAt)
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
			b = v.h.words(b, q, 0, q.output)
			b = append(b, '"')
		}
		b = append(b, `,"logprobs":null,"finish_reason":"`...)
		b = append(b, r.finish...)
		b = append(b, `","stop_reason":null}`...)
	}
	b = append(b, `],"usage":`...)
	b = v.sum(b, r)
	return append(b, '}')
}

// sum is the usage object of a whole answer.
func (v *openAI) sum(b []byte, r *reply) []byte {
	h := Habits{}
	whole := openAI{e: v.e, h: &h, shape: v.shape}
	return whole.render(b, v.shape.total, &event{q: r.sequences[0], kind: kindUsage})
}

func (v *openAI) message(b []byte, q *sequence) []byte {
	split := min(v.e.cfg.Reasoning, q.output)
	b = append(b, `{"role":"assistant"`...)
	if split > 0 {
		b = append(b, `,"`...)
		b = append(b, v.e.cfg.ReasoningField...)
		b = append(b, `":"`...)
		b = v.h.words(b, q, 0, split)
		b = append(b, '"')
	}
	if v.e.cfg.ToolCall {
		b = append(b, `,"content":null,"tool_calls":[{"id":"call-`...)
		b = append(b, q.reply.quotedID...)
		b = append(b, `","type":"function","function":{"name":"look_up","arguments":"`...)
		b = appendArguments(b, q, split, split, q.output, q.output, `\"`)
		return append(b, `"}}]}`...)
	}
	b = append(b, `,"content":"`...)
	b = v.h.words(b, q, split, q.output)
	return append(b, `"}`...)
}
