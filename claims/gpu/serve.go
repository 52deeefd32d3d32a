package gpu

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/assay-bench/assay/claims"
)

// Native is what the child's program decides and no request can: it is Go code,
// not data from the wire. The shipped program uses the zero value.
type Native struct {
	// AllowCPU lets a device of type CPU be used where there is no GPU. It is for
	// tests with an OpenCL that runs on the CPU.
	AllowCPU bool
	// OpenCL are the libraries to try; nil is the system's.
	OpenCL []string
	// CUDA are the drivers to try; nil is the system's.
	CUDA []string

	kernels  func(string) string // changes the OpenCL source, in tests of faults
	patterns int                 // to match; 0: patternCount, which tests have no time for
}

// gpuRequest is one line to the child: first the probe, then one for each sample
// or load.
type gpuRequest struct {
	ID     uint64  `json:"id"`
	Probe  string  `json:"probe,omitempty"` // prepare it
	Seed   uint64  `json:"seed,omitempty"`
	Sample uint64  `json:"sample,omitempty"` // its number, from 1
	Load   float64 `json:"load,omitempty"`   // keep the device busy for so many seconds
}

// gpuAnswer is one line from the child.
type gpuAnswer struct {
	ID      uint64             `json:"id"`
	Device  *gpuIdentity       `json:"device,omitempty"` // to a probe
	Value   float64            `json:"value,omitempty"`  // to a sample
	Batch   int                `json:"batch,omitempty"`
	Extra   map[string]float64 `json:"extra,omitempty"`
	Failure *gpuFailure        `json:"failure,omitempty"`
}

// gpuIdentity is which device does the work.
type gpuIdentity struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Backend  string `json:"backend"` // opencl, cuda
	UUID     string `json:"uuid,omitempty"`
	PCIBusID string `json:"pci_bus_id,omitempty"`
}

// gpuFailure is an error on the wire.
type gpuFailure struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

const (
	gpuUnavailable = "unavailable"
	gpuWrong       = "wrong"
	gpuDriver      = "driver"
)

// gpuMark begins each line of an answer: drivers write to standard output too.
const gpuMark = "assay-claims "

const maxGPURequest = 4 << 10

// Serve is the child's side of the GPU probes: it answers requests from in until
// in ends, which is also how the parent's death ends it. It calls drivers and may
// hang or crash; the probes start it in a process of its own (claims.Env.GPU) and kill it.
// Failures of the work go over the wire; the error is for requests that cannot be
// read or answers that cannot be written. It may return with a call of the driver
// still under way: the caller should end the process.
func Serve(in io.Reader, out io.Writer, native Native) error {
	s := &gpuServer{out: out, native: native}
	requests, answered := make(chan []byte), make(chan error, 1)
	go func() {
		var err error
		for line := range requests {
			if err = s.answer(line); err != nil {
				break
			}
		}
		answered <- errors.Join(err, s.close())
	}()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, maxGPURequest), maxGPURequest)
	for lines.Scan() {
		select {
		case requests <- bytes.Clone(lines.Bytes()):
		case err := <-answered:
			return err
		}
	}
	close(requests)
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	select {
	case err := <-answered:
		return err
	case <-time.After(time.Second):
		return errors.New("the driver did not come back from a call")
	}
}

type gpuServer struct {
	out    io.Writer
	native Native
	device *gpuDevice // nil: no probe was prepared
	work   gpuWork
}

func (s *gpuServer) close() error {
	if s.device == nil {
		return nil
	}
	return s.device.close()
}

func (s *gpuServer) answer(line []byte) error {
	var q gpuRequest
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	a, err := s.do(q)
	a.ID = q.ID
	if err != nil {
		code := gpuDriver
		switch {
		case errors.Is(err, claims.ErrUnavailable):
			code = gpuUnavailable
		case errors.Is(err, claims.ErrWrong):
			code = gpuWrong
		}
		a = gpuAnswer{ID: q.ID, Failure: &gpuFailure{Code: code, Text: err.Error()}}
	}
	b, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	// On a line of its own, even when a driver has not ended the one before.
	if _, err := fmt.Fprintf(s.out, "\n%s%s\n", gpuMark, b); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	return nil
}

func (s *gpuServer) do(q gpuRequest) (gpuAnswer, error) {
	switch {
	case q.Probe != "":
		return s.prepare(q)
	case s.work == nil:
		return gpuAnswer{}, errors.New("no probe was prepared")
	case q.Load > 0:
		l, ok := s.work.(gpuLoad)
		if !ok {
			return gpuAnswer{}, errors.New("this probe is not a load")
		}
		return gpuAnswer{}, l.load(time.Duration(min(q.Load, 60) * float64(time.Second)))
	}
	m, err := s.work.sample(q.Sample)
	if err == nil && s.device.identity.Backend == "cuda" {
		m.Extra["cuda"] = 1 // by which library a figure was measured belongs to it
	}
	return gpuAnswer{Value: m.Value, Batch: m.Batch, Extra: m.Extra}, err
}

func (s *gpuServer) prepare(q gpuRequest) (gpuAnswer, error) {
	if s.device != nil {
		return gpuAnswer{}, errors.New("a probe was prepared already")
	}
	w, ok := findGPUWork(q.Probe)
	if !ok {
		return gpuAnswer{}, fmt.Errorf("%w: the child knows no probe %s", claims.ErrUnavailable, q.Probe)
	}
	device, err := openFor(s.native, w)
	if err != nil {
		return gpuAnswer{}, err
	}
	s.device = device
	work, err := w.prepare(device, q.Seed)
	if err != nil {
		return gpuAnswer{}, device.explain(err)
	}
	// Compilers put off work until the first launch. A wrong result is no matter
	// here: it will be wrong again when it is measured.
	if _, err := work.sample(0); err != nil && !errors.Is(err, claims.ErrWrong) {
		return gpuAnswer{}, device.explain(err)
	}
	s.work = work
	return gpuAnswer{Device: &device.identity}, nil
}
