package simulate

import (
	"bufio"
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
type truth struct {
	mu   sync.Mutex
	in   []record
	spin []record

	w    *bufio.Writer
	err  error
	quit chan struct{}
	done chan struct{}
}

type record struct {
	id       string
	read     int64
	written  []int64
	lateness int64
}

func newTruth(w io.Writer) *truth {
	t := &truth{w: bufio.NewWriterSize(w, 1<<18), quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *truth) note(r *reply) {
	t.mu.Lock()
	t.in = append(t.in, record{r.id, r.readWall, r.written, r.lateness})
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
	t.mu.Lock()
	t.in, t.spin = t.spin[:0], t.in
	t.mu.Unlock()
	var line []byte
	for i, r := range t.spin {
		line = append(line[:0], `{"id":`...)
		id, _ := json.Marshal(r.id) // a string always marshals
		line = append(line, id...)
		line = append(line, `,"read_ns":`...)
		line = strconv.AppendInt(line, r.read, 10)
		line = append(line, `,"written_ns":[`...)
		for k, w := range r.written {
			if k > 0 {
				line = append(line, ',')
			}
			line = strconv.AppendInt(line, w, 10)
		}
		line = append(line, `],"late_us":`...)
		line = strconv.AppendInt(line, r.lateness/1000, 10)
		line = append(line, "}\n"...)
		if _, err := t.w.Write(line); err != nil && t.err == nil {
			t.err = err
		}
		t.spin[i] = record{}
	}
	if err := t.w.Flush(); err != nil && t.err == nil {
		t.err = err
	}
}

func (t *truth) close() error {
	close(t.quit)
	<-t.done
	return t.err
}
