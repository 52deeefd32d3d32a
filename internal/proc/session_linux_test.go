package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must come. It is never the result.
const patience = 2 * time.Minute

// raiser is a process with a raised priority, in the session of the test.
type raiser struct {
	cmd *exec.Cmd
	in  io.Closer
	got string // what it got
}

// serveRaise is that process.
func serveRaise(level string) {
	got, lower := Raise(Level(level), nil)
	fmt.Println(got.Session, got.Why)
	_, _ = io.Copy(io.Discard, os.Stdin)
	lower()
}

func startRaiser(t *testing.T) *raiser {
	t.Helper()
	cmd := exec.Command(os.Args[0], "raise", string(LevelHigh))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &raiser{cmd, in, strings.TrimSpace(line)}
}

func (r *raiser) end(t *testing.T) {
	t.Helper()
	_ = r.in.Close()
	if err := r.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// plain gives all threads of this process normal scheduling, whatever the tests
// were started with.
func plain(t *testing.T) {
	t.Helper()
	if err := (&raise{now: unix.SchedAttr{Policy: unix.SCHED_NORMAL}}).apply(); err != nil {
		t.Fatal(err)
	}
}

// becomes waits until the session has a nice value.
func becomes(t *testing.T, want int) {
	t.Helper()
	got := 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if got, _ = sessionNice(); got == want {
			return
		}
	}
	t.Fatalf("the session is at %d, not at %d", got, want)
}

// Whoever ends, in whatever way and order, the session is at last as it was.
func TestSessionIsGivenBack(t *testing.T) {
	before, ok := sessionNice()
	if os.Geteuid() != 0 || !ok {
		t.Skip("priorities of sessions need root, and a kernel that groups by session")
	}
	if aloneInSession(t) {
		return
	}
	before, _ = sessionNice()
	want := fmt.Sprint(highNice)
	t.Run("two at once", func(t *testing.T) {
		a := startRaiser(t)
		b := startRaiser(t)
		if a.got != want || b.got != want {
			t.Fatalf("they got %q and %q", a.got, b.got)
		}
		a.end(t)
		becomes(t, highNice) // the second raises it again
		b.end(t)
		becomes(t, before)
		if c := startRaiser(t); c.got != want {
			t.Errorf("then one got %q", c.got)
		} else {
			c.end(t)
		}
		becomes(t, before)
	})
	t.Run("the second first", func(t *testing.T) {
		a := startRaiser(t)
		b := startRaiser(t)
		b.end(t)
		if now, _ := sessionNice(); now != highNice {
			t.Errorf("the first one's session is at %d", now)
		}
		a.end(t)
		becomes(t, before)
	})
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGSEGV} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			a := startRaiser(t)
			becomes(t, highNice)
			_ = a.cmd.Process.Signal(sig)
			if err := a.cmd.Wait(); err == nil {
				t.Error("it lives")
			}
			becomes(t, before)
		})
	}
	t.Run("somebody else's value stays", func(t *testing.T) {
		a := startRaiser(t)
		if err := os.WriteFile(autogroupFile, []byte("5"), 0); err != nil {
			t.Fatal(err)
		}
		a.end(t)
		if now, _ := sessionNice(); now != 5 {
			t.Errorf("the session is at %d", now)
		}
		if err := os.WriteFile(autogroupFile, []byte(fmt.Sprint(before)), 0); err != nil {
			t.Fatal(err)
		}
	})
}

// A program that runs while we are raised has nothing of it: neither priority nor
// session nor the limit.
func TestProgramsInheritNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("priorities need root")
	}
	if aloneInSession(t) {
		return
	}
	plain(t)
	for _, level := range []Level{LevelNormal, LevelHigh, LevelRealtime} { // the last leaves a hard limit
		t.Run(string(level), func(t *testing.T) {
			got, lower := Raise(level, nil)
			defer lower()
			if got.Level != level {
				t.Skipf("not permitted here: %s", got.Why)
			}
			var out strings.Builder
			p, err := Start(Spec{
				Command: []string{"/bin/sh", "-c", "cat /proc/self/stat; grep realtime /proc/self/limits; cat /proc/self/autogroup"}, Stdout: &out,
				Supervisor: []string{os.Args[0], "supervise"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if e := p.Wait(); e.Code != 0 {
				t.Fatal(e)
			}
			text := out.String()
			fields := strings.Fields(text[strings.LastIndexByte(text, ')')+2:])
			if nice, priority, policy := fields[19-3], fields[40-3], fields[41-3]; nice != "0" || priority != "0" || policy != "0" {
				t.Errorf("nice %s, priority %s, policy %s", nice, priority, policy)
			}
			// The hard limit stays where we may not raise it.
			_, limit, _ := strings.Cut(text, "Max realtime timeout")
			if f := strings.Fields(limit); len(f) < 2 || f[0] != f[1] {
				t.Errorf("limits %s", limit)
			}
			if strings.Contains(text, "nice -") {
				t.Errorf("its session: %s", text)
			}
		})
	}
}
