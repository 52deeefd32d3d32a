package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"

	"github.com/assay-bench/assay/ledger"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("OUTBOX_CHILD"); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// id makes the ids of tests: counted, not timed.
func id(n int) (u ulid.ULID) {
	binary.BigEndian.PutUint64(u[8:], uint64(n)+1)
	return u
}

func number(r ledger.Record) int { return int(binary.BigEndian.Uint64(r.ID[8:])) - 1 }

func record(n, size int) ledger.Record {
	kind := ledger.KindEvent
	if n%2 == 0 {
		kind = ledger.KindEnvelope
	}
	v := []byte(fmt.Sprintf("value %d ", n))
	for len(v) < size {
		v = append(v, byte('a'+len(v)%26))
	}
	return ledger.Record{ID: id(n), Kind: kind, Node: fmt.Sprintf("node-%d", n%3), Value: v[:max(size, 1)]}
}

func records(from, n, size int) []ledger.Record {
	rs := make([]ledger.Record, n)
	for i := range rs {
		rs[i] = record(from+i, size)
	}
	return rs
}

// memory is a sink that keeps what it gets, and fails when told to.
type memory struct {
	mu   sync.Mutex
	got  []ledger.Record
	fail error
	take int // of a failing call, so many are taken all the same
	// answer gives the outcomes of a call; nil: all are taken.
	answer func(rs []ledger.Record) []Outcome
}

func (m *memory) Deliver(_ context.Context, rs []ledger.Record) ([]Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		m.got = append(m.got, rs[:min(m.take, len(rs))]...)
		return nil, m.fail
	}
	m.got = append(m.got, rs...)
	if m.answer != nil {
		return m.answer(rs), nil
	}
	return AllTaken(len(rs)), nil
}

func (m *memory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memory) numbers() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ns []int
	for _, r := range m.got {
		ns = append(ns, number(r))
	}
	return ns
}

type words struct {
	mu   sync.Mutex
	said []string
}

func (w *words) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, string(line))
	return len(line), nil
}

// log collects each line in w.
func (w *words) log() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func (w *words) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func testOptions(dir string) Options {
	return Options{Dir: dir, MaxBytes: 4 << 20, Retry: time.Millisecond, RetryMax: 5 * time.Millisecond, Scan: 20 * time.Millisecond}
}

func mustOpen(t testing.TB, o Options) *Outbox {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// start runs an outbox until the test, or stop, ends it.
func start(t testing.TB, o *Outbox, s Sink, log *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx, s, log) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { stop() })
	return stop
}

func add(t testing.TB, o *Outbox, rs ...ledger.Record) {
	t.Helper()
	if err := o.Add(context.Background(), rs...); err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, o *Outbox) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return o.Flush(ctx)
}

// drain delivers all that a directory holds to memory, as a new process would.
func drain(t testing.TB, o Options) (got []ledger.Record, said []string, err error) {
	t.Helper()
	var m memory
	var w words
	b := mustOpen(t, o)
	add(t, b, ledger.Record{ID: id(1 << 40), Kind: ledger.KindEvent, Node: "n", Value: []byte("last")})
	stop := start(t, b, &m, w.log())
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	err = stop()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	n := len(m.got) - 1
	if n < 0 || number(m.got[n]) != 1<<40 {
		t.Fatalf("what is added now must come last; got %v", m.numbers())
	}
	return m.got[:n], w.all(), err
}

func ints(from, n int) []int {
	var s []int
	for i := range n {
		s = append(s, from+i)
	}
	return s
}

func numbersOf(rs []ledger.Record) []int {
	var ns []int
	for _, r := range rs {
		ns = append(ns, number(r))
	}
	return ns
}

