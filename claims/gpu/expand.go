package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

// Expansion: ten thousand templates of sixteen tokens, each a literal or one of 64
// variables. A sample binds the variables anew: the bindings go to the device, the
// lengths are summed into places, the text is written there and comes back.
const (
	templateCount  = 10_000
	templateTokens = 16
	variables      = 64
	longestPiece   = 32
	literalPool    = 4096
	valuePool      = variables * longestPiece
	variableToken  = 1 << 31
	maxText        = templateCount * templateTokens * longestPiece
)

type expand struct {
	seed      uint64
	templates []uint32 // token k of template i at k*templateCount+i
	literals  []byte

	lengthsOf, offsetsOf, write                            *opencl.Kernel
	tokens, pool, bindings, values, lengths, offsets, text *opencl.Buffer
	total, out                                             []byte
}

func newTemplates(r *rand.Rand) (templates []uint32, literals []byte) {
	literals = letters(r, literalPool)
	templates = make([]uint32, templateTokens*templateCount)
	for i := range templates {
		if r.IntN(3) == 0 {
			templates[i] = variableToken | uint32(r.IntN(variables))
			continue
		}
		length := r.IntN(longestPiece/2 + 1)
		templates[i] = uint32(length)<<16 | uint32(r.IntN(literalPool-length))
	}
	return templates, literals
}

// newBindings gives each variable a text of its own length, which may be none.
func newBindings(r *rand.Rand) (bindings []uint32, values []byte) {
	values = letters(r, valuePool)
	for v := range variables {
		bindings = append(bindings, uint32(r.IntN(longestPiece+1))<<16|uint32(v*longestPiece))
	}
	return bindings, values
}

func letters(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return b
}

// expandReference is the text of all templates, one after the other.
func expandReference(templates []uint32, literals []byte, bindings []uint32, values []byte) []byte {
	var out []byte
	for i := range templateCount {
		for k := range templateTokens {
			piece, from := templates[k*templateCount+i], literals
			if piece&variableToken != 0 {
				piece, from = bindings[piece&0xFF], values
			}
			at := piece & 0xFFFF
			out = append(out, from[at:at+piece>>16]...)
		}
	}
	return out
}

func newExpand(d *gpuDevice, seed uint64) (gpuWork, error) {
	x := &expand{seed: seed, total: make([]byte, 4), out: make([]byte, maxText)}
	x.templates, x.literals = newTemplates(gpuRandom(seed, 0))
	var err error
	for name, k := range map[string]**opencl.Kernel{"expand_lengths": &x.lengthsOf, "expand_offsets": &x.offsetsOf, "expand_write": &x.write} {
		if *k, err = d.program.Kernel(name); err != nil {
			return nil, err
		}
	}
	if x.tokens, err = d.buffer(uint32Bytes(x.templates)); err != nil {
		return nil, fmt.Errorf("put the templates on the device: %w", err)
	}
	if x.pool, err = d.buffer(x.literals); err != nil {
		return nil, fmt.Errorf("put the literals on the device: %w", err)
	}
	mem, err := d.buffers(4*variables, valuePool, 4*templateCount, 4*(templateCount+1), maxText)
	if err != nil {
		return nil, fmt.Errorf("memory for the text: %w", err)
	}
	x.bindings, x.values, x.lengths, x.offsets, x.text = mem[0], mem[1], mem[2], mem[3], mem[4]
	return x, nil
}

func (x *expand) sample(number uint64) (claims.Measurement, error) {
	bindings, values := newBindings(gpuRandom(x.seed, number+1))
	bound := uint32Bytes(bindings)
	want := expandReference(x.templates, x.literals, bindings, values)
	for _, b := range []*opencl.Buffer{x.lengths, x.offsets, x.text} {
		if err := b.Write(filled(b.Size())); err != nil {
			return claims.Measurement{}, fmt.Errorf("overwrite the result: %w", err)
		}
	}
	var got []byte
	wall, device, err := timed(func() (events []*opencl.Event, err error) {
		if err := x.bindings.Write(bound); err != nil {
			return nil, err
		}
		if err := x.values.Write(values); err != nil {
			return nil, err
		}
		for _, launch := range []func() (*opencl.Event, error){
			func() (*opencl.Event, error) {
				return x.lengthsOf.Launch([]int{groups(templateCount, 64)}, []int{64}, x.tokens, x.bindings, x.lengths, uint32(templateCount))
			},
			func() (*opencl.Event, error) {
				return x.offsetsOf.Launch([]int{256}, []int{256}, x.lengths, x.offsets, uint32(templateCount))
			},
			func() (*opencl.Event, error) {
				return x.write.Launch([]int{64 * templateCount}, []int{64}, x.tokens, x.bindings, x.pool, x.values, x.offsets, x.text, uint32(templateCount))
			},
		} {
			e, err := launch()
			if err != nil {
				return events, err
			}
			events = append(events, e)
		}
		if err := x.offsets.Read(x.total); err != nil {
			return events, err
		}
		n := uint32s(x.total)[0]
		if n == 0 || n > maxText {
			return events, fmt.Errorf("%w: a text of %d bytes, %d by the CPU", claims.ErrWrong, n, len(want))
		}
		got = x.out[:n]
		return events, x.text.Read(got)
	})
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("expand %d templates: %w", templateCount, err)
	}
	if !bytes.Equal(got, want) {
		return claims.Measurement{}, fmt.Errorf("%w: the text of the device (%d bytes) is not the CPU's (%d bytes)", claims.ErrWrong, len(got), len(want))
	}
	return claims.Measurement{Value: wall.Seconds(), Extra: map[string]float64{
		"device_s": device.Seconds(), "templates": templateCount, "bytes": float64(len(got)),
	}}, nil
}
