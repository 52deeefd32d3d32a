package gpu

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/claims"
)

const (
	pressureName = "memory_tiers/pressure_gpu_sequential"
	pressureLine = 64 // bytes, as for the host's memory
	maxPressure  = 1 << 30
	minPressure  = 1 << 20
	// pressureLook is how much of it is read back after a pass: the memory itself
	// is what is under pressure, not the bus.
	pressureLook = 1 << 20
)

// pressure goes through device memory again and again.
type pressure struct {
	seed   uint64
	device memoryDevice
	memory deviceMemory
	bytes  int
	host   []byte
}

// newPressure takes a quarter of what one piece may be, a power of two.
func newPressure(d *gpuDevice, seed uint64) (gpuWork, error) {
	bytes := minPressure
	for bytes < maxPressure && uint64(bytes) < d.largest/8 {
		bytes <<= 1
	}
	m, err := d.memory.alloc(bytes)
	if err != nil {
		return nil, err
	}
	return &pressure{seed: seed, device: d.memory, memory: m, bytes: bytes, host: filled(min(bytes, pressureLook))}, nil
}

func (p *pressure) sample(number uint64) (claims.Measurement, error) {
	seed := memoryWord(p.seed, number)
	start := time.Now()
	device, err := p.device.write(p.memory, p.bytes, seed, false)
	wall := time.Since(start)
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("go through device memory: %w", err)
	}
	if err := p.memory.Read(p.host); err != nil {
		return claims.Measurement{}, fmt.Errorf("read device memory: %w", err)
	}
	if err := p.device.check(p.host, seed, false); err != nil {
		return claims.Measurement{}, err
	}
	lines := p.bytes / pressureLine
	return claims.Measurement{Value: wall.Seconds() / float64(lines), Batch: lines, Extra: map[string]float64{
		"bytes": float64(p.bytes), "bytes_per_s": float64(p.bytes) / wall.Seconds(), "device_s": device.Seconds(),
	}}, nil
}