func TestRecordsArriveAsTheyWere(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
	}{
		{"from memory", func(*Options) {}},
		{"from the disk", func(o *Options) { o.MemoryBytes = -1 }},
		{"in small batches", func(o *Options) { o.BatchRecords, o.MemoryBytes = 3, 20_000 }},
		{"by bytes", func(o *Options) { o.BatchBytes, o.MemoryBytes = 1000, -1 }},
		{"in small segments", func(o *Options) { o.SegmentBytes = 1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := testOptions(filepath.Join(t.TempDir(), "a", "b"))
			tt.change(&o)
			b := mustOpen(t, o)
			want := records(0, 400, 2000)
			want[7].Value = make([]byte, ledger.MaxValue)
			want[8].Node = strings.Repeat("n", ledger.MaxNode)
			want[9].Value = want[9].Value[:1]
			want[10].Node = "n"
			var m memory
			for i := 0; i < 200; i += 10 {
				add(t, b, want[i:i+10]...)
			}
			if n, bytes := b.Pending(); n != 200 || bytes != Size(want[:200]...) {
				t.Errorf("%d records, %d bytes wait; want 200, %d", n, bytes, Size(want[:200]...))
			}
			stop := start(t, b, &m, nil)
			add(t, b, want[200:]...)
			if err := flush(t, b); err != nil {
				t.Fatal(err)
			}
			if n, bytes := b.Pending(); n != 0 || bytes != 0 {
				t.Errorf("%d records, %d bytes wait after a flush", n, bytes)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if len(m.got) != len(want) {
				t.Fatalf("got %d records, want %d", len(m.got), len(want))
			}
			for i, r := range m.got {
				w := want[i]
				if r.ID != w.ID || r.Kind != w.Kind || r.Node != w.Node || string(r.Value) != string(w.Value) {
					t.Fatalf("record %d is %v %s %q %.20q", i, r.ID, r.Kind, r.Node, r.Value)
				}
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(o.Dir, "0*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestModes(t *testing.T) {
	o := testOptions(filepath.Join(t.TempDir(), "box"))
	b := mustOpen(t, o)
	add(t, b, record(0, 10))
	filepath.Walk(o.Dir, func(path string, info os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return nil
	})
	open := t.TempDir()
	os.Chmod(open, 0o777)
	if _, err := Open(testOptions(open)); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that all may write to: %v", err)
	}
	if _, err := Open(Options{Dir: t.TempDir(), MaxBytes: 1000}); err == nil {
		t.Error("a limit of 1000 bytes was taken")
	}
}

func TestFailingSinkIsSaidOnceAndNothingIsLost(t *testing.T) {
	b := mustOpen(t, testOptions(t.TempDir()))
	m := memory{fail: errors.New("nobody answers"), take: 2}
	var w words
	stop := start(t, b, &m, w.log())
	add(t, b, records(0, 5, 100)...)
	deadline := time.Now().Add(10 * time.Second)
	for tries := 0; tries < 8 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		tries = len(m.numbers()) / 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := b.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "5 records") {
		t.Errorf("flush says %v", err)
	}
	m.set(nil)
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := m.numbers()
	if n := len(got); n < 5 || !slices.Equal(got[n-5:], ints(0, 5)) {
		t.Errorf("got %v", got)
	}
	said := w.all()
	if len(said) != 2 || !strings.Contains(said[0], `error="nobody answers" records=5`) || !strings.Contains(said[1], "again") {
		t.Errorf("said %q", said)
	}
}

func TestFullIsRefusedAndHoldsTheLimit(t *testing.T) {
	o := testOptions(t.TempDir())
	o.MaxBytes = 1 << 20
	b := mustOpen(t, o)
	room, err := b.Reserve(100_000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reserve(1 << 20); !errors.Is(err, ErrFull) {
		t.Fatalf("reserve too much: %v", err)
	}
	n := 0
	for ; ; n++ {
		err = b.Add(context.Background(), record(n, 5000))
		if err != nil {
			break
		}
		if n > 1000 {
			t.Fatal("it never fills up")
		}
	}
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), fmt.Sprintf("%d records", n)) || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("full says %v", err)
	}
	if want := (1<<20 - 100_000) / 5100; n < want {
		t.Errorf("full after %d records; at least %d fit", n, want)
	}
	for range 15 { // what was reserved is there
		if err := room.Add(context.Background(), record(n, 5000)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	room.Release()
	room.Release()
	if used, _ := filesIn(b.own.path); used > 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
	// Another process has no room either, and no new run may start.
	c := mustOpen(t, o)
	if _, err := c.Reserve(100_000); !errors.Is(err, ErrFull) {
		t.Errorf("another process reserves: %v", err)
	}
	var m memory
	start(t, b, &m, nil)
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.numbers(), ints(0, n)) {
		t.Errorf("got %v", m.numbers())
	}
	if r, err := c.Reserve(500_000); err != nil {
		t.Errorf("no room after all was delivered: %v", err)
	} else {
		r.Release()
	}
}

func TestAddRefusesWhatIsNoRecord(t *testing.T) {
	b := mustOpen(t, testOptions(t.TempDir()))
	bad := record(1, 10)
	bad.Value = nil
	if err := b.Add(context.Background(), record(0, 10), bad); !errors.Is(err, ledger.ErrRecord) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Add(ctx, record(0, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n, _ := b.Pending(); n != 0 {
		t.Errorf("%d wait", n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(context.Background(), record(0, 10)); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestManyAddersShareFsyncs(t *testing.T) {
	b := mustOpen(t, testOptions(t.TempDir()))
	var m memory
	start(t, b, &m, nil)
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			for i := range 40 {
				if err := b.Add(context.Background(), record(g*1000+i, 300)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	last := map[int]int{}
	for _, n := range m.numbers() {
		if at, ok := last[n/1000]; ok && n%1000 != at+1 {
			t.Fatalf("%d after %d", n, at)
		}
		last[n/1000] = n % 1000
	}
	if len(m.got) != 2000 {
		t.Errorf("got %d", len(m.got))
	}
}

func TestTakeOver(t *testing.T) {
	o := testOptions(t.TempDir())
	for i := range 3 { // three processes that end with records left
		b := mustOpen(t, o)
		add(t, b, records(10*i, 10, 50)...)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	alive := mustOpen(t, o)
	add(t, alive, record(99, 10))
	got, said, err := drain(t, o)
	if err != nil || len(said) > 0 {
		t.Fatal(err, said)
	}
	if want := ints(0, 30); !slices.Equal(numbersOf(got), want) {
		t.Errorf("got %v", numbersOf(got))
	}
	// A process that dies later is found too.
	var m memory
	b := mustOpen(t, o)
	start(t, b, &m, nil)
	if err := alive.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(m.numbers()) == 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if !slices.Equal(m.numbers(), []int{99}) {
		t.Errorf("got %v", m.numbers())
	}
}

// The names of sub-directories go up, whatever the clock does: records of a later
// process never come before those of an earlier one.
func TestClockSteppingBack(t *testing.T) {
	o := testOptions(t.TempDir())
	b := mustOpen(t, o)
	add(t, b, record(1, 10))
	b.Close()
	future, _ := ulid.New(ulid.Now()+1_000_000, strings.NewReader("0123456789"))
	if err := os.Rename(b.own.path, filepath.Join(o.Dir, future.String())); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, o)
	add(t, c, record(2, 10))
	c.Close()
	if filepath.Base(c.own.path) <= future.String() {
		t.Errorf("%s does not come after %s", c.own.path, future)
	}
	if got, _, err := drain(t, o); err != nil || !slices.Equal(numbersOf(got), []int{1, 2}) {
		t.Errorf("got %v, %v", numbersOf(got), err)
	}
}

func TestAcknowledgedIsNotSentAgain(t *testing.T) {
	o := testOptions(t.TempDir())
	o.BatchRecords = 10
	b := mustOpen(t, o)
	var m memory
	stop := start(t, b, &m, nil)
	add(t, b, records(0, 25, 100)...)
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	stop()
	add(t, b, records(25, 5, 100)...)
	b.Close()
	if got, _, err := drain(t, o); err != nil || !slices.Equal(numbersOf(got), ints(25, 5)) {
		t.Errorf("got %v, %v", numbersOf(got), err)
	}
}

func TestSecondRun(t *testing.T) {
	b := mustOpen(t, testOptions(t.TempDir()))
	var m memory
	start(t, b, &m, nil)
	add(t, b, record(0, 10))
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(context.Background(), &m, nil); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v", err)
	}
	if err := b.Close(); err != nil { // ends the first
		t.Fatal(err)
	}
	if err := b.Run(context.Background(), &m, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
