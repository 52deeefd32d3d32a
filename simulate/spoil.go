package simulate

import "net/http"

// spoil carries out the fault of a reply at the token where it is planned.
// It returns true when that was the end of the reply; otherwise what it
// appended goes out before the token.
func (e *Engine) spoil(b []byte, q *sequence, n int) ([]byte, bool) {
	r := q.reply
	c := r.conn
	switch r.plan.kind {
	case faultReset:
		c.reset()
	case faultTruncate:
		if !r.stream {
			body := r.voice.whole(nil, r)
			b = response(b, http.StatusOK, "application/json", "", body, true)
			c.write(b[:len(b)-len(body)/2])
			r.last = true
			break
		}
		if !r.chunked {
			r.last = true
		}
		c.write(lastChunk(b, r))
	case faultCut:
		if r.stream {
			b = r.voice.tokens(b, q, n)
		} else {
			b = response(b, http.StatusOK, "application/json", "", r.voice.whole(nil, r), true)
		}
		c.write(b[:len(b)/2])
		r.last = true
	case faultStreamError:
		if !r.stream {
			c.write(response(b, http.StatusInternalServerError, "application/json", "",
				errorBody(r.ollama, http.StatusInternalServerError, simulatedError), r.last))
			break
		}
		b, at := frame(b, r)
		if r.ollama {
			b = append(b, errorBody(true, http.StatusInternalServerError, simulatedError)...)
			b = append(b, '\n')
			b = seal(b, r, at)
		} else {
			b = append(b, "data: "...)
			b = append(b, errorBody(false, http.StatusInternalServerError, simulatedError)...)
			b = append(b, "\n\n"...)
			b = seal(b, r, at)
			b = doneEvent(b, r)
		}
		c.write(lastChunk(b, r))
	case faultEmpty:
		r.given, r.output = 0, 0
		for _, s := range r.sequences {
			s.given, s.output = 0, 0
		}
		r.finish = "stop"
		r.ended = e.pacer.now()
		r.first = r.ended
		if r.stream {
			for _, s := range r.sequences {
				b = r.voice.tokens(b, s, 0)
			}
			b = r.voice.end(b, r)
			b = lastChunk(b, r)
		} else {
			b = response(b, http.StatusOK, "application/json", "", r.voice.whole(nil, r), r.last)
		}
		c.write(b)
	case faultMalformed:
		if !r.stream {
			if r.given < r.output {
				return b, false
			}
			body := r.voice.whole(nil, r)
			c.write(response(b, http.StatusOK, "application/json", "", body[:len(body)/2], r.last))
			break
		}
		r.plan.kind = faultNone
		b, at := frame(b, r)
		if r.ollama {
			b = append(b, `{"model":"`...)
			b = append(b, "\n"...)
		} else {
			b = append(b, `data: {"id":"`...)
			b = append(b, r.quotedID...)
			b = append(b, `","choices":[{"index":0,"delta":{"conte`...)
			b = append(b, "\n\n"...)
		}
		return seal(b, r, at), false
	default:
		return b, false
	}
	e.end(r, "error")
	return b, true
}

const simulatedError = "simulated engine failure"
