package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// The protocol between [Child] and [ServeChild], one line each, columns parted
// by tabs:
//
//	child   assay-source 1           once, when the source is ready
//	parent  read N | describe N      N counts the questions
//	child   r NAME DEVICE VALUE      a reading
//	child   g JSON                   a GPU
//	child   ! TEXT                   the source's own error
//	child   . N                      the end of answer N
//
// Other lines are passed over: drivers have been known to print.
const (
	childHello  = "assay-source\t1"
	askRead     = "read"
	askDescribe = "describe"

	maxChildLine   = 4096  // bytes
	maxChildLines  = 16384 // in one answer
	maxGPUs        = 64
	maxChildDevice = 128
	maxChildName   = 80
	maxChildText   = 512
)

func appendRequest(b []byte, question string, seq uint64) []byte {
	b = append(b, question...)
	b = append(b, ' ')
	b = strconv.AppendUint(b, seq, 10)
	return append(b, '\n')
}

func appendEnd(b []byte, seq uint64) []byte {
	return strconv.AppendUint(append(b, ".\t"...), seq, 10)
}

// appendReading writes a reading's line, and false where it cannot.
func appendReading(b []byte, r assay.Reading) ([]byte, bool) {
	if r.Value == nil || !goodName(r.Name) || !goodDevice(r.Device) || math.IsNaN(*r.Value) || math.IsInf(*r.Value, 0) {
		return b, false
	}
	b = append(b, "r\t"...)
	b = append(b, r.Name...)
	b = append(b, '\t')
	b = append(b, r.Device...)
	b = append(b, '\t')
	b = strconv.AppendFloat(b, *r.Value, 'g', -1, 64)
	return append(b, '\n'), true
}

// parseReading reads what follows "r\t".
func parseReading(line []byte, names interner, values *slab) (assay.Reading, error) {
	name, rest, ok1 := bytes.Cut(line, tab)
	device, number, ok2 := bytes.Cut(rest, tab)
	if !ok1 || !ok2 || !goodName(name) || !goodDevice(device) || len(number) > 32 {
		return assay.Reading{}, fmt.Errorf("it wrote a line that is no reading: %.100q", line)
	}
	v, err := strconv.ParseFloat(string(number), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return assay.Reading{}, fmt.Errorf("it wrote a reading that is no number: %.100q", line)
	}
	return assay.Reading{Name: names.get(name), Device: names.get(device), Value: values.put(v)}, nil
}

var tab = []byte{'\t'}

// goodName says whether text is a metric's name.
func goodName[T string | []byte](s T) bool {
	if len(s) == 0 || len(s) > maxChildName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return true
}

// goodDevice says whether text is printable and short.
func goodDevice[T string | []byte](s T) bool {
	if len(s) > maxChildDevice {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// parseGPU reads what follows "g\t".
func parseGPU(line []byte) (assay.GPU, error) {
	var g assay.GPU
	if err := json.Unmarshal(line, &g); err != nil {
		return g, fmt.Errorf("it wrote a line that is no GPU: %w", err)
	}
	for _, s := range []string{g.UUID, g.Name, g.Source, g.PCIBusID, g.Serial, g.VBIOS, g.Driver, g.CUDA, g.MIG, g.VGPU} {
		if !goodDevice(s) {
			return g, fmt.Errorf("it described a GPU with text that is not printable: %.100q", s)
		}
	}
	if g.Index < 0 || g.MemoryBytes < 0 || g.SMCount < 0 || g.BusWidthBits < 0 || g.MaxSMClockHz < 0 || g.MaxMemoryClockHz < 0 || g.PowerLimitWatts < 0 {
		return g, fmt.Errorf("it described a GPU with a negative number: %.200q", line)
	}
	return g, nil
}

// childLines cuts a stream into lines of at most maxChildLine bytes. Unlike bufio's
// it keeps the beginning of a line when a read is broken off by a deadline.
type childLines struct {
	r        io.Reader
	buf      []byte
	from, to int
}

// next gives a line without its end. It is valid until the next call.
func (l *childLines) next() ([]byte, error) {
	if l.buf == nil {
		l.buf = make([]byte, 4*maxChildLine)
	}
	looked := 0
	for {
		if i := bytes.IndexByte(l.buf[l.from+looked:l.to], '\n'); i >= 0 {
			line := l.buf[l.from : l.from+looked+i]
			l.from += looked + i + 1
			if len(line) > maxChildLine {
				break
			}
			return line, nil
		}
		if looked = l.to - l.from; looked > maxChildLine {
			break
		}
		if l.from > 0 && len(l.buf)-l.to < maxChildLine {
			l.to = copy(l.buf, l.buf[l.from:l.to])
			l.from = 0
		}
		n, err := l.r.Read(l.buf[l.to:])
		if l.to += n; n == 0 && err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("it wrote a line of over %d bytes", maxChildLine)
}

// until passes over lines up to one.
func (l *childLines) until(want string) error {
	for range maxChildLines {
		line, err := l.next()
		if err != nil {
			return err
		}
		if string(line) == want {
			return nil
		}
	}
	return errChildLines
}

var errChildLines = fmt.Errorf("it wrote over %d lines for one answer", maxChildLines)

// answer reads an answer and hands its content to each. The first result is
// the error that the source itself reported.
func (l *childLines) answer(seq uint64, each func([]byte) error) (said, err error) {
	for range maxChildLines {
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		mark, rest, ok := bytes.Cut(line, tab)
		if !ok || len(mark) != 1 {
			continue
		}
		switch mark[0] {
		case 'r', 'g':
			if err := each(rest); err != nil {
				return nil, err
			}
		case '!':
			said = errors.New(childText(string(rest)))
		case '.':
			if n, err := strconv.ParseUint(string(rest), 10, 64); err != nil || n != seq {
				return nil, fmt.Errorf("it ended answer %.30q when %d was asked", rest, seq)
			}
			return said, nil
		}
	}
	return nil, errChildLines
}

// childText makes any text fit for a line of the protocol.
func childText(s string) string { return foreign.Line(s, maxChildText) }

// interner keeps one copy of each name and device, of which there are few.
type interner map[string]string

func (m interner) get(b []byte) string {
	if s, ok := m[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(m) < 4096 {
		m[s] = s
	}
	return s
}

// slab gives room for numbers, many at a time.
type slab struct{ room []float64 }

func (s *slab) put(v float64) *float64 {
	if len(s.room) == cap(s.room) {
		s.room = make([]float64, 0, 128)
	}
	s.room = append(s.room, v)
	return &s.room[len(s.room)-1]
}
