package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// machine runs a kernel of the PTX text, thread by thread, without a card. It
// knows the instructions that the text uses and refuses any other.
type machine struct {
	code   []instruction
	labels map[string]int
	params map[string]uint64
	shared map[string]uint64 // the place of each variable
	memory []byte            // global memory; address 0 is not valid
	tile   []byte            // shared memory of the block under way
}

type instruction struct {
	guard string // the predicate of @%p
	op    string
	args  []string
}

type thread struct {
	pc   int
	regs map[string]uint64
}

var (
	entryText  = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)\s*(?:\.maxntid[^\n]*\n)?\{(.*?)\n\}`)
	sharedText = regexp.MustCompile(`^\.shared \.align 16 \.b32 (\w+)\[(\d+)\]$`)
	paramText  = regexp.MustCompile(`\.param \.u(?:32|64) (\w+)`)
)

func load(t *testing.T, kernel string, args []uint64, memory []byte) *machine {
	t.Helper()
	text := regexp.MustCompile(`//[^\n]*`).ReplaceAllString(Kernels, "")
	for _, e := range entryText.FindAllStringSubmatch(text, -1) {
		if e[1] != kernel {
			continue
		}
		m := &machine{labels: map[string]int{}, params: map[string]uint64{}, shared: map[string]uint64{}, memory: memory}
		names := paramText.FindAllStringSubmatch(e[2], -1)
		if len(names) != len(args) {
			t.Fatalf("%s has %d parameters, not %d", kernel, len(names), len(args))
		}
		for i, n := range names {
			m.params[n[1]] = args[i]
		}
		m.parse(t, e[3])
		return m
	}
	t.Fatalf("no kernel %s", kernel)
	return nil
}

func (m *machine) parse(t *testing.T, body string) {
	t.Helper()
	for _, line := range strings.FieldsFunc(body, func(r rune) bool { return r == ';' || r == '\n' }) {
		line = strings.TrimSpace(line)
		for {
			label, rest, ok := strings.Cut(line, ":")
			if !ok || strings.ContainsAny(label, " %") {
				break
			}
			m.labels[label], line = len(m.code), strings.TrimSpace(rest)
		}
		if s := sharedText.FindStringSubmatch(line); s != nil {
			n, _ := strconv.Atoi(s[2])
			m.shared[s[1]] = uint64(len(m.tile))
			m.tile = append(m.tile, make([]byte, 4*n)...)
			continue
		}
		if line == "" || strings.HasPrefix(line, ".reg") {
			continue
		}
		var i instruction
		if strings.HasPrefix(line, "@") {
			i.guard, line, _ = strings.Cut(line[1:], " ")
		}
		op, rest, _ := strings.Cut(line, " ")
		i.op = op
		if rest != "" {
			for _, a := range strings.Split(rest, ",") {
				i.args = append(i.args, strings.TrimSpace(a))
			}
		}
		m.code = append(m.code, i)
	}
}

// run runs the kernel over a grid of blocks. Threads of a block go on together
// from barrier to barrier.
func (m *machine) run(t *testing.T, grid, block [2]int) {
	t.Helper()
	for by := range grid[1] {
		for bx := range grid[0] {
			threads := make([]*thread, 0, block[0]*block[1])
			for ty := range block[1] {
				for tx := range block[0] {
					threads = append(threads, &thread{regs: map[string]uint64{
						"%tid.x": uint64(tx), "%tid.y": uint64(ty), "%ctaid.x": uint64(bx), "%ctaid.y": uint64(by),
						"%ntid.x": uint64(block[0]), "%nctaid.x": uint64(grid[0]),
					}})
				}
			}
			for i := range m.tile {
				m.tile[i] = 0xFF // whoever reads before writing gets no number
			}
			for done := 0; done < len(threads); {
				stops := map[string]int{}
				for _, th := range threads {
					stops[m.toBarrier(t, th)]++
				}
				done = stops["ret"]
				if done != 0 && done != len(threads) {
					t.Fatalf("some threads ended, some wait at a barrier: %v", stops)
				}
			}
		}
	}
}

func (m *machine) toBarrier(t *testing.T, th *thread) string {
	for {
		i := m.code[th.pc]
		th.pc++
		if i.guard != "" && th.regs[i.guard] == 0 {
			continue
		}
		switch i.op {
		case "ret":
			th.pc--
			return "ret"
		case "bar.sync":
			return "bar"
		case "bra":
			at, ok := m.labels[i.args[0]]
			if !ok {
				t.Fatalf("no label %s", i.args[0])
			}
			th.pc = at
		default:
			if err := m.step(th, i); err != nil {
				t.Fatalf("%s %v: %v", i.op, i.args, err)
			}
		}
	}
}

