package host

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

const (
	lineSize    = 64
	maxPressure = 1 << 30
	// pressureBatch lines are one sample: a millisecond or more, so that the clock
	// costs nothing that can be seen.
	pressureBatch = 1 << 16
)

// pressure goes through memory in a pattern.
type pressure struct {
	m     []byte
	env   claims.Env
	at    int    // sequential: the next line
	state uint64 // random: mixed with what each line holds
	clock float64
}

func startPressure(ctx context.Context, env claims.Env) (*pressure, error) {
	free, err := freeMemory(env)
	if err != nil {
		return nil, claims.Unavailablef("read how much memory is free: %w", err)
	}
	size := 1 << 20
	for size < maxPressure && uint64(size) < free/8 { // a power of two, at most a quarter
		size <<= 1
	}
	m, err := anonymous(ctx, env, size, true)
	if err != nil {
		return nil, err
	}
	return &pressure{m: m, env: env, state: rand.NewPCG(env.Seed, 3).Uint64(), clock: clockCost()}, nil
}

func startSequential(ctx context.Context, env claims.Env) (claims.Runner, error) {
	p, err := startPressure(ctx, env)
	if err != nil {
		return nil, err
	}
	return hostRunner{sample: p.sampler(p.sequential), close: p.close}, nil
}

func startRandom(ctx context.Context, env claims.Env) (claims.Runner, error) {
	p, err := startPressure(ctx, env)
	if err != nil {
		return nil, err
	}
	return hostRunner{sample: p.sampler(p.random), close: p.close}, nil
}

func (p *pressure) close() error { return unix.Munmap(p.m) }

func (p *pressure) sequential(lines int) {
	for range lines {
		line := p.m[p.at : p.at+8]
		binary.LittleEndian.PutUint64(line, binary.LittleEndian.Uint64(line)+1)
		p.at = (p.at + lineSize) & (len(p.m) - 1)
	}
}

// random lets each place depend on the line before, so that a processor cannot
// fetch them side by side: it is latency, not bandwidth.
func (p *pressure) random(lines int) {
	mask := uint64(len(p.m)-1) &^ (lineSize - 1)
	for range lines {
		// A step of splitmix64 over the state and what was read.
		p.state += 0x9e3779b97f4a7c15
		z := p.state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		at := (z ^ z>>31) & mask
		line := p.m[at : at+8]
		v := binary.LittleEndian.Uint64(line)
		binary.LittleEndian.PutUint64(line, v+1)
		p.state ^= v
	}
}

func (p *pressure) sampler(pass func(lines int)) func(context.Context) (claims.Measurement, error) {
	return func(context.Context) (claims.Measurement, error) {
		before := vmstat(p.env)
		start := time.Now()
		pass(pressureBatch)
		took := time.Since(start).Seconds()
		after := vmstat(p.env)
		extra := map[string]float64{
			"bytes": float64(len(p.m)), "bytes_per_s": pressureBatch * lineSize / took, "clock_s": p.clock,
		}
		for name, v := range before {
			extra[name+"_before"] = v
		}
		for name, v := range after {
			extra[name+"_after"] = v
		}
		return claims.Measurement{Value: took / pressureBatch, Batch: pressureBatch, Extra: extra}, nil
	}
}

// vmstatNames are the counters that show whether memory was under pressure: of
// the whole machine, as the kernel has them.
var vmstatNames = []string{"pgfault", "pgmajfault", "pswpin", "pswpout", "pgscan_kswapd", "pgscan_direct", "pgmigrate_success"}

// vmstat gives those that can be read; one that cannot is absent.
func vmstat(env claims.Env) map[string]float64 {
	text, err := readSmall(hostProc(env, "vmstat"))
	if err != nil {
		return nil
	}
	out := make(map[string]float64, len(vmstatNames))
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, want := range vmstatNames {
			if name != want {
				continue
			}
			if v, err := strconv.ParseUint(value, 10, 64); err == nil {
				out[name] = float64(v)
			}
		}
	}
	return out
}
