package simulate

import (
	"net/http"
	"strconv"
	"time"
)

// voice renders replies of one endpoint. Its methods append to dst and never
// keep it.
type voice interface {
	// open is what a stream sends before its first token; may be nothing.
	open(dst []byte, r *reply) []byte
	// tokens is one event that carries the n tokens that q was given last,
	// with the end of q's choice if they are its last ones.
	tokens(dst []byte, q *sequence, n int) []byte
	// end is what a complete stream sends after its last token.
	end(dst []byte, r *reply) []byte
	// whole is the body of a reply that is not streamed.
	whole(dst []byte, r *reply) []byte
}

// reply is one generation request and what became of it. The connection's
// goroutine makes it; after begin it belongs to the pacer.
type reply struct {
	conn    *conn
	voice   voice
	ollama  bool
	chat    bool
	stream  bool
	chunked bool // framed in HTTP chunks
	last    bool // the connection closes after it

	id       string // the client's, or made here
	quotedID string // as it stands in JSON, without quotes
	created  int64  // Unix seconds
	words    int    // where in the word list its answer starts
	finish   string // finish_reason
	usage    bool   // a last chunk with usage
	running  bool   // usage in every chunk
	plan     plan

	h           *Habits
	custom      bool // some habit is on, and it is a stream
	speculative int  // habit, where it is more than 1
	timings     bool // timings in every event were asked for

	sequences []*sequence
	input     int   // prompt tokens of all sequences
	cached    int   // of them from the prefix cache
	output    int   // tokens of all sequences
	read      int64 // when its body had been read, since the engine's start
	readWall  int64 // the same as Unix nanoseconds
	load      int64 // cold start that it suffered

	// The pacer's.
	given    int
	opened   bool
	over     bool
	first    int64 // when its first token was written
	latest   int64 // and its latest
	ended    int64 // when its last one was about to be
	lateness int64
	written  []int64

	joined  bool    // several events share an HTTP chunk …
	joinAt  int     // … that starts here
	carries bool    // the event under way has tokens …
	carried int     // … and such a one ends here
	cuts    []int   // ends of HTTP chunks in the bytes under way, for the outlet
	events  int     // steps that sent something since the last comment
	out     *outlet // nil: what is rendered is written
	marks   []mark  // the truth of a reply with habits
	stamped int     // marks before it have their stamp
}

// begin starts a generation: sends the head of a stream and hands the reply
// to the pacer.
func (e *Engine) begin(r *reply) {
	e.leak(e.cfg.Faults.Leak)
	if r.plan.kind == faultHang {
		return
	}
	if r.stream {
		b := streamHead(make([]byte, 0, 512), r)
		if e.cfg.Role == RoleEarly && r.plan.kind != faultEmpty {
			b = r.voice.open(b, r)
			r.opened = true
		}
		if r.h.Comments > 0 && !r.ollama {
			b = rawEvent(b, r, comment)
		}
		r.cuts = r.cuts[:0]
		r.conn.write(b)
	}
	due := r.read + int64(e.cfg.TTFT)
	if e.cfg.Law == LawBatching {
		due = never - 1 // only an idle loop must be woken
	}
	e.pacer.submit(order{r: r}, due)
}

// give writes tokens of q that are due. It runs on the pacer's goroutine and
// must neither block nor allocate.
func (e *Engine) give(q *sequence, n int, due int64) bool {
	r := q.reply
	r.given += n
	b := e.out[:0]
	if r.plan.kind != faultNone && r.given > r.plan.at {
		if r.out != nil {
			e.drain(r)
		}
		var over bool
		if b, over = e.spoil(b, q, n); over {
			e.out = b
			return false
		}
	}
	done := r.given == r.output
	if !r.stream {
		due = e.pacer.effective(due)
		if r.first == 0 {
			r.first = due
			e.stats.ttft.add(due - r.read)
		}
		if !done {
			return true
		}
		r.ended = due
		body := r.voice.whole(nil, r)
		b = response(b, http.StatusOK, "application/json", "", body, r.last)
		e.send(r, r.output, due, b)
	} else {
		if r.custom {
			b = e.custom(b, q, n, due, done)
			e.out = b
			return !done
		}
		if !r.opened {
			b = r.voice.open(b, r)
			r.opened = true
		}
		b = r.voice.tokens(b, q, n)
		if done {
			r.ended = e.pacer.now()
			b = r.voice.end(b, r)
			b = lastChunk(b, r)
		}
		e.send(r, n, due, b)
	}
	e.out = b
	if done {
		e.end(r, r.finish)
	}
	return !done
}

// send stamps and writes n tokens.
func (e *Engine) send(r *reply, n int, due int64, b []byte) {
	due = e.pacer.effective(due)
	t := time.Now()
	r.conn.write(b)
	if n == 0 {
		return
	}
	e.account(r, n, due, int64(t.Sub(e.created)))
	if e.truth != nil {
		wall := t.UnixNano()
		for range n {
			r.written = append(r.written, wall)
		}
	}
}

