package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds on what the child may send. A driver that has broken the child's memory
// must not break ours.
const (
	maxLine     = 4 << 20
	maxMessages = 100_000
	maxFound    = 256 // devices
	maxNote     = 4 << 10
)

// intake takes the child's messages and judges them as they come.
type intake struct {
	o        Options
	started  time.Time
	devices  []DeviceInfo
	products map[int][]verdictOf // by device index
	memories map[int]memoryResult
	failures map[int][]failure
	ops      []assay.Operation
	matrix   []byte // chunks of the product that is coming
	given    int    // bytes of it that have come
	lines    int
	ended    bool
}

// verdictOf is a product with what was found about its matrix.
type verdictOf struct {
	product
	hash  string
	wrong error // by Freivalds' method
}

func newIntake(o Options) *intake {
	return &intake{o: o, started: time.Now(), products: map[int][]verdictOf{}, memories: map[int]memoryResult{}, failures: map[int][]failure{}}
}

// line takes one line of the child's, and says whether it was the last.
func (in *intake) line(line []byte) (done bool, err error) {
	if in.lines++; in.lines > maxMessages {
		return false, fmt.Errorf("%w: it sent more than %d lines", ErrDriver, maxMessages)
	}
	var m message
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &m) != nil || m.empty() {
		return false, nil // drivers write to standard output too
	}
	err = in.take(m)
	return in.ended, err
}

func (m message) empty() bool {
	m.Index = 0
	return m == message{}
}

func (in *intake) take(m message) error {
	known := slices.ContainsFunc(in.devices, func(d DeviceInfo) bool { return d.Index == m.Index })
	switch {
	case m.Done:
		in.ended = true
	case m.Device != nil:
		if known || len(in.devices) >= maxFound {
			return fmt.Errorf("%w: device %d twice, or too many", ErrDriver, m.Index)
		}
		m.Device.Index = m.Index
		in.devices = append(in.devices, *m.Device)
	case m.Failure != nil && m.Failure.Step == "":
		return in.refused(*m.Failure)
	case !known:
		return fmt.Errorf("%w: it spoke of device %d, which it had not named", ErrDriver, m.Index)
	case m.Failure != nil:
		m.Failure.Text = note(m.Failure.Text)
		in.failures[m.Index] = append(in.failures[m.Index], *m.Failure)
		in.matrix, in.given = nil, 0
	case m.Operation != nil:
		in.ops = append(in.ops, *m.Operation)
		if in.o.Record != nil {
			in.o.Record(*m.Operation)
		}
	case m.Chunk != nil:
		return in.chunk(*m.Chunk)
	case m.Product != nil:
		return in.product(m.Index, *m.Product)
	case m.Memory != nil:
		in.memories[m.Index] = *m.Memory
	}
	return nil
}

func (in *intake) refused(f failure) error {
	err := ErrDriver
	switch f.Code {
	case codeNoDevice:
		err = ErrNoDevice
	case codeCPUDevice:
		err = ErrCPUDevice
	}
	return &refusal{err, note(f.Text)}
}

// refusal is the child's error with its own words.
type refusal struct {
	err  error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.err }

func (in *intake) chunk(c chunk) error {
	n := 4 * in.o.Size * in.o.Size
	if in.matrix == nil {
		in.matrix = make([]byte, n)
	}
	if c.Offset != in.given || c.Offset+len(c.Data) > n {
		return fmt.Errorf("%w: a piece of %d bytes at %d of a product of %d", ErrDriver, len(c.Data), c.Offset, n)
	}
	copy(in.matrix[c.Offset:], c.Data)
	in.given += len(c.Data)
	return nil
}

func (in *intake) product(index int, p product) error {
	if in.given != 4*in.o.Size*in.o.Size || p.N != in.o.Size || p.Seed != GoldenSeed && p.Seed != in.o.Challenge {
		return fmt.Errorf("%w: a product that was not asked for, or not whole", ErrDriver)
	}
	// The times are the driver's word; they cannot be longer than we have waited.
	for _, s := range []float64{p.DeviceSeconds, p.BestSeconds, p.WallSeconds} {
		if math.IsNaN(s) || s < 0 || s > 2*time.Since(in.started).Seconds()+1 {
			return fmt.Errorf("%w: a time of %g s", ErrDriver, s)
		}
	}
	c := fromBytes(in.matrix)
	in.matrix, in.given = nil, 0
	in.products[index] = append(in.products[index], verdictOf{p, Hash(c), CheckProduct(p.Seed, p.N, c)})
	return nil
}

// note is a driver's word, as it is shown.
func note(s string) string { return foreign.Line(s, maxNote) }
