package verify

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/assay-bench/assay/internal/cuda"
	"github.com/assay-bench/assay/internal/opencl"
)

// accelerators are all that compute: every kernel of every backend.
func accelerators(t *testing.T) map[string]func(t *testing.T) accelerator {
	openCL := func(rows bool) func(*testing.T) accelerator {
		return func(t *testing.T) accelerator {
			pocl(t)
			lib, err := opencl.Open(opencl.Options{})
			if err != nil {
				t.Fatal(err)
			}
			devices, err := lib.Devices()
			if err != nil {
				t.Fatal(err)
			}
			acc, err := openOpenCL(devices[0], kernelsCL)
			if err != nil {
				t.Fatal(err)
			}
			acc.(*openclAccelerator).rows = rows
			return acc
		}
	}
	return map[string]func(t *testing.T) accelerator{
		"OpenCL, the kernel for CPUs": openCL(true),
		"OpenCL, the kernel for GPUs": openCL(false),
		"CUDA, a stub": func(t *testing.T) accelerator {
			lib, err := cuda.Open(cuda.Options{Libraries: []string{stub(t, "cuda", "NONE")}})
			if err != nil {
				t.Fatal(err)
			}
			devices, err := lib.Devices()
			if err != nil {
				t.Fatal(err)
			}
			acc, err := openCUDA(devices[0])
			if err != nil {
				t.Fatal(err)
			}
			return acc
		},
	}
}

func TestAcceleratorsMultiply(t *testing.T) {
	for name, open := range accelerators(t) {
		t.Run(name, func(t *testing.T) {
			acc := open(t)
			defer acc.Close()
			p, c, err := multiply(acc, GoldenSeed, 240, 0)
			if err != nil {
				t.Fatal(err)
			}
			if h := Hash(fromBytes(c)); h != golden[240] {
				t.Errorf("hash %s", h)
			}
			if p.Repeats != 1 || !(p.DeviceSeconds > 0) || p.BestSeconds != p.DeviceSeconds || !(p.WallSeconds >= p.DeviceSeconds*0.9) {
				t.Errorf("product %+v", p)
			}
		})
	}
}

func TestAcceleratorsFillAndInspect(t *testing.T) {
	const words = 100_000
	all := patterns(0xC0FFEE)
	for name, open := range accelerators(t) {
		t.Run(name, func(t *testing.T) {
			acc := open(t)
			defer acc.Close()
			mem, err := acc.Alloc(4 * words)
			if err != nil {
				t.Fatal(err)
			}
			found, err := acc.Alloc(8)
			if err != nil {
				t.Fatal(err)
			}
			buf, want := make([]byte, 4*words), make([]byte, 0, 4*words)
			for _, p := range []pattern{all[0], all[1], all[2], all[20], all[len(all)-1]} {
				const base = 5<<32 - words/2 // the high half of the place counts too
				c := memoryChunk{mem, base, words}
				var r memoryResult
				if err := fill(acc, c, p, &r); err != nil {
					t.Fatal(err)
				}
				want = want[:0]
				for i := range uint64(words) {
					want = binary.LittleEndian.AppendUint32(want, p.word(base+i))
				}
				if err := mem.Read(buf); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(buf, want) {
					t.Fatalf("%s %d: not the pattern", p.name, p.arg)
				}
				if err := inspect(acc, c, p, found, &r); err != nil || r.Wrong != 0 {
					t.Fatalf("%s: %+v, %v", p.name, r, err)
				}
				buf[4*7001] ^= 1
				buf[4*70001+3] ^= 0x80
				if err := mem.Write(buf); err != nil {
					t.Fatal(err)
				}
				if err := inspect(acc, c, p, found, &r); err != nil || r.Wrong != 2 || r.First == "" {
					t.Fatalf("%s: two wrong words, found %+v, %v", p.name, r, err)
				}
			}
		})
	}
}

// The result is that of the last run: one that computed nothing must not pass
// with what an earlier one has left.
func TestResultIsOfTheLastRun(t *testing.T) {
	for left, wantErr := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		_, c, err := multiply(&lazy{left}, GoldenSeed, 80, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckProduct(GoldenSeed, 80, fromBytes(c)); (err != nil) != wantErr {
			t.Errorf("%d of 3 runs computed: %v", left, err)
		}
	}
}

// word is what the kernels must write at place i.
func (p pattern) word(i uint64) uint32 {
	lo, hi := uint32(i), uint32(i>>32)
	x := lo ^ hi*0x9E3779B9
	switch p.mode {
	case modeWalk:
		return 1 << ((lo + p.arg) & 31)
	case modeRandom:
		x += p.arg * 0x85EBCA6B
		x ^= x >> 16
		x *= 0x7FEB352D
		x ^= x >> 15
		x *= 0x846CA68B
		return x ^ x>>16
	}
	return x ^ p.arg
}
