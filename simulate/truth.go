package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"
)

// truth writes what really happened, one JSON line a request:
//
//	{"id":"…","read_ns":…,"written_ns":[…],"late_us":…}
//
// All times are Unix nanoseconds; written_ns has one for each token, taken
// just before the write that carried it; late_us is the worst of how late
// those writes were against the schedule. The pacer only passes records on.
//
// A stream with habits has more: due_ns, when the law gave each token, and
// tokens, a letter for each: t text, r reasoning, c tool call, s an event
// without text, - no event of its own. Such a token is written with the next
// event of its choice; one that no event followed has written_ns 0. A reply of
// several choices has choices, the index of each token's.
type truth struct {
	mu   sync.Mutex
	in   []record
	spin []record

	busy sync.Mutex // one flush at a time
	w    *bufio.Writer
	err  error
	last [][]byte // the latest lines, for who asks over HTTP
	next int
	quit chan struct{}
	done chan struct{}
}

// maxKept bounds the lines that are kept for GET /truth.
const maxKept = 1024

type record struct {
	id       string
	read     int64
	written  []int64
	lateness int64
	marks    []mark
	custom   bool
	several  bool
}

// mark is one token of a reply with habits.
type mark struct {
	due, written int64 // Unix nanoseconds; written 0: not yet
	choice, k    int   // its place: token k of a choice
	letter       byte
}

// stamp says that tokens of a choice below upTo are being written.
func (r *reply) stamp(choice, upTo int, wall int64) {
	for i := r.stamped; i < len(r.marks); i++ {
		if m := &r.marks[i]; m.written == 0 && m.choice == choice && m.k < upTo {
			m.written = wall
		}
	}
	for r.stamped < len(r.marks) && r.marks[r.stamped].written != 0 {
		r.stamped++
	}
}

func newTruth(w io.Writer) *truth {
	t := &truth{w: bufio.NewWriterSize(w, 1<<18), quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *truth) note(r *reply) {
	t.mu.Lock()
	t.in = append(t.in, record{r.id, r.readWall, r.written, r.lateness, r.marks, r.custom, len(r.sequences) > 1})
	t.mu.Unlock()
}

func (t *truth) run() {
	defer close(t.done)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.flush()
		case <-t.quit:
			t.flush()
			return
		}
	}
}

func (t *truth) flush() {
	t.busy.Lock()
	defer t.busy.Unlock()
	t.mu.Lock()
	t.in, t.spin = t.spin[:0], t.in
	t.mu.Unlock()
	for i, r := range t.spin {
		line := t.slot()
		*line = r.line((*line)[:0])
		if _, err := t.w.Write(*line); err != nil && t.err == nil {
			t.err = err
		}
		t.spin[i] = record{}
	}
	if err := t.w.Flush(); err != nil && t.err == nil {
		t.err = err
	}
}

// slot is where the next line is kept: it takes the oldest one's place.
func (t *truth) slot() *[]byte {
	if len(t.last) < maxKept {
		t.last = append(t.last, nil)
		return &t.last[len(t.last)-1]
	}
	s := &t.last[t.next]
	t.next = (t.next + 1) % maxKept
	return s
}

// lines are the latest ones, the oldest first; with an id, those that have it.
func (t *truth) lines(id string) []byte {
	t.flush()
	t.busy.Lock()
	defer t.busy.Unlock()
	want := append(quote([]byte(`{"id":`), id), ',')
	all := []byte{}
	for i := range t.last {
		line := t.last[(t.next+i)%len(t.last)]
		if id == "" || bytes.HasPrefix(line, want) {
			all = append(all, line...)
		}
	}
	return all
}

func quote(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string always marshals
	return append(b, q...)
}

// line appends a record as it stands in the file.
func (r *record) line(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = quote(b, r.id)
	b = append(b, `,"read_ns":`...)
	b = strconv.AppendInt(b, r.read, 10)
	b = append(b, `,"written_ns":[`...)
	for k, w := range r.written {
		b = appendItem(b, k, w)
	}
	for k := range r.marks {
		b = appendItem(b, k, r.marks[k].written)
	}
	b = append(b, `],"late_us":`...)
	b = strconv.AppendInt(b, r.lateness/1000, 10)
	if r.custom {
		b = append(b, `,"due_ns":[`...)
		for k := range r.marks {
			b = appendItem(b, k, r.marks[k].due)
		}
		b = append(b, `],"tokens":"`...)
		for k := range r.marks {
			b = append(b, r.marks[k].letter)
		}
		b = append(b, '"')
		if r.several {
			b = append(b, `,"choices":[`...)
			for k := range r.marks {
				b = appendItem(b, k, int64(r.marks[k].choice))
			}
			b = append(b, ']')
		}
	}
	return append(b, "}\n"...)
}

func appendItem(b []byte, k int, n int64) []byte {
	if k > 0 {
		b = append(b, ',')
	}
	return strconv.AppendInt(b, n, 10)
}

func (t *truth) close() error {
	close(t.quit)
	<-t.done
	return t.err
}
