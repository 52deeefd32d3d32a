package verify

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lazy is an accelerator that works until it has been told to run more often
// than it likes.
type lazy struct{ left int }

type lazyMemory struct{ b []byte }

func (m *lazyMemory) Write(p []byte) error { copy(m.b, p); return nil }
func (m *lazyMemory) Read(p []byte) error  { copy(p, m.b); return nil }
func (m *lazyMemory) Free() error          { return nil }

func (*lazy) Alloc(n int) (memory, error) { return &lazyMemory{make([]byte, n)}, nil }
func (*lazy) Free() (free, piece uint64)  { return 0, 0 }
func (*lazy) Close() error                { return nil }

func (l *lazy) Run(_ string, n int, args ...any) (time.Duration, error) {
	if l.left--; l.left >= 0 {
		m := func(i int) *lazyMemory { return args[i].(*lazyMemory) }
		copy(m(2).b, toBytes(cpuProduct(fromBytes(m(0).b), fromBytes(m(1).b), n)))
	}
	return time.Microsecond, nil
}

// gonum, which sums in another order, has the same bits as the whole numbers of
// testdata/golden.py.
func TestGonumHasTheGoldenHash(t *testing.T) {
	for n, want := range golden {
		if n == Size && testing.Short() {
			continue
		}
		a, b := Inputs(GoldenSeed, n)
		c := cpuProduct(a, b, n)
		if got := Hash(c); got != want {
			t.Errorf("%d: hash %s, want %s", n, got, want)
		}
		if err := CheckProduct(GoldenSeed, n, c); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestInputsAreExact(t *testing.T) {
	a, b := Inputs(GoldenSeed, 80)
	least, most := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, m := range [][]float32{a, b} {
		for _, v := range m {
			k := v * one
			if k != float32(math.Trunc(float64(k))) || k < -limit || k > limit {
				t.Fatalf("element %g is not k/256 with |k| ≤ 91", v)
			}
			least, most = min(least, k), max(most, k)
		}
	}
	if least != -limit || most != limit {
		t.Errorf("numerators from %g to %g, want all of ±91", least, most)
	}
	if Size*limit*limit >= 1<<24 {
		t.Error("partial sums are not exact")
	}
}

func TestSplitmixVectors(t *testing.T) {
	// The published outputs for seed 1234567.
	g := splitmix(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := g.next(); got != want {
			t.Errorf("output %d is %d, want %d", i, got, want)
		}
	}
}

func TestFreivaldsCatchesAnyChange(t *testing.T) {
	const n = 80
	a, b := Inputs(7, n)
	right := cpuProduct(a, b, n)
	rapid.Check(t, func(t *rapid.T) {
		c := append([]float32(nil), right...)
		changed := false
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			i := rapid.IntRange(0, n*n-1).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "how") {
			case 0: // by the least step
				c[i] += float32(rapid.SampledFrom([]int{-1, 1}).Draw(t, "sign")) / (one * one)
			case 1: // a flipped bit
				c[i] = math.Float32frombits(math.Float32bits(c[i]) ^ 1<<rapid.IntRange(0, 31).Draw(t, "bit"))
			case 2:
				c[i] = float32(math.NaN())
			case 3: // two elements exchanged
				j := rapid.IntRange(0, n*n-1).Draw(t, "with")
				c[i], c[j] = c[j], c[i]
			}
		}
		for i := range c {
			// Zero has two signs and one value.
			changed = changed || c[i] != right[i]
		}
		if err := CheckProduct(7, n, c); (err != nil) != changed {
			t.Fatalf("changed %v, error %v", changed, err)
		}
	})
	if CheckProduct(8, n, right) == nil {
		t.Error("the product of another seed was taken")
	}
	if CheckProduct(7, n, right[1:]) == nil || CheckProduct(7, 81, right) == nil {
		t.Error("a product of another size was taken")
	}
}

func TestFieldArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		a, b := r.Uint64N(mersenne), r.Uint64N(mersenne)
		// Double and add, the long way.
		want := uint64(0)
		for i := 60; i >= 0; i-- {
			want = add(want, want)
			if b>>i&1 == 1 {
				want = add(want, a)
			}
		}
		if got := mul(a, b); got != want {
			t.Fatalf("%d·%d is %d, want %d", a, b, got, want)
		}
	}
	if mul(mersenne-1, mersenne-1) != 1 || add(mersenne-1, 1) != 0 {
		t.Error("(−1)² is not 1, or −1 + 1 is not 0")
	}
}
