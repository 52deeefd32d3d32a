package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
)

// printer is a sink, and tells what was accepted (A) and delivered (D), a line
// for each, before anybody relies on it.
type printer struct{ fail func() bool }

func tell(kind string, n int) error {
	_, err := fmt.Fprintf(os.Stdout, "%s %d\n", kind, n)
	return err
}

func (p printer) Deliver(_ context.Context, rs []ledger.Record) ([]Outcome, error) {
	out := AllTaken(len(rs))
	for i, r := range rs {
		if i == len(rs)/2 && p.fail() {
			return nil, errors.New("not now")
		}
		if err := tell("D", number(r)); err != nil {
			return nil, err
		}
		if number(r)%4 == 3 {
			out[i] = Outcome{Refused, "every fourth"}
		}
	}
	return out, nil
}

// child is the process that is killed, or whose system calls fail.
func child(dir string) {
	base, _ := strconv.Atoi(os.Getenv("OUTBOX_BASE"))
	o := testOptions(dir)
	o.MaxBytes, o.SegmentBytes, o.MemoryBytes = 64<<20, 1, 30_000
	b, err := Open(o)
	if err != nil {
		fmt.Println("E", err)
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if os.Getenv("OUTBOX_MODE") == "loop" {
		if base/1_000_000%2 == 0 {
			go b.Run(ctx, printer{func() bool { return rand.N(5) == 0 }}, nil)
		}
		loop(ctx, b, base)
	}
	calls := 0
	done := make(chan error, 1)
	go func() {
		done <- b.Run(ctx, printer{func() bool { calls++; return calls == 2 }}, slog.New(slog.NewTextHandler(os.Stdout, nil)))
	}()
	for n := base; n < base+9; n++ {
		for range 2 { // once more after an error, as a caller would
			if err := b.Add(ctx, record(n, 25_000)); err != nil {
				fmt.Println("E", err)
				continue
			}
			tell("A", n)
			break
		}
		if n == base+4 {
			flushed, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			if err := b.Flush(flushed); err != nil {
				fmt.Println("E", err)
			}
			cancel()
		}
	}
	cancel()
	if err := errors.Join(<-done, b.Close()); err != nil {
		fmt.Println("E", err)
	}
	os.Exit(0)
}

func loop(ctx context.Context, b *Outbox, base int) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := base + g*100_000; ctx.Err() == nil; n++ {
				if err := b.Add(ctx, record(n, rand.N(3000))); err == nil {
					tell("A", n)
				}
			}
		})
	}
	wg.Wait()
}

// heard is what children told.
type heard struct {
	accepted  map[int]bool
	delivered []int
}

func (h *heard) listen(out []byte) {
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 || !strings.HasSuffix(line, "\n") {
			continue
		}
		n, err := strconv.Atoi(f[1])
		switch {
		case err != nil:
		case f[0] == "A":
			h.accepted[n] = true
		case f[0] == "D":
			h.delivered = append(h.delivered, n)
		}
	}
}

// check holds what was accepted against what was delivered: all of it, and the
// records of each adder, which have a hundred thousand numbers, in their order.
func (h *heard) check(t *testing.T) {
	t.Helper()
	seen, last := map[int]bool{}, map[int]int{}
	for _, n := range h.delivered {
		if seen[n] {
			continue
		}
		seen[n] = true
		if at, ok := last[n/100_000]; ok && n < at {
			t.Errorf("%d was delivered after %d", n, at)
		}
		last[n/100_000] = n
	}
	lost := 0
	for n := range h.accepted {
		if !seen[n] {
			lost++
			if lost < 5 {
				t.Errorf("%d was accepted and not delivered", n)
			}
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d are lost", lost, len(h.accepted))
	}
}

func childCommand(t *testing.T, dir, mode string, base int, wrap ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(wrap, self)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "OUTBOX_CHILD="+dir, "OUTBOX_MODE="+mode, fmt.Sprint("OUTBOX_BASE=", base), "GOMAXPROCS=2",
		"GORACE=atexit_sleep_ms=0") // a second for each child otherwise
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	o := testOptions(filepath.Join(t.TempDir(), "box"))
	o.MaxBytes = 64 << 20
	h := heard{accepted: map[int]bool{}}
	for round := range 20 {
		cmd := childCommand(t, o.Dir, "loop", (round+1)*1_000_000)
		var out bytes.Buffer
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(pipe)
		if _, err := r.Peek(1); err != nil {
			t.Fatalf("the child told nothing: %v", err)
		}
		timer := time.AfterFunc(time.Duration(rand.N(60_000))*time.Microsecond, func() { cmd.Process.Kill() })
		out.ReadFrom(r)
		cmd.Wait()
		timer.Stop()
		h.listen(out.Bytes())
	}
	got, _, err := drain(t, o)
	if err != nil {
		t.Error(err) // a kill tears tails, and damages nothing
	}
	h.delivered = append(h.delivered, numbersOf(got)...)
	t.Logf("%d accepted, %d delivered by children, %d by us", len(h.accepted), len(h.delivered)-len(got), len(got))
	if len(h.accepted) < 100 {
		t.Errorf("only %d were accepted: nothing was tested", len(h.accepted))
	}
	h.check(t)
}

