package simulate

import "time"

// outlet stands between a reply's events and its connection: it holds bytes
// back, puts several events into one write, or cuts one into many. The pacer
// owns it.
type outlet struct {
	buf    []byte
	freed  int    // bytes of buf that may be written
	cuts   []int  // ends of HTTP chunks in buf, where each is written by itself
	loads  []load // what buf carries, in order
	events int    // since the last release
	alarm  bool   // a release by time is to come
	paced  bool   // the next small write is to come
	ending string // why the reply ends once buf is empty
}

// load is tokens in an outlet: when the bytes up to end have been written, the
// tokens of a choice below upTo have been.
type load struct{ end, choice, upTo int }

// take adds what one step of a sequence sends, and releases it or not.
func (e *Engine) take(r *reply, q *sequence, b []byte, done bool) {
	o, h := r.out, r.h
	base := len(o.buf)
	o.buf = append(o.buf, b...)
	for _, c := range r.cuts {
		o.cuts = append(o.cuts, base+c)
	}
	r.cuts = r.cuts[:0]
	if r.carried > 0 {
		o.loads = append(o.loads, load{base + r.carried, q.index, q.covered})
	}
	r.carries, r.carried = false, 0
	o.events++
	switch {
	case done:
		o.ending = r.finish
	case h.EventsWrite > 1 && o.events < h.EventsWrite:
		return
	case h.BufferBytes > 0 && len(o.buf)-o.freed >= h.BufferBytes:
	case h.BufferBytes > 0 || h.BufferTime > 0:
		if h.BufferTime > 0 && !o.alarm {
			o.alarm = true
			e.pacer.remind(r, e.pacer.now()+int64(h.BufferTime))
		}
		return
	}
	e.release(r)
}

// flushDue is told by the pacer that a reply's alarm went off: it was for the
// proxy's time, for the next small write, or for a reply that has ended.
func (e *Engine) flushDue(r *reply, _ int64) {
	o := r.out
	if r.over {
		return
	}
	if o.paced {
		o.paced = false
		e.pour(r)
		return
	}
	o.alarm = false
	e.release(r)
}

// release lets out all that is held back.
func (e *Engine) release(r *reply) {
	r.out.freed, r.out.events = len(r.out.buf), 0
	if !r.out.paced {
		e.pour(r)
	}
}

// pour writes what was let out, in pieces where the habit wants them.
func (e *Engine) pour(r *reply) {
	o := r.out
	for o.freed > 0 {
		n := o.freed
		if r.h.OwnWrites && len(o.cuts) > 0 && o.cuts[0] < n {
			n = o.cuts[0]
		}
		if d := r.h.Dribble; d > 0 && d < n {
			n = d
		}
		e.piece(r, n)
		if o.freed > 0 && r.h.DribbleGap > 0 {
			o.paced = true
			e.pacer.remind(r, e.pacer.now()+int64(r.h.DribbleGap))
			return
		}
	}
	if o.ending != "" && len(o.buf) == 0 {
		e.end(r, o.ending)
	}
}

// piece writes the first n bytes and stamps the tokens that they complete.
func (e *Engine) piece(r *reply, n int) {
	o := r.out
	if e.truth != nil {
		wall := time.Now().UnixNano()
		for _, l := range o.loads {
			if l.end > n {
				break
			}
			r.stamp(l.choice, l.upTo, wall)
		}
	}
	r.conn.write(o.buf[:n])
	o.buf = append(o.buf[:0], o.buf[n:]...)
	o.freed -= n
	kept := o.loads[:0]
	for _, l := range o.loads {
		if l.end -= n; l.end > 0 {
			kept = append(kept, l)
		}
	}
	o.loads = kept
	cuts := o.cuts[:0]
	for _, c := range o.cuts {
		if c -= n; c > 0 {
			cuts = append(cuts, c)
		}
	}
	o.cuts = cuts
}

// drain writes everything at once: a fault is next.
func (e *Engine) drain(r *reply) {
	if n := len(r.out.buf); n > 0 {
		e.piece(r, n)
		r.out.freed = 0
	}
}