func (m *machine) value(th *thread, s string) (uint64, error) {
	switch {
	case strings.HasPrefix(s, "%"):
		v, ok := th.regs[s]
		if !ok {
			return 0, fmt.Errorf("%s was never set", s)
		}
		return v, nil
	case strings.HasPrefix(s, "0f"):
		return strconv.ParseUint(s[2:], 16, 32)
	}
	if at, ok := m.shared[s]; ok {
		return at, nil
	}
	return strconv.ParseUint(s, 0, 64)
}

// address is the bytes at [%r+n] of a space.
func (m *machine) address(th *thread, s string, space []byte) ([]byte, error) {
	base, off, _ := strings.Cut(strings.Trim(s, "[]"), "+")
	at, err := m.value(th, base)
	if err != nil {
		return nil, err
	}
	if off != "" {
		n, err := strconv.ParseUint(off, 10, 64)
		if err != nil {
			return nil, err
		}
		at += n
	}
	if at%4 != 0 || at+4 > uint64(len(space)) {
		return nil, fmt.Errorf("address %d of %d", at, len(space))
	}
	return space[at : at+4], nil
}

func (m *machine) step(th *thread, i instruction) error {
	space := m.memory
	if strings.Contains(i.op, ".shared") {
		space = m.tile
	}
	switch i.op {
	case "ld.param.u64", "ld.param.u32":
		v, ok := m.params[strings.Trim(i.args[1], "[]")]
		if !ok {
			return fmt.Errorf("no parameter")
		}
		th.regs[i.args[0]] = v
		return nil
	case "ld.global.nc.f32", "ld.global.u32", "ld.shared.f32":
		p, err := m.address(th, i.args[1], space)
		if err != nil {
			return err
		}
		th.regs[i.args[0]] = uint64(binary.LittleEndian.Uint32(p))
		return nil
	case "st.global.f32", "st.global.u32", "st.shared.f32", "red.global.add.u32", "red.global.min.u32":
		p, err := m.address(th, i.args[0], space)
		if err != nil {
			return err
		}
		v, err := m.value(th, i.args[1])
		if err != nil {
			return err
		}
		word, old := uint32(v), binary.LittleEndian.Uint32(p)
		switch i.op {
		case "red.global.add.u32":
			word += old
		case "red.global.min.u32":
			word = min(word, old)
		}
		binary.LittleEndian.PutUint32(p, word)
		return nil
	}
	in := make([]uint64, 0, 3)
	for _, a := range i.args[1:] {
		v, err := m.value(th, a)
		if err != nil {
			return err
		}
		in = append(in, v)
	}
	v, err := compute(i.op, in)
	if err != nil {
		return err
	}
	th.regs[i.args[0]] = v
	return nil
}

func compute(op string, v []uint64) (uint64, error) {
	truth := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	lo := func(i int) uint32 { return uint32(v[i]) }
	switch op {
	case "mov.u32", "mov.f32", "cvt.u64.u32", "cvt.u32.u64":
		return uint64(lo(0)), nil
	case "mov.u64", "cvta.to.global.u64":
		return v[0], nil
	case "add.u32":
		return uint64(lo(0) + lo(1)), nil
	case "add.u64":
		return v[0] + v[1], nil
	case "mul.lo.u32":
		return uint64(lo(0) * lo(1)), nil
	case "mul.wide.u32":
		return uint64(lo(0)) * uint64(lo(1)), nil
	case "mad.lo.u32":
		return uint64(lo(0)*lo(1) + lo(2)), nil
	case "mad.lo.u64":
		return v[0]*v[1] + v[2], nil
	case "and.b32":
		return uint64(lo(0) & lo(1)), nil
	case "xor.b32":
		return uint64(lo(0) ^ lo(1)), nil
	case "shl.b32":
		return uint64(lo(0) << lo(1)), nil
	case "shl.b64":
		return v[0] << lo(1), nil
	case "shr.u32":
		return uint64(lo(0) >> lo(1)), nil
	case "shr.u64":
		return v[0] >> lo(1), nil
	case "setp.lt.u32":
		return truth(lo(0) < lo(1)), nil
	case "setp.ge.u32":
		return truth(lo(0) >= lo(1)), nil
	case "setp.eq.u32":
		return truth(lo(0) == lo(1)), nil
	case "fma.rn.f32":
		a, b, c := math.Float32frombits(lo(0)), math.Float32frombits(lo(1)), math.Float32frombits(lo(2))
		// Exact in float64 for the small whole numbers of these tests.
		return uint64(math.Float32bits(float32(float64(a)*float64(b) + float64(c)))), nil
	}
	return 0, fmt.Errorf("an instruction that is not known")
}

