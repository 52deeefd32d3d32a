package verify

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// OperationLog says where operations are recorded and of which device they are.
type OperationLog struct {
	// Device is how the device is named in the event, for example Cuda(0).
	Device string
	// Record gets each operation's event; nil records nothing.
	Record func(assay.Operation)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// LogOperation runs fn and records it as an operation on the GPU, in the shape
// that the GPU logger asks for. The clock is read when fn has returned, so fn has
// to wait for the device before it returns: a launch alone returns at once, and
// its time would be that of the launch. The event is recorded whether or not fn
// fails, and fn's error is given back unchanged.
func LogOperation(log OperationLog, name string, shape []int, fn func() error) (assay.Operation, error) {
	now := log.Now
	if now == nil {
		now = time.Now
	}
	start := now()
	err := fn()
	op := operation(start, now().Sub(start), log.Device, name, shape, err)
	if log.Record != nil {
		log.Record(op)
	}
	return op, err
}

func operation(start time.Time, took time.Duration, device, name string, shape []int, err error) assay.Operation {
	sides := make([]string, len(shape))
	for i, n := range shape {
		sides[i] = strconv.Itoa(n)
	}
	op := assay.Operation{
		At: start.UnixNano(), Action: "gpu_operation", Component: "gpu_monitor",
		Details: fmt.Sprintf("Operation: %s, Input Shape: [%s], Time: %dms, Device: %s",
			name, strings.Join(sides, ", "), took.Round(time.Millisecond).Milliseconds(), device),
		Operation: name, Shape: shape, Seconds: took.Seconds(), Device: device,
	}
	if err != nil {
		op.Error = err.Error()
	}
	return op
}
