package simulate

import "time"

// comment is what servers and proxies send to keep a stream alive.
const comment = ": ping\n\n"

// custom is give for a stream with habits: what is rendered may be nothing,
// and what is written may be something else.
func (e *Engine) custom(b []byte, q *sequence, n int, due int64, done bool) []byte {
	r := q.reply
	t := time.Now()
	now := int64(t.Sub(e.created))
	if q.first == 0 {
		q.first = now
	}
	due = e.pacer.effective(due)
	e.account(r, n, due, now)
	said := r.h.shows(q, q.given)
	b = e.speak(b, q, n, done)
	if e.truth != nil {
		e.mark(q, n, r.readWall+due-r.read, said)
	}
	switch {
	case len(b) == 0:
	case r.out == nil:
		r.stamp(q.index, q.covered, time.Now().UnixNano())
		r.conn.write(b)
	default:
		e.take(r, q, b, done)
		return b
	}
	if done {
		e.end(r, r.finish)
	}
	return b
}

// speak renders a step, with what stands before and after it.
func (e *Engine) speak(b []byte, q *sequence, n int, done bool) []byte {
	r := q.reply
	if !r.opened && !(r.h.NoChunk && r.h.JoinRole) {
		b = r.voice.open(b, r)
		r.opened = true
	}
	if c := r.h.Comments; c > 0 && !r.ollama && r.events == c {
		b = rawEvent(b, r, comment)
		r.events = 0
	}
	from := len(b)
	b = r.voice.tokens(b, q, n)
	if len(b) > from {
		r.events++
	}
	if done {
		r.ended = e.pacer.now()
		b = r.voice.end(b, r)
		b = lastChunk(b, r)
	}
	return b
}

// mark notes the last n tokens of q for the truth.
func (e *Engine) mark(q *sequence, n int, due int64, said bool) {
	r := q.reply
	for k := q.given - n; k < q.given; k++ {
		m := mark{due: due, choice: q.index, k: k}
		switch {
		case k >= q.own:
			m.letter = '-'
		case e.cfg.ToolCall && r.chat && r.h.token && k == q.output-1:
			m.letter = 's' // the end of a tool call is not shown
		case !said || (n > 1 && r.h.silent(k, q.output)):
			m.letter = 's'
		case k < e.cfg.Reasoning && r.chat:
			m.letter = 'r'
		case e.cfg.ToolCall && r.chat && !r.ollama:
			m.letter = 'c'
		default:
			m.letter = 't'
		}
		r.marks = append(r.marks, m)
	}
}
