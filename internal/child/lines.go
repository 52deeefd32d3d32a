package child

import "bytes"

// lines cuts a stream into lines. Unlike bufio's it keeps the beginning of a line
// when a read ends at a deadline.
type lines struct {
	read     func([]byte) (int, error)
	limit    int // bytes of a line
	buf      []byte
	from, to int
}

// next gives a line without its end. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	looked := 0
	for {
		if i := bytes.IndexByte(l.buf[l.from+looked:l.to], '\n'); i >= 0 {
			line := l.buf[l.from : l.from+looked+i]
			l.from += looked + i + 1
			if len(line) > l.limit {
				break
			}
			return line, nil
		}
		if looked = l.to - l.from; looked > l.limit {
			break
		}
		l.room()
		n, err := l.read(l.buf[l.to:])
		if l.to += n; n == 0 && err != nil {
			return nil, err
		}
	}
	return nil, floodError("a line", int64(l.limit))
}

// room makes place at the end of the buffer.
func (l *lines) room() {
	switch {
	case l.from == l.to:
		l.from, l.to = 0, 0
	case l.to == len(l.buf) && l.from > 0:
		l.to = copy(l.buf, l.buf[l.from:l.to])
		l.from = 0
	}
	if l.to == len(l.buf) {
		grown := make([]byte, max(4<<10, min(2*len(l.buf), l.limit+(4<<10))))
		l.to = copy(grown, l.buf[:l.to])
		l.buf = grown
	}
}
