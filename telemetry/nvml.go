package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/nvml"
)

// NVMLOptions are where NVML is.
type NVMLOptions struct {
	// Library is the path of libnvidia-ml.so.1; empty: by the system's search.
	Library string
}

// NVML reads NVIDIA GPUs through the driver's own library. A call into it can
// hang and cannot be cancelled, so it runs in a process of its own: the
// command that is given to [NewChild] makes one and hands it to [ServeChild].
//
// What moves is read every time: utilization, memory, temperature, power,
// energy, clocks, why they are low, and critical errors. The rest is read once
// a second, each GPU at another moment; which peers are in reach, once in five.
type NVML struct {
	lib    *nvml.Library
	events *nvml.Events // nil: the driver gives none
	gpus   []*nvmlGPU
	lost   []string // devices that never answered
	filter *filter
	closed bool
}

type nvmlGPU struct {
	*nvml.Device
	slow, rare time.Time // when health and peers are due
	instant    time.Time // when gpu_power_instant is due
	supported  uint64    // reasons for low clocks that it can give
	lost       bool
	linked     bool // has been seen with a link up
	onSwitch   bool
	processes  []nvml.Process
}

const (
	peersEvery   = 5 * time.Second
	instantEvery = time.Minute
)

// NewNVML loads NVML. It may take seconds where the driver is not kept loaded.
func NewNVML(o NVMLOptions) (*NVML, error) {
	lib, err := nvml.Open(o.Library)
	if err != nil {
		return nil, err
	}
	n := &NVML{lib: lib, filter: newFilter()}
	for _, d := range lib.Devices() {
		g := &nvmlGPU{Device: d}
		if s, r := d.SupportedClockReasons(); r == nvml.Success {
			g.supported = s
		} else {
			g.supported = ^uint64(0) // it does not say: a bit that is not set is a no
		}
		n.gpus = append(n.gpus, g)
	}
	for _, i := range lib.Lost() {
		n.lost = append(n.lost, "index-"+strconv.Itoa(i))
	}
	if len(n.gpus)+len(n.lost) == 0 {
		return nil, errors.Join(errors.New("the driver has no GPU"), lib.Close())
	}
	// Errors that no event tells of may still show in the kernel's log; that
	// there are none here is no failure.
	if e, err := lib.Listen(); err == nil {
		n.events = e
	}
	return n, nil
}

// Name is "nvml".
func (n *NVML) Name() string { return "nvml" }

// Close shuts the library down.
func (n *NVML) Close() error {
	if n.closed {
		return nil
	}
	n.closed = true
	if n.events != nil {
		n.events.Close()
	}
	return n.lib.Close()
}

// Read gives the readings that are due. A GPU that the driver cannot reach any
// more has the one reading gpu_lost, and is no error.
func (n *NVML) Read(ctx context.Context, emit func(assay.Reading)) error {
	if n.closed {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n.xids(emit)
	for _, device := range n.lost {
		n.filter.emitChange(emit, assay.GPULost, device, 1)
	}
	var errs []error
	for i, g := range n.gpus {
		if r := n.gpu(emit, g, i); r != nvml.Success {
			errs = append(errs, fmt.Errorf("%s: %w", g.UUID, r))
		}
	}
	return errors.Join(errs...)
}

// maxXIDs is the most that is taken from the driver at one reading. A GPU in
// trouble can send hundreds; the rest comes at the next.
const maxXIDs = 32

func (n *NVML) xids(emit func(assay.Reading)) {
	if n.events == nil {
		return
	}
	for range maxXIDs {
		x, r := n.events.Next()
		if r != nvml.Success {
			return
		}
		device := ""
		if x.Device != nil {
			device = x.Device.UUID
		}
		n.filter.emit(emit, assay.GPUXID, device, float64(x.Code))
	}
}

// gpu reads one GPU. The return is of a failure that is neither a missing
// value nor the loss of the GPU.
func (n *NVML) gpu(emit func(assay.Reading), g *nvmlGPU, number int) nvml.Return {
	now := n.filter.now()
	slow := !now.Before(g.slow)
	if g.lost && !slow {
		return nvml.Success // it is looked for again once a second
	}
	o := observer{emit: emit, filter: n.filter, device: g.UUID}
	if g.fast(&o, now); o.fatal == nvml.Success && slow {
		g.health(&o)
	}
	if o.fatal == nvml.Success && !now.Before(g.rare) {
		g.peers(&o, n.gpus)
		g.rare = now.Add(peersEvery)
	}
	if slow {
		// The first reading has everything. Then the GPUs are spread over the
		// second, so that no reading takes much longer than another.
		if g.slow.IsZero() {
			g.slow = now.Add(slowEvery * time.Duration(number+1) / time.Duration(len(n.gpus)))
		} else {
			g.slow = now.Add(slowEvery - tickSlack)
		}
	}
	g.lost = o.fatal == nvml.GPUIsLost
	lost := 0.
	if g.lost {
		lost, o.fatal = 1, nvml.Success
	}
	n.filter.emitChange(emit, assay.GPULost, g.UUID, lost)
	return o.fatal
}

// observer hands on what one GPU said. After a return that concerns the GPU as
// a whole, fatal is not Success, and nothing more should be asked.
type observer struct {
	emit   func(assay.Reading)
	filter *filter
	device string
	fatal  nvml.Return
}

// ok says whether a value was obtained, and keeps a return that is fatal.
func (o *observer) ok(r nvml.Return) bool {
	if r != nvml.Success && !r.Absent() && o.fatal == nvml.Success && r != nvml.InvalidArgument {
		o.fatal = r
	}
	return r == nvml.Success
}

func (o *observer) value(name string, v float64, r nvml.Return) {
	if o.ok(r) {
		o.filter.emit(o.emit, name, o.device, v)
	}
}

func (o *observer) flag(name string, v bool, r nvml.Return) {
	f := 0.
	if v {
		f = 1
	}
	o.value(name, f, r)
}

// known gives a number of which 0 means that it is not known.
func (o *observer) known(name string, v float64) {
	if v != 0 {
		o.filter.emit(o.emit, name, o.device, v)
	}
}
