package verify

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child"
)

// Options says what to verify. The zero value needs only Child.
type Options struct {
	// Child is the command line of a program that calls Serve on its standard
	// input and output.
	Child []string
	// Deadline is how long the child may take for everything; zero is two
	// minutes, and ten where Memory is asked for.
	Deadline time.Duration
	// Backend is opencl or cuda; empty takes what there is.
	Backend string
	// Devices are indexes into the devices found; empty is all of them.
	Devices []int
	// Identities are what other sources say of the GPUs: NVML, nvidia-smi, sysfs.
	Identities []Identity
	// SkipCompute leaves the product out.
	SkipCompute bool
	// Size is the number of rows and columns; zero is 2000. Others are for tests.
	Size int
	// Challenge is the seed of a verifier; zero draws one.
	Challenge uint64
	// MinTime is how long the product is repeated at least; zero is 2 s.
	MinTime time.Duration
	// Memory asks for the memory check. It takes nearly all of the free memory:
	// only for a node that serves nobody.
	Memory bool
	// MemoryShare is the share of the free memory to check; zero is 0.95.
	MemoryShare float64
	// MemoryBytes bounds what is checked; zero is no bound.
	MemoryBytes uint64
	// Record gets each operation's event as it comes; nil records nothing. The
	// Result holds them too.
	Record func(assay.Operation)
	// Now is the clock for checks; nil is time.Now.
	Now func() time.Time

	testChunk uint64 // the largest piece of memory; zero is as large as can be
}

// Result is what a run found. It holds what there was even when Run fails.
type Result struct {
	Devices    []DeviceInfo
	Checks     []assay.Check
	Operations []assay.Operation
}

func (o Options) resolved() (Options, error) {
	if len(o.Child) == 0 {
		return o, errors.New("no command line for the child")
	}
	if o.Deadline <= 0 {
		o.Deadline = 2 * time.Minute
		if o.Memory {
			o.Deadline = 10 * time.Minute
		}
	}
	if o.Size == 0 {
		o.Size = Size
	}
	if err := checkSize(o.Size); err != nil {
		return o, err
	}
	if o.MinTime <= 0 {
		o.MinTime = 2 * time.Second
	}
	if o.MemoryShare == 0 {
		o.MemoryShare = 0.95
	}
	if !(o.MemoryShare > 0 && o.MemoryShare <= 1) {
		return o, fmt.Errorf("a share of %g of the memory", o.MemoryShare)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Challenge == 0 {
		var buf [8]byte
		if _, err := rand.Read(buf[:]); err != nil {
			return o, fmt.Errorf("draw a challenge: %w", err)
		}
		o.Challenge = binary.LittleEndian.Uint64(buf[:])
	}
	return o, nil
}

func (o Options) request() request {
	r := request{Backend: o.Backend, Devices: o.Devices, N: o.Size}
	if !o.SkipCompute {
		r.Jobs = []productJob{{Seed: GoldenSeed}, {Seed: o.Challenge, Seconds: o.MinTime.Seconds()}}
	}
	if o.Memory {
		r.Memory = &memoryJob{Share: o.MemoryShare, Bytes: o.MemoryBytes, Chunk: o.testChunk, Seed: uint32(o.Challenge)}
	}
	return r
}

// Run verifies the GPUs of this machine. The native work is done by a child that
// is killed at the deadline; what it sends is judged here. The error is one of
// this package's, or of the context or the options; a check that failed is not an
// error.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.resolved()
	if err != nil {
		return Result{}, err
	}
	line, err := json.Marshal(o.request())
	if err != nil {
		return Result{}, fmt.Errorf("encode the request: %w", err)
	}
	in := newIntake(o)
	err = in.drive(ctx, append(line, '\n'))
	return in.result(err), err
}

// drive starts the child, hands it the request and takes what it sends, until it
// is done, dead or too late.
func (in *intake) drive(ctx context.Context, request []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, in.o.Deadline, ErrDeadline)
	defer cancel()
	until, _ := ctx.Deadline()
	p, err := child.Start(child.Spec{Command: in.o.Child, MaxLine: maxLine, MaxAnswer: math.MaxInt64, MaxStderr: maxStderr})
	if err != nil {
		return fmt.Errorf("start the child: %w", err)
	}
	defer p.Close(0) // with whatever the driver has left running
	if err = p.Send(ctx, until, request); err == nil {
		err = p.Receive(ctx, until, in.line)
	}
	if err == nil {
		err = p.Wait(ctx, until) // a driver may hang when it is let go, too
	}
	var ended *child.EndedError
	switch {
	case errors.Is(err, child.ErrLate):
		<-ctx.Done() // at the same moment; its cause says whose deadline that was
		return context.Cause(ctx)
	case errors.As(err, &ended):
		return fmt.Errorf("%w: it ended early (%w)", ErrDriver, err)
	case errors.Is(err, child.ErrFlood):
		return fmt.Errorf("%w: %w", ErrDriver, err)
	}
	return err
}

// maxStderr is how much of the beginning of the child's standard error is kept:
// what the driver wrote before the crash comes first, the runtime's long account
// of it after.
const maxStderr = 1 << 10
