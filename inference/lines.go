package inference

import (
	"bytes"
	"errors"
)

// maxLine bounds one line of a stream, and the data of one event. The largest
// honest line seen is a few kilobytes.
const maxLine = 1 << 20

var (
	errLineLong = errors.New("a line longer than 1 MiB")
	errDataLong = errors.New("an event longer than 1 MiB")
)

// keepCap is how large a buffer may be and still be kept for the next request.
const keepCap = 64 << 10

// lines splits a body into events: SSE, or one event a line. Data is pushed to
// it in pieces of any size; an event that lies within one piece is given to
// emit in place, without a copy.
type lines struct {
	sse  bool
	emit func(data []byte) bool // false: no more

	part []byte // a line whose end has not come
	data []byte // data of the event whose blank line has not come
	held bool   // data is a copy in own, not a part of the piece
	own  []byte
	any  bool // the event has data, if perhaps empty
	bad  bool // the event's type is "error"
}

func (l *lines) reset(sse bool) {
	l.sse = sse
	l.part = trim(l.part)
	l.own = trim(l.own)
	l.drop()
}

func trim(b []byte) []byte {
	if cap(b) > keepCap {
		return nil
	}
	return b[:0]
}

func (l *lines) drop() { l.data, l.held, l.any, l.bad = nil, false, false, false }

// feed takes a piece of the body. It reports whether the stream goes on.
func (l *lines) feed(p []byte) (more bool, err error) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if len(l.part)+len(p) > maxLine {
				return false, errLineLong
			}
			l.part = append(l.part, p...)
			return true, nil
		}
		line := p[:i]
		p = p[i+1:]
		if len(l.part) > 0 {
			if len(l.part)+len(line) > maxLine {
				return false, errLineLong
			}
			l.part = append(l.part, line...)
			more, err = l.line(l.part)
			l.keep() // data must not alias part, which is about to be reused
			l.part = l.part[:0]
		} else if len(line) > maxLine {
			return false, errLineLong
		} else {
			more, err = l.line(line)
		}
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// keep copies pending data out of the piece that it lies in. It is called
// before the piece's memory is used again.
func (l *lines) keep() {
	if l.any && !l.held {
		l.own = append(l.own[:0], l.data...)
		l.data, l.held = l.own, true
	}
}

// end takes the end of the body: a last line without its line feed and a last
// event without its blank line still count.
func (l *lines) end() error {
	if len(l.part) > 0 {
		more, err := l.line(l.part)
		if !more || err != nil {
			return err
		}
		l.keep()
		l.part = l.part[:0]
	}
	if l.sse && l.any {
		data := l.data
		l.drop()
		l.emit(data)
	}
	return nil
}

func (l *lines) line(b []byte) (more bool, err error) {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	if !l.sse {
		if len(bytes.TrimLeft(b, " \t")) == 0 {
			return true, nil
		}
		return l.emit(b), nil
	}
	if len(b) == 0 {
		if !l.any {
			l.bad = false
			return true, nil
		}
		data, bad := l.data, l.bad
		l.drop()
		if bad {
			return false, &streamError{what: "the engine sent an error event", body: bytes.Clone(first(data, maxDetail))}
		}
		return l.emit(data), nil
	}
	if v, ok := field(b, "data"); ok {
		return true, l.add(v)
	}
	if v, ok := field(b, "event"); ok {
		l.bad = string(v) == "error"
	} else if v, ok := field(b, "error"); ok {
		// Some llama.cpp servers tell an error in a field of its own.
		return false, &streamError{what: "the engine sent an error", body: bytes.Clone(first(v, maxDetail))}
	}
	// Comments, id, retry and unknown fields say nothing here.
	return true, nil
}

// add adds one data line to the event.
func (l *lines) add(v []byte) error {
	if !l.any {
		l.data, l.any, l.held = v, true, false
		return nil
	}
	l.keep()
	if len(l.own)+1+len(v) > maxLine {
		return errDataLong
	}
	l.own = append(append(l.own, '\n'), v...)
	l.data = l.own
	return nil
}

// field gives the value of an SSE line that has the name.
func field(b []byte, name string) ([]byte, bool) {
	if len(b) < len(name) || string(b[:len(name)]) != name {
		return nil, false
	}
	b = b[len(name):]
	if len(b) == 0 {
		return b, true
	}
	if b[0] != ':' {
		return nil, false
	}
	if b = b[1:]; len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b, true
}

func first(b []byte, n int) []byte { return b[:min(n, len(b))] }
