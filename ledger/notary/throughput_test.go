package notary

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"

	"github.com/assay-bench/assay/ledger"
	ourtlog "github.com/assay-bench/assay/ledger/tlog"
)

// bare is Tessera with the notary's settings and nothing before it: entries are
// made beforehand, and added as fast as it takes them.
func bare(t *testing.T, entries [][]byte, batch int) time.Duration {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	driver, err := posix.New(ctx, posix.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a, _, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().WithCheckpointSigner(logSigner()).
		WithBatching(uint(batch), 100*time.Millisecond).WithCheckpointInterval(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	futures := make([]tessera.IndexFuture, len(entries))
	for i, e := range entries {
		futures[i] = a.Add(ctx, tessera.NewEntry(e))
	}
	for _, f := range futures {
		if _, err := f(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(begin)
}

// cpuTime is what this process has used: a figure that a busy machine spoils less
// than it does the clock's.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// withoutChecks is the notary behind its checks: entries are made as in bare, and
// batched, logged, written down and saved as ever.
func withoutChecks(t *testing.T, ins []Incoming, batch int) time.Duration {
	t.Helper()
	o := options(t, t.TempDir())
	o.BatchSize, o.BatchAge, o.CheckpointInterval, o.SaveInterval = batch, 100*time.Millisecond, 5*time.Second, 5*time.Second
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.release()
	begin := time.Now()
	out := make(chan []checked, 4)
	go func() {
		defer close(out)
		for len(ins) > 0 {
			cs := make([]checked, min(len(ins), batch))
			for i, in := range ins[:len(cs)] {
				e := ledger.Entry{Position: in.Position, Time: in.Time, ID: in.Record.ID, Envelope: in.Record.Value}
				cs[i] = checked{partition: in.Partition, offset: in.Offset, fate: toBeLogged, mark: ourtlog.MarkOf(in.Record.ID, in.Record.Value), entry: tessera.NewEntry(e.Encode())}
			}
			ins = ins[len(cs):]
			out <- cs
		}
	}()
	if err := n.appendAll(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if err := n.save(); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

// Entries a second with everything that a notary does, against bare Tessera on
// the same records in the same minute.
func TestThroughput(t *testing.T) {
	records, rounds, strict := 1024, 1, os.Getenv("ASSAY_LONG") == "1"
	if strict {
		records, rounds = 40_960, 3
	}
	const batch = 1024
	_, k := nodeKey("node-0")
	m := newMemory(1)
	m.put(0, keyRecord(k))
	made := make([]ledger.Record, records-1)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < len(made); i += 4 {
				made[i] = runRecord("node-0", 6)
			}
		})
	}
	wg.Wait()
	m.put(0, made...)
	m.batch = 2000
	entries := make([][]byte, records)
	for i, in := range m.topic[0] {
		entries[i] = ledger.Entry{Position: in.Position, Time: in.Time, ID: in.Record.ID, Envelope: in.Record.Value}.Encode()
	}
	rate := func(d time.Duration) float64 { return float64(records) / d.Seconds() }
	var ours, theirs, unchecked float64
	for range rounds { // the best of them, in turn: the machine has other things to do
		theirs = max(theirs, rate(bare(t, entries, batch)))
		o := options(t, t.TempDir())
		o.BatchSize, o.BatchAge, o.CheckpointInterval, o.SaveInterval = batch, 100*time.Millisecond, 5*time.Second, 5*time.Second
		n, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := n.Run(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ours = max(ours, rate(time.Since(begin)))
		if n.size != uint64(records) {
			t.Fatalf("%d entries of %d", n.size, records)
		}
		n.release()
		unchecked = max(unchecked, rate(withoutChecks(t, m.topic[0], batch)))
	}
	begin := time.Now()
	n := checker(options(t, ""))
	if n.o.Keys.Add(k.Envelope, time.Time{}) != nil {
		t.Fatal("the key is not taken")
	}
	cpu := cpuTime(t)
	done := n.check(t.Context(), m.topic[0])
	cpu = cpuTime(t) - cpu
	checks := rate(time.Since(begin))
	for _, c := range done {
		if c.fate != toBeLogged {
			t.Fatalf("%+v", c)
		}
	}
	fmt.Printf("notary: %.0f entries/s of %d bytes; bare Tessera %.0f/s, ratio %.2f; checks alone %.0f/s at %.0f µs of CPU; without checks %.0f/s, ratio %.2f\n",
		ours, len(entries[1]), theirs, ours/theirs, checks, float64(cpu.Microseconds())/float64(records), unchecked, unchecked/theirs)
	if strict && !(ours >= 1000) {
		t.Errorf("%.0f entries/s; 1,000 are promised", ours)
	}
	// Two cores check fewer signatures than Tessera takes entries: what can be held
	// to 0.7 is each half for itself, and both together to the slower one.
	if strict && !(unchecked/theirs >= 0.7 && ours >= 0.7*min(checks, unchecked)) {
		t.Error("the notary is in the way")
	}
}

// BenchmarkCheck is what one statement costs in CPU time before it is appended:
// a figure that a busy machine spoils little.
func BenchmarkCheck(b *testing.B) {
	const records = 512
	_, k := nodeKey("node-0")
	for _, pad := range []int{6, 40} {
		m := newMemory(1)
		for range records {
			m.put(0, runRecord("node-0", pad))
		}
		b.Run(fmt.Sprintf("%d bytes", len(m.topic[0][0].Record.Value)), func(b *testing.B) {
			n := checker(options(nil, ""))
			if err := n.o.Keys.Add(k.Envelope, time.Time{}); err != nil {
				b.Fatal(err)
			}
			cpu := cpuTime(b)
			for b.Loop() {
				n.rewind()
				if c := n.check(b.Context(), m.topic[0]); c[records-1].fate != toBeLogged {
					b.Fatalf("%+v", c[records-1])
				}
			}
			b.ReportMetric(float64(cpuTime(b)-cpu)/float64(time.Microsecond)/float64(b.N*records), "cpu-µs/statement")
		})
	}
}