// The hand-written text multiplies: run without a card, for one tile and for
// several.
func TestMultiplyTextInterpreted(t *testing.T) {
	for _, n := range []int{80, 160} {
		const start = 256
		size := 4 * n * n
		memory := make([]byte, start+3*size)
		put := func(at int, v float32) { binary.LittleEndian.PutUint32(memory[at:], math.Float32bits(v)) }
		a := func(i, k int) float32 { return float32((i*7+k*3)%23 - 11) }
		b := func(k, j int) float32 { return float32((k*5+j*11)%19 - 9) }
		for i := range n {
			for j := range n {
				put(start+4*(i*n+j), a(i, j))
				put(start+size+4*(i*n+j), b(i, j))
				put(start+2*size+4*(i*n+j), float32(math.NaN()))
			}
		}
		m := load(t, "multiply", []uint64{start, uint64(start + size), uint64(start + 2*size), uint64(n)}, memory)
		m.run(t, [2]int{n / 80, n / 80}, [2]int{16, 16})
		for i := range n {
			for j := range n {
				var want float32
				for k := range n {
					want += a(i, k) * b(k, j)
				}
				if got := math.Float32frombits(binary.LittleEndian.Uint32(memory[start+2*size+4*(i*n+j):])); got != want {
					t.Fatalf("size %d, row %d, column %d: %g, want %g", n, i, j, got, want)
				}
			}
		}
	}
}

func TestPatternTextInterpreted(t *testing.T) {
	word := func(i uint64, mode, arg uint32) uint32 {
		lo, hi := uint32(i), uint32(i>>32)
		x := lo ^ hi*0x9E3779B9
		switch mode {
		case 1:
			return 1 << ((lo + arg) & 31)
		case 2:
			x += arg * 0x85EBCA6B
			x ^= x >> 16
			x *= 0x7FEB352D
			x ^= x >> 15
			x *= 0x846CA68B
			return x ^ x>>16
		}
		return x ^ arg
	}
	const start, words, base, found = 256, 1000, uint64(3)<<32 - 500, 64
	for mode := range uint32(3) {
		for _, arg := range []uint32{0, 5, math.MaxUint32} {
			memory := make([]byte, start+4*words+4)
			m := load(t, "fill", []uint64{start, words, base, uint64(mode), uint64(arg)}, memory)
			m.run(t, [2]int{2, 1}, [2]int{256, 1})
			for i := range uint64(words) {
				if got, want := binary.LittleEndian.Uint32(memory[start+4*i:]), word(base+i, mode, arg); got != want {
					t.Fatalf("mode %d, arg %d, word %d: %#x, want %#x", mode, arg, i, got, want)
				}
			}
			if v := binary.LittleEndian.Uint32(memory[start+4*words:]); v != 0 {
				t.Fatalf("written beyond the end: %#x", v)
			}
			look := func() (wrong, first uint32) {
				binary.LittleEndian.PutUint32(memory[found:], 0)
				binary.LittleEndian.PutUint32(memory[found+4:], math.MaxUint32)
				m := load(t, "inspect", []uint64{start, words, base, uint64(mode), uint64(arg), found}, memory)
				m.run(t, [2]int{2, 1}, [2]int{256, 1})
				return binary.LittleEndian.Uint32(memory[found:]), binary.LittleEndian.Uint32(memory[found+4:])
			}
			if wrong, first := look(); wrong != 0 || first != math.MaxUint32 {
				t.Fatalf("mode %d: %d wrong, first %d", mode, wrong, first)
			}
			memory[start+4*317] ^= 4
			memory[start+4*900+2] ^= 1
			if wrong, first := look(); wrong != 2 || first != 317 {
				t.Fatalf("mode %d: two words changed, %d wrong, first %d", mode, wrong, first)
			}
		}
	}
}
