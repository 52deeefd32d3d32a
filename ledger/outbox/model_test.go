package outbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// machine is an outbox beside the plainest thing that it could be: a list of what
// was accepted.
type machine struct {
	t        *testing.T
	o        Options
	b        *Outbox
	sink     *memory
	stop     func() error
	accepted []int
	next     int
	heard    []int // of sinks of processes that crashed
	damaged  bool  // a byte was altered, and perhaps a record lost
}

func (m *machine) open() {
	b, err := Open(m.o)
	if err != nil {
		m.t.Fatal(err)
	}
	m.b, m.sink, m.stop = b, &memory{}, nil
}

func (m *machine) run() {
	if m.stop == nil {
		m.stop = start(m.t, m.b, m.sink, nil)
	}
}

// halt ends the process; what it left is in the directory.
func (m *machine) halt(t *rapid.T) {
	if m.stop != nil {
		if err := m.stop(); errors.Is(err, ErrDamaged) != m.damaged && err != nil {
			t.Fatalf("run: %v", err)
		}
	}
	if err := m.b.Close(); err != nil {
		t.Fatal(err)
	}
	m.heard = append(m.heard, m.sink.numbers()...)
}

// check: first arrivals are in the order of acceptance, and nothing is invented.
func (m *machine) check(t *rapid.T, all []int) (missing int) {
	var first []int
	seen := map[int]bool{}
	for _, n := range all {
		if !seen[n] {
			seen[n] = true
			first = append(first, n)
		}
	}
	if !slices.IsSorted(first) {
		t.Fatalf("out of order: %v", first)
	}
	for _, n := range first {
		if _, ok := slices.BinarySearch(m.accepted, n); !ok {
			t.Fatalf("%d was never accepted", n)
		}
	}
	return len(m.accepted) - len(first)
}

func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "box")
		if err != nil {
			rt.Fatal(err)
		}
		m := &machine{t: t, o: testOptions(dir)}
		m.o.MaxBytes = 32 << 20
		m.o.SegmentBytes = 1
		m.o.MemoryBytes = rapid.SampledFrom([]int64{-1, 20_000, 0}).Draw(rt, "memory")
		m.o.BatchRecords = rapid.IntRange(1, 20).Draw(rt, "batch")
		m.open()
		defer func() { m.b.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				rs := records(m.next, rapid.IntRange(1, 30).Draw(rt, "n"), rapid.IntRange(1, 9000).Draw(rt, "size"))
				if err := m.b.Add(context.Background(), rs...); err != nil {
					rt.Fatal(err)
				}
				m.next += len(rs)
				m.accepted = append(m.accepted, numbersOf(rs)...)
			},
			"deliver": func(rt *rapid.T) {
				m.sink.set(nil)
				m.run()
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if err := m.b.Flush(ctx); err != nil && !m.damaged {
					rt.Fatal(err)
				}
				if missing := m.check(rt, append(slices.Clone(m.heard), m.sink.numbers()...)); missing > 0 && !m.damaged {
					rt.Fatalf("%d are missing after a flush", missing)
				}
				if n, bytes := m.b.Pending(); n != 0 || bytes != 0 {
					rt.Fatalf("%d records, %d bytes wait after a flush", n, bytes)
				}
			},
			"fail": func(rt *rapid.T) {
				m.sink.mu.Lock()
				m.sink.fail, m.sink.take = errors.New("no"), rapid.IntRange(0, 5).Draw(rt, "taken")
				m.sink.mu.Unlock()
				m.run()
			},
			"crash": func(rt *rapid.T) {
				m.halt(rt)
				if segs, _ := filepath.Glob(filepath.Join(m.b.own.path, "*.seg")); len(segs) > 0 {
					r := record(0, 100)
					torn := appendFrame(nil, m.b.own.salt, &r)
					f, err := os.OpenFile(segs[len(segs)-1], os.O_WRONLY|os.O_APPEND, 0)
					if err != nil {
						rt.Fatal(err)
					}
					f.Write(torn[:rapid.IntRange(0, len(torn)-1).Draw(rt, "torn")])
					f.Close()
				}
				if rapid.Bool().Draw(rt, "position lost") {
					os.Remove(filepath.Join(m.b.own.path, ackedFile))
				}
				m.open()
			},
			"flip": func(rt *rapid.T) {
				if m.damaged {
					rt.Skip("once is enough")
				}
				m.halt(rt)
				if segs, _ := filepath.Glob(filepath.Join(m.b.own.path, "*.seg")); len(segs) > 0 {
					m.damaged = true
					edit(t, rapid.SampledFrom(segs).Draw(rt, "segment"), func(b []byte) []byte {
						b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
						return b
					})
				}
				m.open()
			},
		})
		m.halt(rt)
		got, _, err := drain(t, m.o)
		if err != nil && !m.damaged {
			rt.Fatal(err)
		}
		missing := m.check(rt, append(slices.Clone(m.heard), numbersOf(got)...))
		if missing > 1 || missing > 0 && !m.damaged {
			rt.Fatalf("%d of %d are missing", missing, len(m.accepted))
		}
	})
}
