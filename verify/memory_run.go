package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/assay-bench/assay/internal/cuda"
	"github.com/assay-bench/assay/internal/opencl"
)

// memoryJob says how much memory to check.
type memoryJob struct {
	Share float64 `json:"share"`           // of the free memory
	Bytes uint64  `json:"bytes,omitempty"` // at most; zero is no bound
	Chunk uint64  `json:"chunk,omitempty"` // allocate in pieces of at most this; zero is a gigabyte
	Seed  uint32  `json:"seed"`
}

// memoryResult is what the check of one device's memory found.
type memoryResult struct {
	Free         uint64  `json:"free_bytes"` // what the share was taken of
	FreeKnown    bool    `json:"free_known"` // else Free is all of the memory
	Wanted       uint64  `json:"wanted_bytes"`
	Tested       uint64  `json:"tested_bytes"`
	Passes       int     `json:"passes"`
	Wrong        uint64  `json:"wrong_words"`
	First        string  `json:"first,omitempty"` // pattern and place of the first wrong word
	WriteBytes   uint64  `json:"write_bytes"`
	WriteSeconds float64 `json:"write_seconds"`
	ReadBytes    uint64  `json:"read_bytes"`
	ReadSeconds  float64 `json:"read_seconds"`
}

// maxChunk keeps a word's place in a chunk within 32 bits.
const maxChunk = 1 << 30

// minChunk is the smallest piece that is tried when larger ones fail.
const minChunk = 64 << 10

type memoryChunk struct {
	memory
	base  uint64 // the place of its first word
	words int
}

// planMemory says how much is to be checked.
func planMemory(acc accelerator, info DeviceInfo, job memoryJob) (r memoryResult, err error) {
	if !(job.Share > 0 && job.Share <= 1) {
		return r, fmt.Errorf("a share of %g of the memory", job.Share)
	}
	free, _ := acc.Free()
	r.Free, r.FreeKnown = free, free > 0
	if free == 0 {
		r.Free = info.MemoryBytes
	}
	r.Wanted = uint64(float64(r.Free) * job.Share)
	if job.Bytes > 0 {
		r.Wanted = min(r.Wanted, job.Bytes)
	}
	r.Wanted &^= 15
	return r, nil
}

// checkMemory fills all that it could allocate, and only then looks, so that two
// chunks that lie on the same cells are noticed.
func checkMemory(acc accelerator, job memoryJob, r *memoryResult) error {
	found, err := acc.Alloc(8)
	if err != nil {
		return fmt.Errorf("allocate the counters: %w", err)
	}
	_, piece := acc.Free()
	all := patterns(job.Seed)
	if job.Chunk > 0 && (piece == 0 || job.Chunk < piece) {
		piece = job.Chunk
	}
	chunks, err := allocate(acc, all[0], r, piece)
	if err != nil {
		return err
	}
	for i, p := range all {
		if i > 0 { // allocate has filled in the first
			for _, c := range chunks {
				if err := fill(acc, c, p, r); err != nil {
					return err
				}
			}
		}
		for _, c := range chunks {
			if err := inspect(acc, c, p, found, r); err != nil {
				return err
			}
		}
		r.Passes++
	}
	return nil
}

// allocate takes memory chunk by chunk until there is enough or no more. Each is
// filled at once: some drivers give memory only when it is touched.
func allocate(acc accelerator, p pattern, r *memoryResult, piece uint64) ([]memoryChunk, error) {
	size := uint64(maxChunk)
	if piece > 0 {
		size = min(size, piece)
	}
	var chunks []memoryChunk
	for r.Tested < r.Wanted {
		n := min(size, r.Wanted-r.Tested) &^ 15
		if n == 0 {
			break
		}
		m, err := acc.Alloc(int(n))
		if err == nil {
			c := memoryChunk{m, r.Tested / 4, int(n / 4)}
			if err = fill(acc, c, p, r); err == nil {
				chunks = append(chunks, c)
				r.Tested += n
				continue
			}
			err = errors.Join(err, m.Free())
		}
		if !opencl.IsOutOfMemory(err) && !cuda.IsOutOfMemory(err) {
			return nil, err
		}
		if size /= 2; size < minChunk {
			break
		}
	}
	if r.Tested == 0 {
		return nil, fmt.Errorf("none of %d bytes could be allocated", r.Wanted)
	}
	return chunks, nil
}

func fill(acc accelerator, c memoryChunk, p pattern, r *memoryResult) error {
	d, err := acc.Run("fill", c.words, c.memory, uint32(c.words), c.base, p.mode, p.arg)
	if err != nil {
		return fmt.Errorf("fill with %s: %w", p.name, err)
	}
	r.WriteBytes += 4 * uint64(c.words)
	r.WriteSeconds += d.Seconds()
	return nil
}

func inspect(acc accelerator, c memoryChunk, p pattern, found memory, r *memoryResult) error {
	var buf [8]byte
	binary.LittleEndian.PutUint32(buf[4:], math.MaxUint32)
	if err := found.Write(buf[:]); err != nil {
		return fmt.Errorf("reset the counters: %w", err)
	}
	d, err := acc.Run("inspect", c.words, c.memory, uint32(c.words), c.base, p.mode, p.arg, found)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", p.name, err)
	}
	if err := found.Read(buf[:]); err != nil {
		return fmt.Errorf("read the counters: %w", err)
	}
	r.ReadBytes += 4 * uint64(c.words)
	r.ReadSeconds += d.Seconds()
	if wrong := binary.LittleEndian.Uint32(buf[:]); wrong > 0 {
		r.Wrong += uint64(wrong)
		if r.First == "" {
			r.First = fmt.Sprintf("%s, byte %d", p.name, 4*(c.base+uint64(binary.LittleEndian.Uint32(buf[4:]))))
		}
	}
	return nil
}
