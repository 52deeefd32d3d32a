package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

// Matching: a million patterns of 4 to 12 symbols out of 16, each eighth symbol a
// wildcard, against every position of a text. The patterns stay on the device, as
// in a search that goes on from the matches; a sample is a text there and all
// patterns compared with it.
const (
	patternCount    = 1_000_000
	textPositions   = 64
	longestPattern  = 12
	patternSymbols  = 16
	matchTexts      = 2 // the reference takes longer than the device: texts come again
	noFirstPosition = 0xFFFF
)

type gpuPattern struct{ low, high uint64 }

func (p gpuPattern) length() int { return int(p.high >> 56) }

func (p gpuPattern) symbol(k int) byte {
	if k < 8 {
		return byte(p.low >> (8 * k))
	}
	return byte(p.high >> (8 * (k - 8)))
}

func newPatterns(seed uint64, count int) []gpuPattern {
	r := gpuRandom(seed, 0)
	all := make([]gpuPattern, count)
	for i := range all {
		p, length := &all[i], 4+r.IntN(longestPattern-4+1)
		p.high = uint64(length) << 56
		random, wild := r.Uint64(), r.Uint64() // four bits a symbol, three to make it a wildcard
		for k := range length {
			symbol := 1 + random>>(4*k)&(patternSymbols-1)
			if wild>>(3*k)&7 == 0 {
				symbol = 0
			}
			if k < 8 {
				p.low |= symbol << (8 * k)
			} else {
				p.high |= symbol << (8 * (k - 8))
			}
		}
	}
	return all
}

func newText(seed, number uint64) []byte {
	r := gpuRandom(seed, number+1)
	text := make([]byte, textPositions+longestPattern)
	for i := range text {
		text[i] = byte(1 + r.IntN(patternSymbols))
	}
	return text
}

// matchReference is what the kernel must find, and how many symbols it must look
// at for that.
func matchReference(patterns []gpuPattern, text []byte) (out []uint32, operations uint64) {
	out = make([]uint32, len(patterns))
	for i, p := range patterns {
		first, fits := uint32(noFirstPosition), uint32(0)
		length := p.length()
		for at := range textPositions {
			fit := true
			for k := 0; k < length && fit; k++ {
				operations++
				s := p.symbol(k)
				fit = s == 0 || s == text[at+k]
			}
			if fit {
				if fits == 0 {
					first = uint32(at)
				}
				fits++
			}
		}
		out[i] = first<<16 | fits
	}
	return out, operations
}

type match struct {
	device                             *gpuDevice
	patterns                           []gpuPattern
	kernel                             *opencl.Kernel
	onDevice, text, result, operations *opencl.Buffer
	texts                              [matchTexts]matchText
	out, sums, stale                   []byte
}

type matchText struct {
	text       []byte
	want       []byte
	operations uint64
}

func newMatch(d *gpuDevice, seed uint64) (gpuWork, error) {
	n := d.patterns
	m := &match{device: d, patterns: newPatterns(seed, n), stale: filled(4 * n)}
	m.out, m.sums = filled(4*n), filled(4*groups(n, 64)/64)
	var err error
	if m.kernel, err = d.program.Kernel("match"); err != nil {
		return nil, err
	}
	p := make([]byte, 16*n)
	for i, x := range m.patterns {
		binary.LittleEndian.PutUint64(p[8*i:], x.low)
		binary.LittleEndian.PutUint64(p[8*(n+i):], x.high)
	}
	if m.onDevice, err = d.buffer(p); err != nil {
		return nil, fmt.Errorf("put %d patterns on the device: %w", n, err)
	}
	mem, err := d.buffers(textPositions+longestPattern, len(m.out), len(m.sums))
	if err != nil {
		return nil, fmt.Errorf("memory for the matches: %w", err)
	}
	m.text, m.result, m.operations = mem[0], mem[1], mem[2]
	for i := range m.texts {
		t := &m.texts[i]
		t.text = newText(seed, uint64(i))
		var want []uint32
		want, t.operations = matchReference(m.patterns, t.text)
		t.want = uint32Bytes(want)
	}
	return m, nil
}

func (m *match) launch() (*opencl.Event, error) {
	n := len(m.patterns)
	return m.kernel.Launch([]int{groups(n, 64)}, []int{64}, m.onDevice, m.text, m.result, m.operations, uint32(n))
}

func (m *match) overwrite() error {
	if err := m.result.Write(m.stale); err != nil {
		return fmt.Errorf("overwrite the result: %w", err)
	}
	if err := m.operations.Write(m.stale[:len(m.sums)]); err != nil {
		return fmt.Errorf("overwrite the counts: %w", err)
	}
	return nil
}

// check compares what is on the device with the reference and gives the operations
// that the kernel counted.
func (m *match) check(t *matchText) (uint64, error) {
	if err := m.result.Read(m.out); err != nil {
		return 0, fmt.Errorf("read the matches: %w", err)
	}
	if err := m.operations.Read(m.sums); err != nil {
		return 0, fmt.Errorf("read the counts: %w", err)
	}
	if !bytes.Equal(m.out, t.want) {
		return 0, differ("the matches", uint32s(m.out), uint32s(t.want))
	}
	var operations uint64
	for _, n := range uint32s(m.sums) {
		operations += uint64(n)
	}
	if operations != t.operations {
		return 0, fmt.Errorf("%w: the device counted %d operations, the CPU %d", claims.ErrWrong, operations, t.operations)
	}
	return operations, nil
}

func (m *match) sample(number uint64) (claims.Measurement, error) {
	t := &m.texts[number%matchTexts]
	if err := m.overwrite(); err != nil {
		return claims.Measurement{}, err
	}
	wall, device, err := timed(func() ([]*opencl.Event, error) {
		if err := m.text.Write(t.text); err != nil {
			return nil, err
		}
		e, err := m.launch()
		if err != nil {
			return nil, err
		}
		return []*opencl.Event{e}, m.device.ctx.Finish()
	})
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("match %d patterns: %w", len(m.patterns), err)
	}
	operations, err := m.check(t)
	if err != nil {
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: float64(operations) / wall.Seconds(), Extra: map[string]float64{
		"operations": float64(operations), "wall_s": wall.Seconds(), "device_s": device.Seconds(), "patterns": float64(len(m.patterns)),
	}}, nil
}

// load matches without a pause: the next launch is queued while one runs. What the
// last one found is checked.
func (m *match) load(d time.Duration) error {
	t := &m.texts[0]
	if err := m.overwrite(); err != nil {
		return err
	}
	if err := m.text.Write(t.text); err != nil {
		return fmt.Errorf("write the text: %w", err)
	}
	running, err := m.launch()
	if err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < d; {
		next, err := m.launch()
		if err != nil {
			running.Drop()
			return err
		}
		if _, err := running.Wait(); err != nil {
			next.Drop()
			return err
		}
		running = next
	}
	if _, err := running.Wait(); err != nil {
		return err
	}
	_, err = m.check(t)
	return err
}
