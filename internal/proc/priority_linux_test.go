package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scheduling is what the kernel says of a thread: nice, real-time priority and
// policy.
type scheduling struct{ nice, priority, policy int }

func (s scheduling) String() string {
	return fmt.Sprintf("nice %d, priority %d, policy %d", s.nice, s.priority, s.policy)
}

func schedulingOf(t *testing.T, stat string) (scheduling, bool) {
	t.Helper()
	b, err := os.ReadFile(stat)
	if err != nil {
		return scheduling{}, false // it ended
	}
	f := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+2:])
	at := func(i int) int { // as proc(5) counts, from 3 for the state
		n, err := strconv.Atoi(f[i-3])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return scheduling{at(19), at(40), at(41)}, true
}

// threads gives what the kernel says of all threads of this process.
func threads(t *testing.T) []scheduling {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []scheduling
	for _, f := range files {
		if s, ok := schedulingOf(t, f); ok {
			out = append(out, s)
		}
	}
	return out
}

func child(t *testing.T) scheduling {
	t.Helper()
	b, err := exec.Command("cat", "/proc/self/stat").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stat")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := schedulingOf(t, file)
	return s
}

// newThreads makes threads that stay until the test ends.
func newThreads(t *testing.T, n int) {
	t.Helper()
	stop := make(chan struct{})
	var ready, ended sync.WaitGroup
	for range n {
		ready.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-stop
		})
	}
	ready.Wait()
	t.Cleanup(func() { close(stop); ended.Wait() })
}

func autogroup(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/autogroup")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// aloneInSession runs the test again in a session of its own, whose nice value
// nobody else changes. It reports false in that one.
func aloneInSession(t *testing.T) bool {
	t.Helper()
	const mark = "ASSAY_TEST_OWN_SESSION"
	if os.Getenv(mark) != "" {
		return false
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) && !strings.Contains(string(out), "SKIP: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// All threads have the level, those made later too; a child has none of it, and
// at the end all is as it was.
func TestPriorityIsOfAllThreadsAndNoChild(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("priorities need root")
	}
	if aloneInSession(t) {
		return
	}
	plain(t)
	before, session := threads(t)[0], autogroup(t)
	for level, want := range map[Level]scheduling{
		LevelNormal:   before,
		LevelHigh:     {-10, 0, unix.SCHED_NORMAL},
		LevelRealtime: {before.nice, 1, unix.SCHED_RR},
	} {
		t.Run(string(level), func(t *testing.T) {
			newThreads(t, 3)
			got, lower := Raise(level, nil)
			defer lower()
			if got.Level != level || got.Why != "" || got.Nice != want.nice {
				t.Fatalf("got %+v", got)
			}
			if raised := strings.HasSuffix(autogroup(t), "nice -10"); session != "" && raised != (level == LevelHigh) {
				t.Errorf("the session is at %q", autogroup(t))
			}
			has := func(s scheduling) bool {
				// The nice value of a real-time thread means nothing.
				return s.policy == want.policy && s.priority == want.priority && (s.nice == want.nice || level == LevelRealtime)
			}
			// A thread that is made while others are raised gets it a little later.
			all := func() {
				t.Helper()
				wrong := -1
				for end := time.Now().Add(patience); wrong != 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
					wrong = 0
					for _, s := range threads(t) {
						if !has(s) {
							wrong++
						}
					}
				}
				if wrong != 0 {
					t.Errorf("%d threads do not have it", wrong)
				}
			}
			all()
			had := len(threads(t))
			newThreads(t, had+10) // more than there can be idle ones
			if len(threads(t)) <= had {
				t.Fatal("no thread was made")
			}
			all()
			for range 5 {
				if s := child(t); s != (scheduling{0, 0, unix.SCHED_NORMAL}) {
					t.Errorf("a child has %s", s)
				}
			}
			lower()
			lower() // once more does nothing
			for _, s := range threads(t) {
				if s != before {
					t.Errorf("afterwards a thread has %s, and had %s", s, before)
				}
			}
			if autogroup(t) != session {
				t.Errorf("afterwards the session is at %q, and was at %q", autogroup(t), session)
			}
		})
	}
}

// A real-time thread that never waits loses its priority, and the process lives.
func TestRealtimeIsBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("priorities need root")
	}
	plain(t)
	lost := make(chan Standing, 1)
	got, lower := Raise(LevelRealtime, func(s Standing) { lost <- s })
	defer lower()
	if got.Level != LevelRealtime {
		t.Skipf("no real-time scheduling here: %s", got.Why)
	}
	// As many as there are processors, and not locked to their threads: otherwise
	// a goroutine changes its thread whenever it is preempted, and the thread
	// that it leaves waits.
	var stop atomic.Bool
	defer stop.Store(true)
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	for end := time.Now().Add(patience); ; {
		if time.Now().After(end) {
			t.Fatalf("a thread that spins for %v keeps its priority", patience)
		}
		select {
		case s := <-lost:
			if s.Level != LevelHigh || s.Why == "" {
				t.Errorf("it became %+v", s)
			}
			for _, s := range threads(t) {
				if s.policy != unix.SCHED_NORMAL {
					t.Errorf("a thread still has %s", s)
				}
			}
			lower()
			// The kernel has raised the soft limit with its signal. What starts from
			// here on must not be ended by it.
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &limit); err != nil || limit.Cur != limit.Max {
				t.Errorf("afterwards the limit is %+v, %v", limit, err)
			}
			return
		default:
		}
	}
}
