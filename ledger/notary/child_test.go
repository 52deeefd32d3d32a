package notary

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// saved is a topic in a file, for a notary in a process of its own.
type saved struct {
	Topic map[int32][]savedRecord
	Batch int
	Pause time.Duration
}

type savedRecord struct {
	Time   time.Time
	Record ledger.Record
}

func save(t *testing.T, m *memory, path string) {
	t.Helper()
	s := saved{map[int32][]savedRecord{}, m.batch, m.pause}
	for p, rs := range m.topic {
		for _, in := range rs {
			s.Topic[p] = append(s.Topic[p], savedRecord{in.Time, in.Record})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(gob.NewEncoder(f).Encode(s), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func restore(path string) (*memory, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s saved
	if err := gob.NewDecoder(f).Decode(&s); err != nil {
		return nil, err
	}
	m := newMemory(0)
	m.batch, m.pause = s.Batch, s.Pause
	for p, rs := range s.Topic {
		for i, r := range rs {
			m.topic[p] = append(m.topic[p], Incoming{Position: ledger.Position{Topic: ledger.Topic, Partition: p, Offset: int64(i)}, Time: r.Time, Record: r.Record})
		}
	}
	return m, nil
}

// child is the notary in a process of its own: it exits 0 when the topic was read
// to its end, and 9 with the error when it stopped. It runs in two steps, so that
// a fault can be told from one before anything began.
func child(dir string) {
	err := func() error {
		m, err := restore(filepath.Join(dir, "feed.gob"))
		if err != nil {
			return err
		}
		o := options(nil, filepath.Join(dir, "notary"))
		o.BatchSize, _ = strconv.Atoi(os.Getenv("NOTARY_TEST_BATCH"))
		ctx := context.Background()
		fmt.Println("begin")
		n, err := Open(ctx, o)
		if err != nil {
			return err
		}
		if err := n.Run(ctx, m); err != nil {
			return err
		}
		fmt.Println("end", n.m.logged)
		return n.Close(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

func childCommand(t *testing.T, dir string, batch int, before ...string) *exec.Cmd {
	t.Helper()
	argv := append(before, os.Args[0])
	c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "NOTARY_TEST_CHILD="+dir, fmt.Sprintf("NOTARY_TEST_BATCH=%d", batch))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // strace and the child end together
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// A notary that is killed at any moment, again and again, logs each record once.
func TestKilledTwentyTimes(t *testing.T) {
	t.Parallel()
	kills, runs := 20, 300
	if os.Getenv("ASSAY_LONG") == "1" {
		kills, runs = 100, 10_000
	}
	dir := t.TempDir()
	m := filled(4, runs)
	double := map[ledger.Position]bool{}
	for p := range int32(4) { // the outbox sends twice
		for _, k := range []int{5, runs / 2, len(m.topic[p]) - 1} {
			double[ledger.Position{Topic: ledger.Topic, Partition: p, Offset: int64(len(m.topic[p]))}] = true
			m.put(p, m.topic[p][k].Record)
		}
	}
	m.batch, m.pause = 20, time.Millisecond
	save(t, m, filepath.Join(dir, "feed.gob"))
	chance := rand.New(rand.NewPCG(7, uint64(time.Now().UnixNano())))
	var sizes []uint64
	for k := 0; k < kills; {
		c := childCommand(t, dir, 48)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		if _, err := out.Read(one); err != nil { // it has begun
			t.Fatal(err)
		}
		if k%2 == 1 { // half of the kills come after something was logged
			was := treeSize(t, dir)
			for i := 0; i < 500 && treeSize(t, dir) == was; i++ {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Duration(chance.IntN(60_000)) * time.Microsecond)
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		err = c.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() >= 0 {
			t.Fatalf("it ended by itself: %v", err)
		}
		if err == nil { // it was done: more to do
			for p := range int32(4) {
				for range 300 {
					m.put(p, runRecord(fmt.Sprintf("node-%d", p), 0))
				}
			}
			save(t, m, filepath.Join(dir, "feed.gob"))
			continue
		}
		k++
		sizes = append(sizes, treeSize(t, dir))
		if k%5 == 0 { // and once in a while with files lost
			os.Remove(filepath.Join(dir, "notary", []string{"ids", "positions.json"}[k/5%2]))
		}
	}
	t.Logf("size after each kill: %d", sizes)
	if first, last := sizes[0], sizes[len(sizes)-1]; last == first {
		t.Error("nothing was logged between the kills: the test shows nothing")
	}
	m.pause = 0
	save(t, m, filepath.Join(dir, "feed.gob"))
	if out, err := childCommand(t, dir, 48).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantLogged(t, filepath.Join(dir, "notary"), m, func(in Incoming) bool { return envelopes(in) && !double[in.Position] })
	fsck(t, filepath.Join(dir, "notary"))
}

func treeSize(t *testing.T, dir string) uint64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "notary", "log", ".state", "treeState"))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	var size uint64
	if _, err := fmt.Sscanf(string(b), `{"size":%d`, &size); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return size
}
