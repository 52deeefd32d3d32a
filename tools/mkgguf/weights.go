package main

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Type is a ggml tensor type; its number is the one in the file.
type Type uint32

const (
	F32 Type = 0
	F16 Type = 1
	// Q8 is ggml's q8_0: blocks of 32 weights, a half-precision scale and a byte each.
	Q8 Type = 8
)

const (
	q8Block = 32
	q8Bytes = 2 + q8Block
)

// ParseType reads a type's usual name.
func ParseType(s string) (Type, error) {
	switch s {
	case "f32":
		return F32, nil
	case "f16":
		return F16, nil
	case "q8_0":
		return Q8, nil
	}
	return 0, fmt.Errorf("unknown weight type %q: use f32, f16 or q8_0", s)
}

// fileType is the number of general.file_type, which counts differently.
func (t Type) fileType() uint32 {
	if t == Q8 {
		return 7
	}
	return uint32(t)
}

func (t Type) rowSize(n int) int {
	switch t {
	case F32:
		return 4 * n
	case F16:
		return 2 * n
	default:
		return n / q8Block * q8Bytes
	}
}

// encode writes a row into dst, which has the row's size.
func (t Type) encode(dst []byte, row []float32) {
	switch t {
	case F32:
		for i, v := range row {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case F16:
		for i, v := range row {
			binary.LittleEndian.PutUint16(dst[2*i:], half(v))
		}
	default:
		for len(row) > 0 {
			encodeQ8(dst[:q8Bytes], row[:q8Block])
			dst, row = dst[q8Bytes:], row[q8Block:]
		}
	}
}

func encodeQ8(dst []byte, block []float32) {
	var top float64
	for _, v := range block {
		top = max(top, math.Abs(float64(v)))
	}
	scale := top / 127
	binary.LittleEndian.PutUint16(dst, half(float32(scale)))
	for i, v := range block {
		q := 0.0
		if scale > 0 {
			q = math.Round(float64(v) / scale)
		}
		dst[2+i] = byte(int8(q))
	}
}

// half converts to IEEE 754 half precision, to the nearest, ties to even.
// What is too large becomes the largest finite number: an infinite weight would
// make every token the same.
func half(f float32) uint16 {
	const largest = 65504
	sign := uint16(math.Float32bits(f)>>16) & 0x8000
	a := math.Abs(float64(f))
	switch {
	case a == 0 || math.IsNaN(a):
		return sign
	case a >= largest:
		return sign | 0x7bff
	}
	// A half is an integer of steps; the step is set by the exponent, and below
	// 2^-14 (the subnormals) it stays the same.
	_, exp := math.Frexp(a) // a = frac * 2^exp, frac in [0.5, 1)
	exp = max(exp-1, -14)
	steps := uint16(math.RoundToEven(math.Ldexp(a, 10-exp)))
	// For a normal number steps is in [1024, 2048]; adding lets 2048 carry into
	// the exponent. For a subnormal it is below 1024, or just the first normal.
	return sign | (uint16(exp+14)<<10 + steps)
}