// Each call fails in turn, the first, the second and so on, until none is left to
// fail: whatever was told to be accepted is delivered.
func TestEachCallFailsInTurn(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		parttest.Need(t, "no strace")
	}
	for _, fault := range []string{
		"write:error=ENOSPC", "write:error=ENOSPC:+", "fsync:error=EIO", "fsync:error=EIO:+", "openat:error=EACCES", "openat:error=EMFILE:+",
		"unlinkat:error=EACCES", "unlinkat:error=EROFS:+", "ftruncate:error=EIO", "pwrite64:error=EIO", "pread64:error=EIO", "mkdirat:error=ENOSPC",
		"flock:error=ENOLCK", "getdents64:error=EIO", "newfstatat:error=EIO",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			call, _, _ := strings.Cut(fault, ":")
			what, lasting := strings.CutSuffix(fault, ":+")
			step := 1
			if lasting {
				step = 4
			}
			injected := 0
			for n := 1; ; n += step {
				when := strconv.Itoa(n)
				if lasting {
					when += "+"
				}
				hit := failOnce(t, strace, call, what+":when="+when)
				if !hit {
					break
				}
				injected++
				if n > 200 || t.Failed() {
					t.Fatalf("stopped at call %d", n)
				}
			}
			t.Logf("%d places", injected)
			if injected == 0 {
				t.Error("nothing was injected: nothing was tested")
			}
		})
	}
}

// failOnce runs a child with one fault, and reports whether it was met.
func failOnce(t *testing.T, strace, call, inject string) bool {
	t.Helper()
	tmp := t.TempDir()
	o := testOptions(filepath.Join(tmp, "box"))
	o.MaxBytes = 64 << 20
	h := heard{accepted: map[int]bool{}}
	b := mustOpen(t, o) // what a dead process left
	for n := range 3 {
		add(t, b, record(n, 25_000))
		h.accepted[n] = true
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(tmp, "trace")
	cmd := childCommand(t, o.Dir, "once", 1_000_000, strace, "-f", "-qq", "-o", trace, "-e", "trace="+call, "-e", "inject="+inject)
	out, _ := cmd.Output() // it may end as it likes
	h.listen(out)
	got, said, err := drain(t, o)
	if err != nil {
		t.Errorf("%s: %v", inject, err)
	}
	h.delivered = append(h.delivered, numbersOf(got)...)
	h.check(t)
	if t.Failed() {
		lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(s string) bool { return s == "" })
		t.Fatalf("%s: the child said:\n%s\nand we:\n%s", inject, strings.Join(lines, "\n"), strings.Join(said, "\n"))
	}
	b2, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	hit := bytes.Contains(b2, []byte("(INJECTED)"))
	if !hit && len(h.accepted) != 12 {
		t.Errorf("without a fault %d records were accepted of 12", len(h.accepted))
	}
	return hit
}

// Nothing is told to be accepted before its file, and the name of a new file, is
// synced. A kill cannot show this, only a power cut; the order of the calls does.
func TestSyncedBeforeAccepted(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		parttest.Need(t, "no strace")
	}
	tmp := t.TempDir()
	trace := filepath.Join(tmp, "trace")
	cmd := childCommand(t, filepath.Join(tmp, "box"), "once", 0, strace, "-f", "-qq", "-y", "-s", "16", "-o", trace, "-e", "trace=write,fsync")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`^(\d+) +(write|fsync)\((\d+)<([^>]*)>(.*)`)
	resumed := regexp.MustCompile(`^(\d+) +<\.\.\. fsync resumed>`)
	dirty, known, syncing := map[string]bool{}, map[string]bool{}, map[string]string{}
	accepted := 0
	for line := range strings.Lines(string(b)) {
		if m := resumed.FindStringSubmatch(line); m != nil {
			delete(dirty, syncing[m[1]])
			continue
		}
		m := call.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[2] == "fsync" && strings.Contains(m[5], "unfinished"):
			syncing[m[1]] = m[4]
		case m[2] == "fsync":
			delete(dirty, m[4])
		case strings.HasSuffix(m[4], ".seg"):
			dirty[m[4]] = true
			if !known[m[4]] {
				known[m[4]], dirty[filepath.Dir(m[4])] = true, true
			}
		case m[3] == "1" && strings.Contains(m[5], `"A `):
			accepted++
			if len(dirty) > 0 {
				t.Errorf("%s: not synced: %v", strings.TrimSpace(line), dirty)
			}
		}
	}
	if accepted != 9 || len(known) < 3 {
		t.Errorf("%d accepted in %d segments: nothing was tested", accepted, len(known))
	}
}
