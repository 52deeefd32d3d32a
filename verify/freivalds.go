package verify

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// mersenne is the prime 2⁶¹ − 1, in whose field Freivalds' method runs.
const mersenne uint64 = 1<<61 - 1

// FreivaldsError is the greatest probability with which CheckProduct takes a
// wrong product for a right one: 1/(2⁶¹ − 1), below 5·10⁻¹⁹.
const FreivaldsError = 1 / float64(mersenne)

// CheckProduct says whether c is the product of the seed's matrices, without
// computing it: in time n² instead of n³ (Freivalds, 1977).
//
// All is done in whole numbers: the elements of a and b times 2⁸ and those of c
// times 2¹⁶ are whole, and an element of c that is not is an error by itself. A
// vector x is drawn uniformly from the field of 2⁶¹ − 1 elements, after c is
// known, and a·(b·x) is compared with c·x. Elements of a wrong c differ from
// the right ones by less than 2⁶¹, so a wrong row gives a wrong sum unless x
// happens to solve one linear equation: see FreivaldsError.
func CheckProduct(seed uint64, n int, c []float32) error {
	return checkProduct(seed, n, c, rand.Reader)
}

func checkProduct(seed uint64, n int, c []float32, random io.Reader) error {
	if err := checkSize(n); err != nil {
		return err
	}
	if len(c) != n*n {
		return fmt.Errorf("a product of %d elements, not %d", len(c), n*n)
	}
	x := make([]uint64, n)
	for i := range x {
		v, err := element(random)
		if err != nil {
			return fmt.Errorf("draw a vector: %w", err)
		}
		x[i] = v
	}
	a, b := Inputs(seed, n)
	bx := make([]uint64, n)
	for i := range n {
		bx[i] = dot(b[i*n:(i+1)*n], x, one)
	}
	for i := range n {
		row := c[i*n : (i+1)*n]
		for j, v := range row {
			// The sum of n products is within n·limit²; NaN fails the comparison.
			if s := float64(v) * one * one; !(math.Abs(s) <= float64(n*limit*limit)) || s != math.Trunc(s) {
				return fmt.Errorf("row %d, column %d: %g cannot be a sum of these products", i, j, v)
			}
		}
		if dot(row, x, one*one) != dot(a[i*n:(i+1)*n], bx, one) {
			return fmt.Errorf("row %d is not the product's", i)
		}
	}
	return nil
}

// element draws from the field, uniformly: a draw of 61 bits that is the prime
// itself is drawn again.
func element(random io.Reader) (uint64, error) {
	var buf [8]byte
	for {
		if _, err := io.ReadFull(random, buf[:]); err != nil {
			return 0, err
		}
		if v := binary.LittleEndian.Uint64(buf[:]) >> 3; v < mersenne {
			return v, nil
		}
	}
}

// dot is the sum of row[i]·scale·x[i] in the field; row·scale is whole.
func dot(row []float32, x []uint64, scale float64) uint64 {
	var plus, minus uint64
	for i, v := range row {
		k := int64(float64(v) * scale)
		if k >= 0 {
			plus = add(plus, mul(uint64(k), x[i]))
		} else {
			minus = add(minus, mul(uint64(-k), x[i]))
		}
	}
	return add(plus, mersenne-minus)
}

func add(a, b uint64) uint64 {
	s := a + b
	if s >= mersenne {
		s -= mersenne
	}
	return s
}

func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	// 2⁶¹ = 1 in the field: the bits above the 61st are added to those below.
	s := lo&mersenne + (hi<<3 | lo>>61)
	if s >= mersenne {
		s -= mersenne
	}
	return s
}
