package proc

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"github.com/assay-bench/assay/internal/foreign"
)

const (
	defaultLogBytes = 1 << 20
	tailInExit      = 4 << 10
)

// boundedLog keeps the first and the last bytes of what a program writes. Writing
// to it never fails and waits for nobody but, for the first bytes, the disk: a
// program must not be slowed down by its log.
type boundedLog struct {
	mu      sync.Mutex
	head    []byte
	headMax int
	ring    []byte // the last bytes, once the head is full
	next    int    // where the ring's next byte goes, once it has reached ringMax
	ringMax int
	total   int64
	file    *os.File
	fileErr error
}

func newBoundedLog(head, tail int, file string) (*boundedLog, error) {
	size := func(n int) int {
		if n == 0 {
			return defaultLogBytes
		}
		return max(n, 0)
	}
	l := &boundedLog{headMax: size(head), ringMax: size(tail)}
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			return nil, fmt.Errorf("making the log: %w", err)
		}
		l.file = f
	}
	return l, nil
}

func (l *boundedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	l.total += int64(n)
	if room := min(l.headMax-len(l.head), len(b)); room > 0 {
		l.head = append(l.head, b[:room]...)
		l.toFile(b[:room])
		b = b[room:]
	}
	if len(b) > l.ringMax {
		b = b[len(b)-l.ringMax:]
	}
	if room := min(l.ringMax-len(l.ring), len(b)); room > 0 {
		l.ring = append(l.ring, b[:room]...)
		b = b[room:]
	}
	for len(b) > 0 {
		c := copy(l.ring[l.next:], b)
		b, l.next = b[c:], (l.next+c)%l.ringMax
	}
	return n, nil
}

func (l *boundedLog) toFile(b []byte) {
	if l.file != nil && l.fileErr == nil {
		_, l.fileErr = l.file.Write(b)
	}
}

// rest is what follows the head: the line about what is missing, and the tail.
func (l *boundedLog) rest() []byte {
	var b []byte
	if missing := l.total - int64(len(l.head)) - int64(len(l.ring)); missing > 0 {
		b = fmt.Appendf(b, "\n[%d bytes left out]\n", missing)
	}
	b = append(b, l.ring[l.next:]...)
	return append(b, l.ring[:l.next]...)
}

// tail is the end of the log as text that is safe to print: what an engine writes
// may hold control sequences of a terminal.
func (l *boundedLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.rest()
	if len(b) < tailInExit {
		b = append(bytes.Clone(l.head[max(0, len(l.head)-tailInExit):]), b...)
	}
	return foreign.Tail(b, tailInExit)
}

// close writes the tail to the file.
func (l *boundedLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	l.toFile(l.rest())
	err := l.fileErr
	if e := l.file.Close(); err == nil {
		err = e
	}
	l.file = nil
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
