package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// The GGUF container, version 3: a header, key-value pairs, one description of
// each tensor, then the tensors' data, each aligned.

const (
	ggufMagic   = "GGUF"
	ggufVersion = 3
	// alignment is the format's default; another one would need a key of its own.
	alignment = 32
)

// Value types of the key-value pairs.
const (
	valueUint32  = 4
	valueInt32   = 5
	valueFloat32 = 6
	valueBool    = 7
	valueString  = 8
	valueArray   = 9
)

// Pair is one entry of the metadata. Value is a uint32, float32, bool, string,
// []string or []int32.
type Pair struct {
	Key   string
	Value any
}

// Tensor is a tensor whose rows are made when they are written, so that a model
// larger than memory can be made.
type Tensor struct {
	Name string
	// Dims has the contiguous dimension first, as ggml has it: the length of a row.
	Dims []int
	Type Type
	// Fill sets one row. Rows come in order, each once.
	Fill func(row int, out []float32)
}

func (t Tensor) rows() int {
	n := 1
	for _, d := range t.Dims[1:] {
		n *= d
	}
	return n
}

func (t Tensor) size() int64 { return int64(t.rows()) * int64(t.Type.rowSize(t.Dims[0])) }

// writeGGUF writes the container and returns the bytes written.
func writeGGUF(w io.Writer, pairs []Pair, tensors []Tensor) (int64, error) {
	e := &encoder{w: w}
	e.bytes([]byte(ggufMagic))
	e.u32(ggufVersion)
	e.u64(uint64(len(tensors)))
	e.u64(uint64(len(pairs)))
	for _, p := range pairs {
		e.str(p.Key)
		e.value(p)
	}
	var offset int64
	for _, t := range tensors {
		e.str(t.Name)
		e.u32(uint32(len(t.Dims)))
		for _, d := range t.Dims {
			e.u64(uint64(d))
		}
		e.u32(uint32(t.Type))
		e.u64(uint64(offset))
		offset += aligned(t.size())
	}
	e.pad()
	for _, t := range tensors {
		row := make([]float32, t.Dims[0])
		buf := make([]byte, t.Type.rowSize(len(row)))
		for i := range t.rows() {
			t.Fill(i, row)
			t.Type.encode(buf, row)
			e.bytes(buf)
			if e.err != nil {
				return e.n, fmt.Errorf("tensor %s: %w", t.Name, e.err)
			}
		}
		e.pad()
	}
	return e.n, e.err
}

func aligned(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// encoder keeps the first error and writes nothing after it, so that the format
// can be read off the code without an error check at each field.
type encoder struct {
	w   io.Writer
	n   int64
	err error
	buf [8]byte
}

func (e *encoder) bytes(b []byte) {
	if e.err != nil {
		return
	}
	n, err := e.w.Write(b)
	e.n += int64(n)
	e.err = err
}

func (e *encoder) u32(v uint32) {
	binary.LittleEndian.PutUint32(e.buf[:4], v)
	e.bytes(e.buf[:4])
}

func (e *encoder) u64(v uint64) {
	binary.LittleEndian.PutUint64(e.buf[:], v)
	e.bytes(e.buf[:])
}

func (e *encoder) str(s string) {
	e.u64(uint64(len(s)))
	e.bytes([]byte(s))
}

func (e *encoder) pad() {
	e.bytes(make([]byte, aligned(e.n)-e.n))
}

func (e *encoder) value(p Pair) {
	switch v := p.Value.(type) {
	case uint32:
		e.u32(valueUint32)
		e.u32(v)
	case float32:
		e.u32(valueFloat32)
		e.u32(math.Float32bits(v))
	case bool:
		e.u32(valueBool)
		b := []byte{0}
		if v {
			b[0] = 1
		}
		e.bytes(b)
	case string:
		e.u32(valueString)
		e.str(v)
	case []string:
		e.array(valueString, len(v))
		for _, s := range v {
			e.str(s)
		}
	case []int32:
		e.array(valueInt32, len(v))
		for _, i := range v {
			e.u32(uint32(i))
		}
	default:
		if e.err == nil {
			e.err = fmt.Errorf("key %s: no GGUF type for %T", p.Key, p.Value)
		}
	}
}

func (e *encoder) array(of uint32, n int) {
	e.u32(valueArray)
	e.u32(of)
	e.u64(uint64(n))
}