// account counts n tokens that were given now.
func (e *Engine) account(r *reply, n int, due, now int64) {
	late := max(0, now-due)
	r.lateness = max(r.lateness, late)
	e.stats.late.add(late)
	e.stats.tokens.Add(int64(n))
	if r.first == 0 {
		r.first = now
		e.stats.ttft.add(now - r.read)
	} else if r.stream {
		e.stats.itl.add(now - r.latest)
	}
	r.latest = now
}

// end closes the books on a reply.
func (e *Engine) end(r *reply, reason string) {
	r.over = true
	e.stats.finished(r, reason)
	if e.truth != nil {
		e.truth.note(r)
	}
	r.conn.finish(r.last)
	r.conn.done <- struct{}{}
}

// cancelled is told of a reply whose client went away.
func (e *Engine) cancelled(r *reply) {
	e.stats.finished(r, "abort")
	if e.truth != nil {
		e.truth.note(r)
	}
}

// Words of one length, so that a token is a token in every chunk.
var words = [...]string{
	" able", " acid", " also", " area", " army", " away", " baby", " back",
	" ball", " band", " bank", " base", " bath", " bear", " beat", " been",
	" bell", " belt", " best", " bill", " bird", " blow", " blue", " boat",
	" body", " bomb", " bond", " bone", " book", " boom", " born", " boss",
	" both", " bowl", " bulk", " burn", " bush", " busy", " call", " calm",
	" came", " camp", " card", " care", " case", " cash", " cast", " cell",
	" chat", " chip", " city", " club", " coal", " coat", " code", " cold",
	" come", " cook", " cool", " cope", " copy", " core", " cost", " crew",
}

// appendWords appends tokens from up to to of a sequence's answer.
func appendWords(dst []byte, q *sequence, from, to int) []byte {
	for k := from; k < to; k++ {
		dst = append(dst, words[(q.reply.words+q.index+k)%len(words)]...)
	}
	return dst
}

// streamHead is the head of a streamed answer. It goes out as soon as the
// request has been read, as engines do, so it says nothing about tokens.
func streamHead(b []byte, r *reply) []byte {
	kind := "text/event-stream; charset=utf-8"
	if r.ollama {
		kind = "application/x-ndjson"
	}
	b = append(b, "HTTP/1.1 200 OK\r\nServer: assay-simulate\r\nCache-Control: no-cache\r\nContent-Type: "...)
	b = append(b, kind...)
	b = append(b, "\r\nX-Request-Id: "...)
	b = append(b, r.id...)
	if r.chunked {
		b = append(b, "\r\nTransfer-Encoding: chunked"...)
	}
	if r.last {
		b = append(b, "\r\nConnection: close"...)
	}
	return append(b, "\r\n\r\n"...)
}

// response is a complete answer.
func response(b []byte, status int, kind, header string, body []byte, last bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\nServer: assay-simulate\r\nContent-Type: "...)
	b = append(b, kind...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n"...)
	b = append(b, header...)
	if last {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	return append(b, body...)
}

// frame reserves the place of a chunk's size; seal fills it in. Between them
// lies one event, as servers send one chunk for each.
func frame(b []byte, r *reply) ([]byte, int) {
	if !r.chunked || r.joined {
		return b, len(b)
	}
	return append(b, "000\r\n"...), len(b)
}

func seal(b []byte, r *reply, at int) []byte {
	if r.joined {
		return b
	}
	if r.chunked {
		b = size(b, at)
	}
	if r.out != nil {
		r.cuts = append(r.cuts, len(b))
		if r.carries {
			r.carries, r.carried = false, len(b)
		}
	}
	return b
}

// size fills in the size of the chunk that was framed at a place.
func size(b []byte, at int) []byte {
	n := len(b) - at - 5
	if n < 0x100 || n > 0xfff {
		var hex [16]byte
		digits := strconv.AppendInt(hex[:0], int64(n), 16)
		if extra := len(digits) - 3; extra > 0 {
			b = append(b, digits[:extra]...) // grow; overwritten by the copy
		}
		end := at + len(digits) + 2 + n
		copy(b[at+len(digits)+2:cap(b)], b[at+5:at+5+n])
		b = b[:end]
		copy(b[at:], digits)
		b[at+len(digits)], b[at+len(digits)+1] = '\r', '\n'
		return append(b, "\r\n"...)
	}
	const hex = "0123456789abcdef"
	b[at], b[at+1], b[at+2] = hex[n>>8], hex[n>>4&15], hex[n&15]
	return append(b, "\r\n"...)
}

func lastChunk(b []byte, r *reply) []byte {
	if !r.chunked {
		return b
	}
	return append(b, "0\r\n\r\n"...)
}
