package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child"
)

// SMIOptions say how to ask nvidia-smi.
type SMIOptions struct {
	// Path of the program; empty: nvidia-smi, as PATH has it.
	Path string
	// Interval between its answers; 0: 200 ms.
	Interval time.Duration
	// Deadline is how long it may give no reading before it is taken to hang;
	// 0: 5 s.
	Deadline time.Duration
}

// SMI reads NVIDIA GPUs through one nvidia-smi that runs as long as the source
// does. Starting one for each reading would cost more than the readings are
// worth. A program that ends, hangs or talks nonsense is ended with all that it
// started, and started again, each time after a longer wait.
type SMI struct {
	o      SMIOptions
	filter *filter
	gpus   []assay.GPU

	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	rows   map[string]smiRow // newest that was not read yet, by device
	lost   map[string]bool   // devices that were just said to be lost
	err    error             // why there is nothing now
	closed bool
}

// Waits before a program that failed is started again.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// errNoDevices is a driver without a card.
var errNoDevices = errors.New("nvidia-smi found no devices")

func (o SMIOptions) resolved() SMIOptions {
	if o.Path == "" {
		o.Path = "nvidia-smi"
	}
	if o.Interval <= 0 {
		o.Interval = 200 * time.Millisecond
	}
	if o.Deadline <= 0 {
		o.Deadline = 5 * time.Second
	}
	return o
}

// NewSMI asks nvidia-smi which GPUs there are, and starts reading them.
func NewSMI(ctx context.Context, o SMIOptions) (*SMI, error) {
	gpus, err := DescribeSMI(ctx, o)
	if err != nil {
		return nil, err
	}
	return startSMI(ctx, gpus, o), nil
}

// startSMI starts reading GPUs that are known.
func startSMI(ctx context.Context, gpus []assay.GPU, o SMIOptions) *SMI {
	// The source outlives the call that made it.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &SMI{o: o.resolved(), filter: newFilter(), gpus: gpus, stop: stop, rows: map[string]smiRow{}, lost: map[string]bool{}}
	s.done.Go(func() { s.run(run) })
	return s
}

// DescribeSMI asks nvidia-smi which GPUs there are.
func DescribeSMI(ctx context.Context, o SMIOptions) ([]assay.GPU, error) {
	o = o.resolved()
	// A first call may have to load the driver.
	ctx, cancel := context.WithTimeout(ctx, 2*o.Deadline)
	defer cancel()
	out, err := child.Output(ctx, child.Spec{Command: []string{o.Path, "-q", "-x"}, MaxAnswer: maxPage}, nil)
	text := out.Stdout
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s -q -x: %w", o.Path, ctx.Err())
	}
	const none = "No devices were found"
	if bytes.Contains(text, []byte(none)) || strings.Contains(out.Stderr, none) {
		return nil, errNoDevices
	}
	// A driver that has trouble with one card says so in a line of its own.
	if i := bytes.Index(text, []byte("<nvidia_smi_log")); i > 0 {
		text = text[i:]
	}
	gpus, xmlErr := parseSMILog(bytes.NewReader(text))
	switch {
	case xmlErr == nil && len(gpus) == 0:
		return nil, errNoDevices
	case xmlErr == nil:
		return gpus, nil
	case err != nil && len(text) > 0:
		return nil, fmt.Errorf("%s -q -x: %w: %s", o.Path, err, firstLine(string(text)))
	case err != nil:
		return nil, fmt.Errorf("%s -q -x: %w", o.Path, err)
	}
	return nil, fmt.Errorf("%s -q -x: %w", o.Path, xmlErr)
}

// GPUs are the cards that were there at the start.
func (s *SMI) GPUs() []assay.GPU { return append([]assay.GPU(nil), s.gpus...) }

// Name is "nvidia-smi".
func (s *SMI) Name() string { return "nvidia-smi" }

// Read gives the newest answer, if it is one that was not read yet.
func (s *SMI) Read(ctx context.Context, emit func(assay.Reading)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	rows, lost, err := s.rows, s.lost, s.err
	s.rows, s.lost = map[string]smiRow{}, map[string]bool{}
	s.mu.Unlock()
	for device, row := range rows {
		row.emit(s.filter, emit, device)
		if !lost[device] {
			s.filter.emitChange(emit, assay.GPULost, device, 0)
		}
	}
	for device := range lost {
		s.filter.emitChange(emit, assay.GPULost, device, 1)
	}
	return err
}

// Close ends the program.
func (s *SMI) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.done.Wait()
	return nil
}

// take keeps a row for the next Read.
func (s *SMI) take(row smiRow) {
	device := s.device(row)
	if device == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if row.lost() {
		s.lost[device] = true
	}
	s.rows[device] = row
	s.err = nil
}

// device is the UUID of the row's GPU. A lost card may not say it any more; its
// place in the list still tells which it was.
func (s *SMI) device(row smiRow) string {
	if id := row.word("uuid"); strings.HasPrefix(id, "GPU-") || strings.HasPrefix(id, "MIG-") {
		for _, g := range s.gpus {
			if g.UUID == id {
				return id
			}
		}
		return "" // not one that was there at the start
	}
	if i, ok := row.number("index"); ok {
		for _, g := range s.gpus {
			if float64(g.Index) == i {
				return g.UUID
			}
		}
	}
	return ""
}

// message looks whether a line that is no row names a GPU that is lost:
// "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost."
func (s *SMI) message(line string) {
	if !saysLost(line) {
		return
	}
	line = strings.ToLower(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gpus {
		// Here the domain has four digits, in the list it has eight.
		id := strings.ToLower(g.PCIBusID)
		if len(id) > len("0000:00:00.0") {
			id = id[len(id)-len("0000:00:00.0"):]
		}
		if id != "" && strings.Contains(line, id) {
			s.lost[g.UUID] = true
		}
	}
}
