package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// The product that is asked for, as the GPU logger has it.
const (
	// Size is the default number of rows and columns.
	Size = 2000
	// tile divides every size that the kernels take.
	tile = 80
	// limit is the largest numerator: Size·limit² = 16,562,000 < 2²⁴, so every
	// partial sum of a product is a whole number of 2⁻¹⁶ that float32 holds
	// exactly.
	limit = 91
	// one is the inputs' denominator; a product's is one².
	one = 256
)

// GoldenSeed is the seed of the product whose hash is known beforehand.
const GoldenSeed uint64 = 0x6173736179 // "assay"

// golden are the SHA-256 hashes of the product of GoldenSeed, by size. They were
// computed with whole numbers, by testdata/golden.py.
var golden = map[int]string{
	240:  "199f038f30528e6d04070f7a5c760bc63511fbc36c4c45e36a32849d0a0a7401",
	Size: "0e1546de6e1339229ec0523fdebac2c92a1ee89b33f2e845dd2a8786acb90489",
}

// GoldenHash is the hash that the product of GoldenSeed must have at this size,
// if it is one of the known ones.
func GoldenHash(n int) (string, bool) {
	h, ok := golden[n]
	return h, ok
}

// Inputs makes the two matrices of a seed: n×n each, in rows, first a then b.
//
// The generator is splitmix64, so that anyone can make them again: the state
// starts at seed; for each element it grows by 0x9E3779B97F4A7C15; z is the
// state, then z = (z ^ z>>30)·0xBF58476D1CE4E5B9, z = (z ^ z>>27)·
// 0x94D049BB133111EB, z ^= z>>31, all modulo 2⁶⁴. The element is k/256 with
// k = ((z>>32)·183 >> 32) − 91.
func Inputs(seed uint64, n int) (a, b []float32) {
	g := splitmix(seed)
	a, b = make([]float32, n*n), make([]float32, n*n)
	for _, m := range [][]float32{a, b} {
		for i := range m {
			m[i] = float32(g.numerator()) / one
		}
	}
	return a, b
}

type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (s *splitmix) numerator() int {
	return int((s.next()>>32)*(2*limit+1)>>32) - limit
}

// Hash is the SHA-256 of a matrix: its float32 in rows, little endian.
func Hash(c []float32) string {
	h := sha256.New()
	buf := make([]byte, 0, 64<<10)
	for _, v := range c {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		if len(buf) == cap(buf) {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	h.Write(buf)
	return hex.EncodeToString(h.Sum(nil))
}

// cpuProduct is a·b by gonum on all cores.
func cpuProduct(a, b []float32, n int) []float32 {
	c := make([]float32, n*n)
	general := func(d []float32) blas32.General {
		return blas32.General{Rows: n, Cols: n, Stride: n, Data: d}
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, general(a), general(b), 0, general(c))
	return c
}

func checkSize(n int) error {
	if n <= 0 || n > Size || n%tile != 0 {
		return fmt.Errorf("a matrix of %d×%d: the size must be a multiple of %d, at most %d", n, n, tile, Size)
	}
	return nil
}

// flop is the number of operations of one product.
func flop(n int) float64 { return 2 * float64(n) * float64(n) * float64(n) }

func toBytes(m []float32) []byte {
	out := make([]byte, 0, 4*len(m))
	for _, v := range m {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func fromBytes(p []byte) []float32 {
	m := make([]float32, len(p)/4)
	for i := range m {
		m[i] = math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))
	}
	return m
}
