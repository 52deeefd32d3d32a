package notary

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// runMeanwhile runs a notary on a topic that goes on, acts when all is done, and
// stops it when all is done again.
func runMeanwhile(t *testing.T, o Options, m *memory, act func()) *Notary {
	t.Helper()
	m.follow, o.LookInterval = true, 5*time.Millisecond
	n := mustOpen(t, o)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, m) }()
	handled := func() bool {
		ranges, _ := m.Partitions(ctx)
		n.m.mu.Lock()
		defer n.m.mu.Unlock()
		for p, r := range ranges {
			if n.m.handled[p] < r.End || n.m.ends[p] < r.End {
				return false
			}
		}
		return true
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for k := 0; !is(); k++ {
			if k > 20_000 {
				t.Fatalf("never: %s", what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until("all is done", handled)
	act()
	until("all is done again", handled)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return n
}

// A key is stolen and revoked. The thief has the broker's operator write down an
// earlier time for what is signed now: it was not there then, and the notary, who
// had looked, says so. Over a stop, too.
func TestABackdatedStatementOfARevokedKey(t *testing.T) {
	dir, m := t.TempDir(), newMemory(1)
	_, k := nodeKey("node-0")
	m.put(0, keyRecord(k), runRecord("node-0", 0))
	v := must(ledger.StateRevocation(t.Context(), k, held("authority"), epoch.Add(2*time.Second), "stolen", ledger.RevocationOptions{ID: newID(), Now: epoch}))
	m.put(0, ledger.Record{ID: v.Stamp.ID, Kind: ledger.KindEnvelope, Node: v.Node, Value: v.Envelope})
	forge := func() {
		m.clock = epoch.Add(time.Second)
		m.put(0, runRecord("node-0", 0))
	}
	o := options(t, dir)
	o.Now = func() time.Time { return epoch.Add(time.Hour) }
	n := runMeanwhile(t, o, m, forge)
	want := func(in Incoming) bool { return in.Offset < 3 }
	wantLogged(t, dir, m, want)
	if n.m.refused[ReasonClock] != 1 {
		t.Errorf("refused %v", n.m.refused)
	}

	forge() // while nobody looks
	n = mustNotarise(t, o, stopsAtItsEnd(m))
	wantLogged(t, dir, m, want)
	if n.m.refused[ReasonClock] != 1 {
		t.Errorf("after a stop: refused %v", n.m.refused)
	}
	got := refusedIn(t, dir)
	if len(got) != 2 || !strings.Contains(got[1].Why, "was not in the topic at") {
		t.Errorf("refused %+v", got)
	}

	// Who has lost positions.json knows of no look: what is refused then is refused
	// for other reasons, or not at all. The threat model says so.
	os.Remove(filepath.Join(dir, "positions.json"))
	n = mustNotarise(t, o, stopsAtItsEnd(m))
	if n.m.refused[ReasonClock] != 0 {
		t.Errorf("without a look: refused %v", n.m.refused)
	}
}

func stopsAtItsEnd(m *memory) *memory {
	m.follow = false
	return m
}

// A clock that is off by less than the bound refuses nothing.
func TestClocksThatDifferALittle(t *testing.T) {
	for _, by := range []time.Duration{-9 * time.Minute, 9 * time.Minute} {
		dir, m := t.TempDir(), filled(1, 2)
		o := options(t, dir)
		o.Now = func() time.Time { return m.clock.Add(by) }
		mustNotarise(t, o, m)
		wantLogged(t, dir, m, envelopes)
	}
}

func TestLooks(t *testing.T) {
	at := func(k int) time.Time { return epoch.Add(time.Duration(k) * time.Second) }
	var l looks
	if !l.before(0, 5).IsZero() {
		t.Error("something is known of a partition that nobody looked at")
	}
	for k, end := range []int64{10, 10, 25, 40} {
		l.see(map[int32]Range{0: {0, end}}, at(k))
	}
	for offset, want := range map[int64]time.Time{9: {}, 10: at(1), 24: at(1), 25: at(2), 39: at(2), 40: at(3), 99: at(3)} {
		if got := l.before(0, offset); !got.Equal(want) {
			t.Errorf("offset %d: %v, want %v", offset, got, want)
		}
	}
	l.passed([]Incoming{{Position: ledger.Position{Offset: 30}}})
	if got := fmt.Sprint(len(l.of[0]), l.before(0, 31).Equal(at(2)), l.before(0, 24).IsZero()); got != "2 true true" {
		t.Errorf("after 30: %s", got)
	}
	for k := range 2 * maxLooks {
		l.see(map[int32]Range{0: {0, int64(100 + k)}}, at(10+k))
	}
	if n := len(l.of[0]); n != maxLooks {
		t.Errorf("%d looks are kept", n)
	}
	var other looks
	other.take(l.last())
	if got := other.last(); got[0] != l.last()[0] {
		t.Errorf("taken over as %v", got)
	}
}
