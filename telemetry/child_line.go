package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// The protocol between [Child] and [ServeChild], one line each, columns
// separated by tabs:
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

	maxChildLine   = 4 << 10 // bytes
	maxChildAnswer = 2 << 20
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

// childAnswer takes the lines of one answer.
type childAnswer struct {
	seq      uint64
	each     func([]byte) error // gets what readings and GPUs are
	reported error              // the error that the source itself reported
}

func (a *childAnswer) line(line []byte) (done bool, err error) {
	mark, rest, ok := bytes.Cut(line, tab)
	if !ok || len(mark) != 1 {
		return false, nil
	}
	switch mark[0] {
	case 'r', 'g':
		return false, a.each(rest)
	case '!':
		a.reported = errors.New(childText(string(rest)))
	case '.':
		if n, err := strconv.ParseUint(string(rest), 10, 64); err != nil || n != a.seq {
			return false, fmt.Errorf("it ended answer %.30q when %d was asked", rest, a.seq)
		}
		return true, nil
	}
	return false, nil
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
