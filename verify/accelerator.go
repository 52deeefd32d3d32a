package verify

import (
	"errors"
	"fmt"
	"time"
)

// DeviceInfo is what the compute library says of a device.
type DeviceInfo struct {
	Index    int    `json:"index"`
	Backend  string `json:"backend"` // opencl, cuda
	Type     string `json:"type"`
	Identity        // Source is the backend
}

// Label is the device's name in an operation's event, as the GPU logger has it.
func (d DeviceInfo) Label() string {
	if d.Backend == "cuda" {
		return fmt.Sprintf("Cuda(%d)", d.Index)
	}
	return fmt.Sprintf("OpenCL(%d)", d.Index)
}

// Key names the device in checks: its UUID, else its PCI bus id, else its label.
func (d DeviceInfo) Key() string {
	switch {
	case d.UUID != "":
		return canonicalUUID(d.UUID)
	case d.PCIBusID != "":
		return canonicalBusID(d.PCIBusID)
	}
	return d.Label()
}

// accelerator is an opened device with the kernels multiply, fill and inspect.
type accelerator interface {
	// Alloc gives memory of the device with undefined content.
	Alloc(bytes int) (memory, error)
	// Run runs a kernel over size (rows of a matrix, or words of memory), waits
	// for it, and gives the time by the device's own clock.
	Run(kernel string, size int, args ...any) (time.Duration, error)
	// Free is how much memory is free, and the largest piece at a time; zero is
	// not known.
	Free() (free, piece uint64)
	// Close gives back everything that was allocated.
	Close() error
}

type memory interface {
	Write([]byte) error
	Read([]byte) error
	Free() error
}

// candidate is a device that can be opened.
type candidate struct {
	info DeviceInfo
	cpu  bool
	open func() (accelerator, error)
}

// product is one job's outcome, without the matrix.
type product struct {
	Seed          uint64  `json:"seed"`
	N             int     `json:"n"`
	Repeats       int     `json:"repeats"`
	DeviceSeconds float64 `json:"device_seconds"` // of all repeats, by the device's events
	BestSeconds   float64 `json:"best_seconds"`   // of the fastest one
	WallSeconds   float64 `json:"wall_seconds"`   // of all repeats, by the host's clock
}

// multiply runs the product for at least the time asked, then once more into
// memory that was overwritten before, and gives the matrix of that last run: it
// is the result of a device under load, and never one left over.
func multiply(acc accelerator, seed uint64, n int, atLeast time.Duration) (p product, c []byte, err error) {
	a, b := Inputs(seed, n)
	var mem [3]memory
	for i := range mem {
		if mem[i], err = acc.Alloc(4 * n * n); err != nil {
			return p, nil, fmt.Errorf("allocate a matrix: %w", err)
		}
	}
	if err := errors.Join(mem[0].Write(toBytes(a)), mem[1].Write(toBytes(b))); err != nil {
		return p, nil, fmt.Errorf("copy the inputs: %w", err)
	}
	c = make([]byte, 4*n*n)
	for i := range c {
		c[i] = 0xFF // not a number
	}
	if err := mem[2].Write(c); err != nil {
		return p, nil, fmt.Errorf("overwrite the result: %w", err)
	}
	run := func() (time.Duration, error) { return acc.Run("multiply", n, mem[0], mem[1], mem[2], uint32(n)) }
	if _, err := run(); err != nil { // compiles, and warms up
		return p, nil, err
	}
	p = product{Seed: seed, N: n}
	start := time.Now()
	for p.Repeats == 0 || time.Since(start) < atLeast {
		d, err := run()
		if err != nil {
			return p, nil, err
		}
		p.Repeats++
		p.DeviceSeconds += d.Seconds()
		if p.BestSeconds == 0 || d.Seconds() < p.BestSeconds {
			p.BestSeconds = d.Seconds()
		}
	}
	p.WallSeconds = time.Since(start).Seconds()
	if err := mem[2].Write(c); err != nil {
		return p, nil, fmt.Errorf("overwrite the result: %w", err)
	}
	if _, err := run(); err != nil {
		return p, nil, err
	}
	if err := mem[2].Read(c); err != nil {
		return p, nil, fmt.Errorf("read the result: %w", err)
	}
	for _, m := range mem {
		if err := m.Free(); err != nil {
			return p, nil, fmt.Errorf("free a matrix: %w", err)
		}
	}
	return p, c, nil
}
