package notary

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay/ledger"
)

func TestEachRecordIsLoggedOnce(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir, m := t.TempDir(), filled(3, 200)
	n := mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, envelopes)
	if n.m.logged != 603 || n.m.events != 3+3*40 || len(n.m.refused) > 0 {
		t.Errorf("logged %d, events %d, refused %v", n.m.logged, n.m.events, n.m.refused)
	}

	// A second start has nothing to do, and a third only what is new.
	n = mustNotarise(t, options(t, dir), m)
	if n.m.logged != 0 || n.m.again > 3*100 {
		t.Errorf("logged %d, read %d again", n.m.logged, n.m.again)
	}
	m.put(1, runRecord("node-1", 1), eventRecord("node-1"))
	n = mustNotarise(t, options(t, dir), m)
	if n.m.logged != 1 {
		t.Errorf("logged %d", n.m.logged)
	}
	wantLogged(t, dir, m, envelopes)
}

func TestItFollowsUntilItIsStopped(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir, m := t.TempDir(), filled(2, 10)
	m.follow = true
	n, err := Open(t.Context(), options(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx, m) }()
	for i := range 5 {
		m.put(int32(i%2), runRecord(fmt.Sprintf("node-%d", i%2), 0))
		time.Sleep(10 * time.Millisecond)
	}
	waitFor(t, func() bool { size, _ := n.m.grew(); return size == 27 })
	if err := n.Trouble(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n.Trouble() == nil {
		t.Error("a notary that was stopped is well")
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wantLogged(t, dir, m, envelopes)
	if p, err := readPositions(dir); err != nil || p.Size != 27 {
		t.Errorf("positions.json: %+v, %v", p, err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come about in ten seconds")
}

func TestAFeedThatFailsLosesNothing(t *testing.T) {
	dir, m := t.TempDir(), filled(2, 50)
	m.batch = 7
	for k := 1; ; k += 13 {
		m.fail, m.failAt = errors.New("the network is gone"), k
		_, err := notarise(t, options(t, dir), m)
		if err == nil {
			break
		}
		if !errors.Is(err, m.fail) {
			t.Fatal(err)
		}
	}
	wantLogged(t, dir, m, envelopes)
}

func TestOneNotaryADirectory(t *testing.T) {
	dir := t.TempDir()
	n, err := Open(t.Context(), options(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), options(t, dir))
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %q", fmt.Sprint(os.Getpid()))) {
		t.Errorf("got %v; want who holds it", err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	n, err = Open(t.Context(), options(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	n.Close(t.Context())
}

func TestAnotherOriginIsAnotherLog(t *testing.T) {
	dir := t.TempDir()
	mustNotarise(t, options(t, dir), filled(1, 3))
	o := options(t, dir)
	o.Signer = must(ledger.NoteSigner(context.Background(), "example.org/other", held("log")))
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrOtherLog) {
		t.Errorf("got %v", err)
	}
	o = options(t, dir)
	o.Topic = "other"
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrOtherLog) {
		t.Errorf("got %v", err)
	}
}

func TestALogBehindItsCheckpointStops(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 3)
	mustNotarise(t, options(t, dir), m)
	state := filepath.Join(dir, "log", ".state", "treeState")
	old, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	m.put(0, runRecord("node-0", 0))
	mustNotarise(t, options(t, dir), m)
	if err := os.WriteFile(state, old, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), options(t, dir)); !errors.Is(err, ErrRolledBack) {
		t.Errorf("got %v", err)
	}
}

func TestTakenAwayRecordsStopIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*memory)
		want   error
	}{
		{"truncated", func(m *memory) { m.topic[1] = m.topic[1][:4] }, ErrTruncated},
		{"made anew and shorter", func(m *memory) { m.topic[1] = nil }, ErrTruncated},
		{"partition gone", func(m *memory) { delete(m.topic, 1) }, ErrTruncated},
		{"deleted unread", func(m *memory) {
			m.put(1, runRecord("node-1", 0), runRecord("node-1", 0))
			k := len(m.topic[1]) - 1
			m.start[1], m.topic[1] = int64(k), m.topic[1][k:]
		}, ErrDeleted},
		{"deleted after it was read", func(m *memory) {
			m.start[1], m.topic[1] = int64(len(m.topic[1])), nil
		}, nil},
		{"made anew and as long", func(m *memory) {
			other := filled(2, 60)
			m.topic[1] = other.topic[1]
		}, ErrRewritten},
		{"last record rewritten", func(m *memory) {
			m.topic[1][len(m.topic[1])-1].Record = runRecord("node-1", 0)
		}, ErrRewritten},
		{"last record at another time", func(m *memory) {
			last := &m.topic[1][len(m.topic[1])-1]
			last.Time = last.Time.Add(time.Millisecond)
		}, ErrRewritten},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, m := t.TempDir(), filled(2, 9)
			mustNotarise(t, options(t, dir), m)
			c.change(m)
			n, err := notarise(t, options(t, dir), m)
			if !errors.Is(err, c.want) || (c.want == nil && err != nil) {
				t.Errorf("got %v; want %v", err, c.want)
			}
			if n != nil && n.m.logged != 0 {
				t.Errorf("it logged %d", n.m.logged)
			}
		})
	}
}

func TestANewLogBeginsWhereTheTopicDoes(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 9)
	m.start[0] = 3
	for i := range m.topic[0] {
		m.topic[0][i].Offset += 3
	}
	mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, envelopes)
	mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, envelopes)
}

func TestPartitionsThatAreAddedAreRead(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 10)
	m.follow = true
	o := options(t, dir)
	o.LookInterval = 10 * time.Millisecond
	n := mustOpen(t, o)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx, m) }()
	waitFor(t, func() bool { size, _ := n.m.grew(); return size == 11 })
	more := filled(3, 4)
	m.put(1, more.topic[1][1].Record, more.topic[1][2].Record)
	m.put(0, runRecord("node-0", 0))
	waitFor(t, func() bool { size, _ := n.m.grew(); return size == 14 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wantLogged(t, dir, m, envelopes)
}
