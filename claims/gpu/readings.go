package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/telemetry"
)

// gpuReading is a probe whose value is what a driver says while the GPU works.
type gpuReading struct {
	probe, reading, unit, help string
	better                     assay.Direction
}

func gpuReadings() []gpuReading {
	return []gpuReading{
		{"gpu/utilization", assay.GPUUtilization, "ratio", "the share of time in which some kernel ran, as the driver says it (a duty cycle, not how much of the GPU was used)", assay.Higher},
		{"gpu/memory_utilization", assay.GPUMemoryUtilization, "ratio", "the share of time in which device memory was read or written", assay.Neither},
		{"gpu/memory_used", assay.GPUMemoryUsed, "bytes", "device memory in use", assay.Lower},
		{"gpu/temperature", assay.GPUTemperature, "celsius", "temperature of the chip", assay.Lower},
		{"gpu/power", assay.GPUPower, "watts", "power draw", assay.Lower},
		{"gpu/sm_clock", assay.GPUSMClock, "hertz", "clock of the multiprocessors", assay.Higher},
	}
}

func readingProbes() []claims.Probe {
	var all []claims.Probe
	for _, g := range gpuReadings() {
		all = append(all, claims.Probe{
			Name: g.probe, Unit: g.unit, Better: g.better,
			Help:  g.help + ", read while synthesis/pattern_matching keeps the GPU busy",
			Needs: "a GPU with OpenCL whose driver gives readings",
			Start: func(ctx context.Context, env claims.Env) (claims.Runner, error) { return startReading(ctx, env, g) },
		})
	}
	return all
}

// A driver's utilization is the mean of up to its last second: a sample loads the
// GPU for longer than that before it reads, and goes on until it has read. Samples
// closer together would be of the same second.
const (
	loadBefore = 1100 * time.Millisecond
	loadFor    = 1500 * time.Millisecond
)

type readingRunner struct {
	name    string // of the reading
	device  string // as the sources name it
	load    *gpuRunner
	sources []telemetry.Source
}

func startReading(ctx context.Context, env claims.Env, g gpuReading) (_ claims.Runner, err error) {
	load, err := openGPUChild(ctx, env, "synthesis/pattern_matching")
	if err != nil {
		return nil, err
	}
	r := &readingRunner{name: g.reading, load: load}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	sources, gpus, notes, err := telemetry.Choose(ctx, telemetry.ChooseOptions{Child: env.NVML, ProcRoot: env.ProcRoot, SysRoot: env.SysRoot})
	if err != nil {
		return nil, err
	}
	r.sources = sources
	if r.device, err = readingDevice(load.device, gpus); err != nil {
		if len(notes) > 0 {
			err = fmt.Errorf("%w (%s)", err, strings.Join(notes, "; "))
		}
		return nil, err
	}
	if _, ok := r.read(ctx); !ok {
		return nil, fmt.Errorf("%w: the driver of %s does not give %s", claims.ErrUnavailable, load.device.Name, g.reading)
	}
	return r, nil
}

// readingDevice finds the GPU that does the work among those that have readings: by
// its UUID, else by its place on the bus. A single one needs no name.
func readingDevice(works gpuIdentity, gpus []assay.GPU) (string, error) {
	if len(gpus) == 0 {
		return "", fmt.Errorf("%w: no source of readings knows a GPU", claims.ErrUnavailable)
	}
	for _, g := range gpus {
		if id := bareUUID(works.UUID); id != "" && id == bareUUID(g.UUID) {
			return g.UUID, nil
		}
	}
	for _, g := range gpus {
		if id := shortBusID(works.PCIBusID); id != "" && id == shortBusID(g.PCIBusID) {
			return g.UUID, nil
		}
	}
	if len(gpus) == 1 {
		return gpus[0].UUID, nil
	}
	return "", fmt.Errorf("%w: which of %d GPUs with readings is %s cannot be told", claims.ErrUnavailable, len(gpus), works.Name)
}

// bareUUID is the digits alone: OpenCL gives no prefix and no dashes.
func bareUUID(s string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "gpu-"), "-", "")
}

// shortBusID leaves out the domain's upper digits, which some sources lack.
func shortBusID(s string) string {
	const short = len("0000:00:00.0")
	if len(s) < short {
		return ""
	}
	return strings.ToLower(s[len(s)-short:])
}

// read takes the reading of the working GPU. One that was not obtained is absent.
func (r *readingRunner) read(ctx context.Context) (value float64, ok bool) {
	for _, s := range r.sources {
		// A source that failed may have given this reading before it did.
		_ = s.Read(ctx, func(x assay.Reading) {
			if x.Name == r.name && x.Device == r.device && x.Value != nil {
				value, ok = *x.Value, true
			}
		})
	}
	return value, ok
}

func (r *readingRunner) Sample(ctx context.Context) (claims.Measurement, error) {
	for range 3 {
		m, err := r.sample(ctx)
		if !errors.Is(err, errReadLate) {
			return m, err
		}
	}
	return claims.Measurement{}, fmt.Errorf("read %s: %w, three times", r.name, errReadLate)
}

// errReadLate is a reading of which nobody knows whether the load was still there.
var errReadLate = errors.New("it took longer than the load that it is about")

func (r *readingRunner) sample(ctx context.Context) (claims.Measurement, error) {
	loaded := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := r.load.child.ask(ctx, gpuRequest{Load: loadFor.Seconds()})
		loaded <- err
	}()
	select {
	case err := <-loaded:
		if err == nil {
			err = errors.New("the load ended before its time")
		}
		return claims.Measurement{}, err
	case <-time.After(loadBefore):
	}
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	value, ok := r.read(within)
	cancel()
	late := time.Since(start) > loadFor
	if err := <-loaded; err != nil {
		return claims.Measurement{}, err
	}
	switch {
	case !ok:
		return claims.Measurement{}, fmt.Errorf("%w: no reading of %s came", claims.ErrUnavailable, r.name)
	case late:
		return claims.Measurement{}, errReadLate
	}
	return claims.Measurement{Value: value, Extra: map[string]float64{"load_s": loadFor.Seconds()}}, nil
}

func (r *readingRunner) Close() error {
	err := r.load.Close()
	for _, s := range r.sources {
		err = errors.Join(err, s.Close())
	}
	return err
}
