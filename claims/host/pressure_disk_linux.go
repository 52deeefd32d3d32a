package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// maxDiskPressure bounds the file: its blocks are all written before the first
// sample.
const maxDiskPressure = 256 << 20

// diskPressure goes through a file past the page cache, as pressure goes through
// memory: it reads a page, changes it and writes it back.
type diskPressure struct {
	f      *os.File
	page   []byte   // aligned
	stamps []uint32 // what each page should hold
	random bool
	at     int
	rand   *rand.Rand
	clock  float64
}

func startDiskPressure(random bool) func(context.Context, claims.Env) (claims.Runner, error) {
	return func(ctx context.Context, env claims.Env) (claims.Runner, error) {
		d, err := newDiskPressure(ctx, env, random)
		if err != nil {
			return nil, err
		}
		return hostRunner{sample: d.sample, close: d.close}, nil
	}
}

func newDiskPressure(ctx context.Context, env claims.Env, random bool) (*diskPressure, error) {
	free, err := freeDisk(env.Dir)
	if err != nil {
		return nil, claims.Unavailablef("%w", err)
	}
	size := 1 << 20
	for size < maxDiskPressure && float64(size) < free/8 { // a power of two, at most a quarter
		size <<= 1
	}
	f, err := scratchFile(env.Dir, size, true)
	if err != nil {
		return nil, err
	}
	block, err := anonymous(ctx, env, min(size, diskChunk), true)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d := &diskPressure{f: f, page: block, stamps: make([]uint32, size/pageSize), random: random,
		rand: rand.New(rand.NewPCG(env.Seed, 4)), clock: clockCost()}
	if err := d.lay(ctx, size); err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC) {
			err = claims.Unavailablef("%w", err)
		}
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// lay writes all pages, so that no sample meets a block that is not there yet.
func (d *diskPressure) lay(ctx context.Context, size int) error {
	for at := 0; at < len(d.page); at += pageSize {
		binary.LittleEndian.PutUint32(d.page[at:], 0)
	}
	for off := 0; off < size; off += len(d.page) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if _, err := d.f.WriteAt(d.page, int64(off)); err != nil {
			return fmt.Errorf("write past the page cache: %w", err)
		}
	}
	return d.f.Sync()
}

func (d *diskPressure) sample(context.Context) (claims.Measurement, error) {
	page := d.page[:pageSize]
	d.at = (d.at + 1) % len(d.stamps)
	if d.random {
		d.at = d.rand.IntN(len(d.stamps))
	}
	off := int64(d.at) * pageSize
	start := time.Now()
	if _, err := d.f.ReadAt(page, off); err != nil {
		return claims.Measurement{}, fmt.Errorf("read past the page cache: %w", err)
	}
	read := time.Since(start)
	got := binary.LittleEndian.Uint32(page)
	binary.LittleEndian.PutUint32(page, got+1)
	if _, err := d.f.WriteAt(page, off); err != nil {
		return claims.Measurement{}, fmt.Errorf("write past the page cache: %w", err)
	}
	took := time.Since(start)
	if got != d.stamps[d.at] {
		return claims.Measurement{}, fmt.Errorf("%w: page %d holds %d instead of %d", claims.ErrWrong, d.at, got, d.stamps[d.at])
	}
	d.stamps[d.at]++
	extra := map[string]float64{
		"bytes": float64(len(d.stamps) * pageSize), "read_s": read.Seconds(), "write_s": (took - read).Seconds(),
		"bytes_per_s": 2 * pageSize / took.Seconds(), "clock_s": d.clock,
	}
	return claims.Measurement{Value: took.Seconds(), Extra: extra}, nil
}

func (d *diskPressure) close() error { return errors.Join(unix.Munmap(d.page), d.f.Close()) }
