package inference

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Do sends one job and fills r from Connect on. What fails is told in r (Error,
// Detail, Status), with the marks that were reached; nothing is tried again.
// r.ID goes out as X-Request-Id. The memory of r's slices is used again if they
// have any.
//
// When ctx ends, so does the request, as cancelled.
func (c *Client) Do(ctx context.Context, job *Job, r *assay.Request) {
	c.serve(ctx, job, r)
}

func (c *Client) serve(ctx context.Context, job *Job, r *assay.Request) Habits {
	s := c.streams.take()
	s.reset(r, job)
	c.do(ctx, s, job)
	s.settle()
	saw := s.saw
	s.r = nil
	c.streams.give(s)
	r.End = c.clock.Now()
	return saw
}

func (c *Client) do(ctx context.Context, s *stream, job *Job) {
	r := s.r
	started := c.clock.Now()
	if ctx.Err() != nil {
		r.Error, r.Detail = assay.FailCancelled, "before it was sent"
		return
	}
	msg := outgoing.Get().(*composed)
	if err := c.compose(msg, r.ID, job); err != nil {
		outgoing.Put(msg)
		r.Error, r.Detail = assay.FailNeverSent, err.Error()
		return
	}
	var cn *conn
	kept := false
	if !c.fresh {
		cn = c.idle.take(started)
		kept = cn != nil
	}
	if cn == nil {
		var err error
		if cn, err = c.dial(ctx); err != nil {
			outgoing.Put(msg)
			r.Error, r.Detail = c.dialFailure(ctx, err)
			return
		}
		r.Connect = c.clock.Now()
	}
	if c.addrs.several() {
		r.Address = cn.address
	}
	gen := s.watch.attach(cn, phaseFirst, c.clock.Now()+int64(c.timeouts.FirstToken), started+int64(c.timeouts.Total))
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { s.watch.cancel(gen) })
		defer stop()
	}
	c.sentinel.begin(c.clock.Now())
	defer c.sentinel.end()
	werr := cn.write(msg.all)
	outgoing.Put(msg) // the reply takes long, and has no use for it
	r.Sent = cn.sent
	s.watch.sent = cn.sent
	// An engine may refuse before it has read everything, so what it said counts
	// even if it did not let us finish.
	s.readErr = cn.receive(s)
	clean := s.watch.detach()
	if s.complete && s.keep && clean && werr == nil && !c.fresh && s.err == nil {
		cn.idleSince, cn.maxIdle = c.clock.Now(), s.maxIdle
		c.idle.put(cn)
	} else {
		cn.close()
	}
	s.judge(kept)
	if r.Detail != "" {
		r.Detail = c.secrets.mask(r.Detail)
	}
}

// composed is a request's bytes. Few are being written at any moment, however
// many requests are under way, so they are shared.
type composed struct{ all, body []byte }

var outgoing = sync.Pool{New: func() any { return new(composed) }}

// compose makes the request's bytes, head and body in one piece.
func (c *Client) compose(m *composed, id string, job *Job) error {
	var err error
	if m.body, err = c.appendBody(m.body[:0], job); err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	b := append(m.all[:0], c.head...)
	if id != "" {
		if !plain(id) {
			return fmt.Errorf("request id %q cannot be sent in a header", id)
		}
		b = append(append(append(b, "X-Request-Id: "...), id...), '\r', '\n')
	}
	if b, err = appendHeaders(b, job.Headers); err != nil {
		return err
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(m.body)), 10)
	b = append(b, "\r\n\r\n"...)
	m.all = append(b, m.body...)
	return nil
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// judge gives the request its class.
func (s *stream) judge(kept bool) {
	r := s.r
	r.Status = s.status
	ended := s.done || s.finished >= s.multi // the engine said that this was all
	switch why := s.watch.killed.Load(); {
	case s.status >= 300 || s.part == partRefusal || s.part == partEnd && s.note != "":
		r.Error, r.Detail = byStatus(s.status), s.refusal()
	case s.err != nil:
		r.Error, r.Detail = assay.FailStreamError, detail(s.err)
	case s.complete && ended || s.done:
		if s.tokens() == 0 {
			r.Error, r.Detail = assay.FailEmpty, "an answer without a token"
		}
	case s.complete && s.events == 0:
		r.Error, r.Detail = assay.FailEmpty, "a reply without an event"
	case s.complete:
		r.Error, r.Detail = assay.FailTruncated, "the stream ended after "+tokensWord(s.tokens())+" without saying so"
	case why != killedNot:
		r.Error, r.Detail = s.killedDetail(why)
	case s.readErr != nil && isReset(s.readErr):
		r.Error, r.Detail = assay.FailReset, s.brokenOff(kept)
	case s.readErr != nil:
		r.Error, r.Detail = assay.FailStreamError, detail(s.readErr)
	default:
		r.Error, r.Detail = assay.FailStreamError, "the reply was not complete"
	}
}

// brokenOff says where the connection ended.
func (s *stream) brokenOff(kept bool) string {
	where := "after " + tokensWord(s.tokens())
	switch {
	case s.part == partHead && len(s.head) == 0 && kept:
		where = "on a kept connection, before any reply"
	case s.part == partHead && len(s.head) == 0:
		where = "before any reply"
	case s.part == partHead:
		where = "within the reply's head"
	}
	return where + ": " + detail(s.readErr)
}

// refusal is what the engine said in place of a stream.
func (s *stream) refusal() string {
	out := s.note
	if len(s.errBody) > 0 {
		if out != "" {
			out += ": "
		}
		out += foreign.Line(s.errBody, maxDetail)
	}
	return out
}

func detail(err error) string { return foreign.Line(err.Error(), 3*maxDetail) }

func tokensWord(n int) string {
	if n == 1 {
		return "1 token"
	}
	return strconv.Itoa(n) + " tokens"
}

// tokens is the number of output tokens, by the engine's count where there is
// one, else that of visible chunks.
func (s *stream) tokens() int {
	if n := s.answered(); n > 0 {
		return int(n)
	}
	n := 0
	for i := range s.marks {
		if s.marks[i].kind&kindVisible != 0 {
			n++
		}
	}
	return n
}

// answered is the engine's count of the whole answer; 0 where it gave none.
func (s *stream) answered() int64 {
	n := s.completion
	if n == 0 && s.c.counting || s.choices > 1 && !s.summed {
		n = s.counted() // of several choices each is counted by itself
	}
	if s.asked > 0 && n > absurd*int64(s.asked)*int64(max(1, s.choices))+absurd {
		return 0 // far more than was asked for: nobody counted that
	}
	return n
}

// absurd is how many times the tokens that were asked for an engine may count
// and still be believed.
const absurd = 16

// settle moves what was counted into the request.
func (s *stream) settle() {
	r := s.r
	s.saw.CountsEach = s.saw.early && s.saw.rises >= 2
	s.saw.Usage = s.usage && s.completion > 0
	total := s.answered()
	placed, unplaced := s.place(total)
	s.arrivals()
	r.Unplaced = int(unplaced)
	switch {
	case total > 0:
		r.OutputTokens, r.TokensFrom = int(total), "usage"
	case placed > 0:
		r.OutputTokens, r.TokensFrom = int(placed), "chunks"
	case s.usage:
		r.TokensFrom = "usage"
	}
	if s.usage {
		r.InputTokens, r.CachedTokens = int(s.prompt), int(s.cached)
	}
	if s.timed {
		t := s.engine
		r.Engine = &t
	}
	if s.c.keepText && len(s.text) > 0 {
		r.Text = string(s.text)
	}
	if s.c.clock.Steps() != s.steps {
		r.ClockStep = true
	}
}
