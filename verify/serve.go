package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/assay-bench/assay"
)

// Native is what the child's program decides and no request can: it is Go code,
// not data from the wire. The shipped program uses the zero value.
type Native struct {
	// AllowCPU lets devices of type CPU be used where there is no GPU. It is for
	// tests with an OpenCL that runs on the CPU.
	AllowCPU bool
	// OpenCL and CUDA are the libraries to try; nil is the system's.
	OpenCL, CUDA []string

	kernels func(string) string // changes the OpenCL source, in tests of faults
}

// request is the one line that the child reads.
type request struct {
	Backend string       `json:"backend,omitempty"`
	Devices []int        `json:"devices,omitempty"`
	N       int          `json:"n"`
	Jobs    []productJob `json:"jobs,omitempty"`
	Memory  *memoryJob   `json:"memory,omitempty"`
}

type productJob struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"` // repeat for at least this long
}

// message is one line that the child writes; one of its fields is there.
type message struct {
	Device    *DeviceInfo      `json:"device,omitempty"`
	Chunk     *chunk           `json:"chunk,omitempty"`   // part of the product that follows
	Product   *product         `json:"product,omitempty"` // with Index
	Memory    *memoryResult    `json:"memory,omitempty"`  // with Index
	Operation *assay.Operation `json:"operation,omitempty"`
	Failure   *failure         `json:"failure,omitempty"`
	Done      bool             `json:"done,omitempty"`
	Index     int              `json:"index,omitempty"` // of the device
}

type chunk struct {
	Offset int    `json:"offset"`
	Data   []byte `json:"data"`
}

// failure is an error on the wire.
type failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Step string `json:"step,omitempty"` // compute, memory; of one device
}

const (
	codeNoDevice  = "no_device"
	codeCPUDevice = "cpu_device"
	codeDriver    = "driver"
)

const (
	maxRequest = 1 << 20
	chunkSize  = 1 << 20
)

// Serve is the child's side: it reads one request from in, does the native work
// and writes what it found to out. It calls drivers and may therefore hang or
// crash; Run starts it in a process of its own. Failures of the work go over the
// wire; the error is for a request that cannot be read or an output that cannot
// be written.
func Serve(in io.Reader, out io.Writer, native Native) error {
	line, err := bufio.NewReader(io.LimitReader(in, maxRequest)).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var req request
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if err := checkSize(req.N); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	s := &server{out: out, native: native, req: req}
	s.run()
	s.send(message{Done: true})
	return s.err
}

type server struct {
	out    io.Writer
	native Native
	req    request
	err    error // of the output
}

// send writes a message on a line of its own, even when a driver has written
// something before it.
func (s *server) send(m message) {
	if s.err != nil {
		return
	}
	b, err := json.Marshal(m)
	if err != nil {
		s.err = fmt.Errorf("encode a message: %w", err)
		return
	}
	if _, err := s.out.Write(slices.Concat([]byte{'\n'}, b, []byte{'\n'})); err != nil {
		s.err = fmt.Errorf("write a message: %w", err)
	}
}

func (s *server) run() {
	candidates, err := s.candidates()
	if err != nil {
		code := codeDriver
		switch {
		case errors.Is(err, ErrNoDevice):
			code = codeNoDevice
		case errors.Is(err, ErrCPUDevice):
			code = codeCPUDevice
		}
		s.send(message{Failure: &failure{Code: code, Text: err.Error()}})
		return
	}
	for _, c := range candidates {
		s.send(message{Device: &c.info, Index: c.info.Index})
	}
	for _, c := range candidates {
		if len(s.req.Jobs) > 0 {
			s.attempt(c, "compute", func(acc accelerator) error {
				for _, job := range s.req.Jobs {
					if err := s.multiply(acc, c.info, job); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if s.req.Memory != nil {
			s.attempt(c, "memory", func(acc accelerator) error { return s.memory(acc, c.info, *s.req.Memory) })
		}
	}
}

// attempt opens the device for one step; a step that fails is said so, and the
// others go on.
func (s *server) attempt(c candidate, step string, do func(accelerator) error) {
	acc, err := c.open()
	if err != nil {
		err = fmt.Errorf("open the device: %w", err)
	} else {
		err = errors.Join(do(acc), acc.Close())
	}
	if err != nil {
		s.send(message{Index: c.info.Index, Failure: &failure{Code: codeDriver, Step: step, Text: err.Error()}})
	}
}

func (s *server) log(info DeviceInfo) OperationLog {
	return OperationLog{Device: info.Label(), Record: func(op assay.Operation) { s.send(message{Operation: &op, Index: info.Index}) }}
}

func (s *server) multiply(acc accelerator, info DeviceInfo, job productJob) error {
	var p product
	var c []byte
	n := s.req.N
	atLeast := time.Duration(min(max(job.Seconds, 0), 3600) * float64(time.Second))
	_, err := LogOperation(s.log(info), "matrix_multiply", []int{n, n}, func() (err error) {
		p, c, err = multiply(acc, job.Seed, n, atLeast)
		return err
	})
	if err != nil {
		return err
	}
	for at := 0; at < len(c); at += chunkSize {
		s.send(message{Chunk: &chunk{at, c[at:min(at+chunkSize, len(c))]}, Index: info.Index})
	}
	s.send(message{Product: &p, Index: info.Index})
	return nil
}

func (s *server) memory(acc accelerator, info DeviceInfo, job memoryJob) error {
	r, err := planMemory(acc, info, job)
	if err != nil {
		return err
	}
	_, err = LogOperation(s.log(info), "memory_check", []int{int(r.Wanted)}, func() error {
		return checkMemory(acc, job, &r)
	})
	if err != nil {
		return err
	}
	s.send(message{Memory: &r, Index: info.Index})
	return nil
}
