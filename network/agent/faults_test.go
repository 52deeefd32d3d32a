package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

// A process that is killed at any step of delivery, and started again, loses
// nothing and doubles nothing: one node, each statement once with the same bytes,
// every file, and one carried-out command.
func TestKilledAtEachStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	address := engine(t)
	for _, step := range []string{"enrol", "ack started", "deliver: received", "deliver: taken", "announce", "upload", "confirm", "ack done"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			c := testConfig(t, f.http.URL, address)
			config, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			started := make(chan *process, 1)
			killed := make(chan struct{})
			var once sync.Once
			f.step = func(name string) {
				if name == step {
					once.Do(func() { (<-started).kill(); close(killed) }) // before it hears of it
				}
			}
			// The command that makes the run; a check that was killed is asked for again.
			first := f.order(api.CommandKindCheck, time.Hour)
			p := startProcess(t, config)
			started <- p
			select {
			case <-killed:
			case <-time.After(2 * time.Minute):
				t.Fatal("the step was never reached")
			}
			p.wait()
			p = startProcess(t, config)
			eventually(t, "the command has an end", func() bool { _, done := f.outcome(first); return done })
			if got, _ := f.outcome(first); got.Outcome != api.AcknowledgementOutcomeDone {
				second := f.order(api.CommandKindCheck, time.Hour)
				eventually(t, "the second command has an end", func() bool { _, done := f.outcome(second); return done })
			}
			eventually(t, "all is confirmed and removed", func() bool {
				f.mu.Lock()
				n := len(f.confirmed)
				f.mu.Unlock()
				left, err := filepath.Glob(filepath.Join(c.State, "r*", "0*"))
				return n > 0 && err == nil && len(left) == 0
			})
			p.end(t)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.enrolled) != 1 || len(f.keys) != 1 {
				t.Errorf("%d nodes were enrolled", len(f.keys))
			}
			runs := map[string]int{}
			for _, r := range f.reports {
				runs[value(r.Command)]++
				for _, file := range r.Files {
					if int64(len(f.objects[file.Sha256])) != file.Size {
						t.Errorf("%s is not stored", file.Name)
					}
				}
			}
			for command, n := range runs {
				if n != 1 {
					t.Errorf("command %s was carried out %d times", command, n)
				}
			}
			if want := 2*len(f.reports) + 1; len(f.statements) != want {
				t.Errorf("%d statements of %d runs, want %d", len(f.statements), len(f.reports), want)
			}
		})
	}
}

// process is an agent that can be killed.
type process struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
}

func startProcess(t *testing.T, config []byte) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "agent", string(config)), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.kill()
		p.wait()
		if t.Failed() {
			t.Logf("the agent said:\n%s", p.out.String())
		}
	})
	return p
}

func (p *process) kill() { _ = p.cmd.Process.Kill() }
func (p *process) wait() { <-p.done }

// end is Ctrl-C: it ends in order, with nothing but its exit code.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if s := p.cmd.ProcessState; s.ExitCode() != 0 {
		t.Errorf("it ended with %s", s)
	}
}

// Whatever a server answers in place of what it should, nothing is lost, and all
// arrives when it is itself again.
func TestServerAnswersBadly(t *testing.T) {
	t.Parallel()
	problem := func(status int, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"503":      problem(503, "Retry-After", "1"),
		"429":      problem(429, "Retry-After", "1"),
		"500":      problem(500),
		"redirect": problem(307, "Location", "http://192.0.2.1/"),
		"garbage":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x00\xff{{{") },
		"html":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>a portal</html>") },
		"empty":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
					return
				}
			}
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"outcomes":[`)
			panic(http.ErrAbortHandler)
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			o := testOptions(testLog(t))
			a := start(t, testConfig(t, f.http.URL, engine(t)), o)
			eventually(t, "a heart-beat", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > 0 })
			bad := 0
			f.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				f.mu.Lock()
				bad++
				f.mu.Unlock()
				answer(w, r)
				return true
			})
			e := ledger.CheckEvent(newULID(), a.session.node(), checkOf("x"))
			rec, err := ledger.EncodeEvent(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.box.Add(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			eventually(t, "bad answers", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return bad > 5 })
			if n, _ := a.box.Pending(); n != 1 {
				t.Errorf("%d records wait, want 1", n)
			}
			f.setFault(nil)
			eventually(t, "the record is delivered", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.events) == 1 })
			if n := a.box.Counts(); n.Refused != 0 {
				t.Errorf("counts: %+v", n)
			}
		})
	}
}

// Retry-After is waited for, by every kind of request.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, testConfig(t, f.http.URL, engine(t)), testOptions(testLog(t)))
	eventually(t, "a heart-beat", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > 0 })
	var mu sync.Mutex
	refused := map[string]time.Time{} // by path, when it was last told to wait
	early, waited := 0, 0
	f.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if last, ok := refused[r.URL.Path]; ok {
			if waited++; time.Since(last) < time.Second {
				early++
			}
		}
		refused[r.URL.Path] = time.Now()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	eventually(t, "it comes again", func() bool { mu.Lock(); defer mu.Unlock(); return waited > 3 })
	mu.Lock()
	defer mu.Unlock()
	if early > 0 {
		t.Errorf("%d of %d requests came before the time that the server asked for", early, waited)
	}
}

// One record that the server calls malformed does not hold up the others.
func TestMalformedRecordIsRefusedAlone(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := start(t, testConfig(t, f.http.URL, engine(t)), testOptions(testLog(t)))
	eventually(t, "a heart-beat", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > 0 })
	f.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return false
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r.Body); err != nil {
			return false
		}
		r.Body = readCloser{&b}
		if !bytes.Contains(b.Bytes(), []byte("poison")) {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		return true
	})
	var records []ledger.Record
	for _, name := range []string{"one", "poison", "two"} {
		rec, err := ledger.EncodeEvent(ledger.CheckEvent(newULID(), a.session.node(), checkOf(name)))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	if err := a.box.Add(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all have an end", func() bool { n, _ := a.box.Pending(); return n == 0 })
	if n := a.box.Counts(); n.Taken != 2 || n.Refused != 1 {
		t.Errorf("counts: %+v", n)
	}
	kept, err := os.ReadFile(filepath.Join(a.c.State, outboxDir, "refused", "new.jsonl"))
	if err != nil || !bytes.Contains(kept, []byte(records[1].ID.String())) {
		t.Errorf("the refused record is not kept: %s %v", kept, err)
	}
}

// A token that was used by another key is refused, and the agent ends with that
// word; the same key gets the same node.
func TestTokenIsForOneKey(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	address := engine(t)
	a := start(t, testConfig(t, f.http.URL, address), testOptions(testLog(t)))
	eventually(t, "it is enrolled", func() bool { return a.session.node() != "" })
	b, err := Open(testConfig(t, f.http.URL, address), testOptions(testLog(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Run(t.Context()); status(err) != http.StatusForbidden || !strings.Contains(err.Error(), "token create") {
		t.Errorf("the token was used: %v", err)
	}
	// A reply that was lost: the key is there, the node is not.
	c := testConfig(t, f.http.URL, address)
	f.mu.Lock()
	f.tokens[goodToken] = ""
	f.mu.Unlock()
	lose := true
	f.step = func(name string) {
		if name == "enrol" && lose {
			lose = false
			panic(http.ErrAbortHandler)
		}
	}
	d := start(t, c, testOptions(testLog(t)))
	eventually(t, "it is enrolled after all", func() bool { return d.session.node() != "" })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.keys) != 2 {
		t.Errorf("%d nodes, want 2", len(f.keys))
	}
}

// Beyond a minute no run starts, and it says so; before it was measured none does.
func TestClockSkewStopsRuns(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.ahead = 2 * time.Minute
	a := start(t, testConfig(t, f.http.URL, engine(t)), testOptions(testLog(t)))
	id := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is answered", func() bool { _, done := f.outcome(id); return done })
	if got, _ := f.outcome(id); got.Outcome != api.AcknowledgementOutcomeFailed || !strings.Contains(value(got.Detail), "clock is 2m0s behind") {
		t.Errorf("%+v %s", got, value(got.Detail))
	}
	if n, _ := a.reports.count(); n != 0 {
		t.Errorf("%d runs were made", n)
	}
	f.mu.Lock()
	f.ahead = 0
	f.mu.Unlock()
	eventually(t, "the clock is known to be right", func() bool { return !a.link.clock.now().Beyond() })
	id = f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is done", func() bool { _, done := f.outcome(id); return done })
	if got, _ := f.outcome(id); got.Outcome != api.AcknowledgementOutcomeDone {
		t.Errorf("%+v %s", got, value(got.Detail))
	}
}

func TestSkew(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		trip, server, offset time.Duration
		beyond               bool
	}{
		{0, 0, 0, false},
		{2 * time.Second, time.Second, 0, false},
		{0, time.Minute, time.Minute, false},
		{0, time.Minute + time.Second, time.Minute + time.Second, true},
		{0, -2 * time.Minute, -2 * time.Minute, true},
		{4 * time.Second, 62 * time.Second, time.Minute, false},
		{20 * time.Second, 75 * time.Second, 65 * time.Second, false}, // it may be 55
		{10 * time.Second, 75 * time.Second, 70 * time.Second, true},
	} {
		s := skewOf(at, at.Add(c.trip), at.Add(c.server))
		if s.Offset != c.offset || s.Beyond() != c.beyond {
			t.Errorf("%+v: %+v, beyond %v", c, s, s.Beyond())
		}
	}
	if (Skew{Offset: time.Hour}).Beyond() {
		t.Error("what was not measured is beyond")
	}
}

// A check is stopped at once, leaves nothing, and is told as failed; the command
// that stopped it is told as done.
func TestStopEndsACheck(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	c.Scenario = "long"
	a := start(t, c, testOptions(testLog(t)))
	check := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check measures", func() bool {
		left, _ := filepath.Glob(filepath.Join(c.State, runsDir, "*", "requests.jsonl"))
		return len(left) == 1
	})
	stop := f.order(api.CommandKindStop, time.Hour)
	eventually(t, "both are told", func() bool {
		_, one := f.outcome(check)
		_, two := f.outcome(stop)
		return one && two
	})
	if got, _ := f.outcome(check); got.Outcome != api.AcknowledgementOutcomeFailed || !strings.Contains(value(got.Detail), ErrStopped.Error()) {
		t.Errorf("the check: %+v %s", got, value(got.Detail))
	}
	eventually(t, "nothing is left", func() bool { n, _ := a.reports.count(); return n == 0 })
	if err := a.stop(); err != nil {
		t.Error(err)
	}
}

// Ctrl-C during a check ends it and the agent, and the next start drops what is
// left of it.
func TestInterruptDuringACheck(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	c.Scenario = "long"
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	f.order(api.CommandKindCheck, time.Hour)
	p := startProcess(t, config)
	eventually(t, "the check measures", func() bool {
		left, _ := filepath.Glob(filepath.Join(c.State, runsDir, "*", "requests.jsonl"))
		return len(left) == 1
	})
	p.end(t)
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "the run is dropped", func() bool { n, _ := a.reports.count(); return n == 0 })
}

// A command is carried out at most once, also when its acknowledgement is lost
// and over a restart; one that comes too late is not carried out.
func TestCommandsOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	f.mu.Lock()
	f.settings = api.Settings{Version: 0}
	f.mu.Unlock()
	f.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/commands/") {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	late := f.order(api.CommandKindRotateKey, -time.Second)
	id := f.order(api.CommandKindRotateKey, time.Hour)
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "the key is new", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.keys[a.session.node()]) == 2 })
	eventually(t, "it polls again", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.requests["GET /api/v1/nodes/"+a.session.node()+"/commands"] > 3
	})
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	f.setFault(nil)
	a = start(t, c, testOptions(testLog(t)))
	eventually(t, "both are told", func() bool {
		_, one := f.outcome(id)
		_, two := f.outcome(late)
		return one && two
	})
	if got, _ := f.outcome(late); got.Outcome != api.AcknowledgementOutcomeExpired {
		t.Errorf("a late command: %+v", got)
	}
	if got, _ := f.outcome(id); got.Outcome != api.AcknowledgementOutcomeDone {
		t.Errorf("the command: %+v", got)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.keys[a.session.node()]); n != 2 {
		t.Errorf("the key was rotated %d times, want once", n-1)
	}
}

// A rotation whose answer is lost leaves a node that can log in.
func TestRotationSurvivesALostAnswer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "it is enrolled", func() bool { return a.session.node() != "" })
	old := a.session.id.Key
	f.mu.Lock()
	f.step = func(name string) {
		if name == "rotate" {
			panic(http.ErrAbortHandler)
		}
	}
	f.mu.Unlock()
	if err := a.session.rotate(t.Context()); err == nil {
		t.Fatal("the answer was lost, and rotate has no error")
	}
	f.mu.Lock()
	f.step = nil
	before := len(f.beats)
	f.mu.Unlock()
	eventually(t, "it beats by its new key", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > before+2 })
	a.session.mu.Lock()
	now, next := a.session.id.Key, a.session.id.NextKey
	a.session.mu.Unlock()
	if now == old || next != "" {
		t.Errorf("the key is %s (next %q), it was %s", now, next, old)
	}
	if _, err := os.Stat(filepath.Join(c.State, keysDir, old+".key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old key is still there: %v", err)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a = start(t, c, testOptions(testLog(t)))
	if s, k, node := a.session.signing(); ledger.KeyID(s.Public()) != now || k.Node != node {
		t.Errorf("after a restart: %s %s", k, node)
	}
}

// A node whose key was revoked is told so, keeps what it has, and goes on asking.
func TestRevokedKey(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := start(t, testConfig(t, f.http.URL, engine(t)), testOptions(testLog(t)))
	eventually(t, "a heart-beat", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > 0 })
	f.mu.Lock()
	keys := f.keys[a.session.node()]
	f.keys[a.session.node()] = nil
	clear(f.logins)
	f.mu.Unlock()
	if err := a.beatOnce(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("the key was revoked: %v", err)
	}
	f.mu.Lock()
	f.keys[a.session.node()] = keys
	n := len(f.beats)
	f.mu.Unlock()
	eventually(t, "it is let in again", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > n })
}

// Somebody else who answers at the server's address gets no signature.
func TestLoginIsForTheOriginOfTheEnrolment(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := start(t, testConfig(t, f.http.URL, engine(t)), testOptions(testLog(t)))
	eventually(t, "a heart-beat", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > 0 })
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	f.origin = "https://evil.example"
	b, err := Open(a.c, testOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.beatOnce(t.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "evil") {
		t.Errorf("another origin: %v", err)
	}
}

// Uploads that vanish are uploaded again; a run that the server refuses is kept,
// bounded, and holds up nothing.
func TestUploadsAreConfirmed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.lose = 2
	c := testConfig(t, f.http.URL, engine(t))
	a := start(t, c, testOptions(testLog(t)))
	id := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is done", func() bool { _, done := f.outcome(id); return done })
	eventually(t, "the run is removed", func() bool { n, _ := a.reports.count(); return n == 0 })
	f.mu.Lock()
	if len(f.confirmed) != 1 {
		t.Errorf("%d reports are confirmed", len(f.confirmed))
	}
	f.refuse = func(string) string { return "not yours" }
	f.mu.Unlock()
	id = f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is done", func() bool { _, done := f.outcome(id); return done })
	eventually(t, "the run is refused", func() bool { _, n := a.reports.count(); return n == 1 })
	eventually(t, "nothing waits behind it", func() bool { n, _ := a.box.Pending(); return n == 0 })
}

// A server that was restored from a backup has not every statement that it took:
// one whose run is still here is delivered again.
func TestStatementIsDeliveredAgainToARestoredServer(t *testing.T) {
	f := newFake(t)
	var lost atomic.Int32
	f.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/reports") || lost.Add(1) > 1 {
			return false
		}
		f.mu.Lock()
		clear(f.statements)
		f.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	c := testConfig(t, f.http.URL, engine(t))
	a := start(t, c, testOptions(testLog(t)))
	f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the run is removed", func() bool { n, _ := a.reports.count(); return n == 0 && lost.Load() > 1 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.confirmed) != 1 || len(f.statements) == 0 {
		t.Errorf("%d reports are confirmed, of %d statements", len(f.confirmed), len(f.statements))
	}
}

// On a full disk no check is made and nothing is lost; the agent goes on when
// there is room.
func TestStateCannotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a file system is mounted")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		t.Skipf("mounting is not permitted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	c.State = dir
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "a heart-beat", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > 0 })
	fill := filepath.Join(dir, "fill")
	file, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	file.Close()
	id := f.order(api.CommandKindCheck, time.Hour)
	f.mu.Lock()
	n := len(f.beats)
	f.mu.Unlock()
	eventually(t, "it still beats", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.beats) > n+5 })
	if got, done := f.outcome(id); done && got.Outcome == api.AcknowledgementOutcomeDone {
		t.Error("a check was done on a full disk")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a check is done", func() bool {
		got, done := f.outcome(id)
		if done && got.Outcome != api.AcknowledgementOutcomeDone {
			id = f.order(api.CommandKindCheck, time.Hour)
		}
		return done && got.Outcome == api.AcknowledgementOutcomeDone
	})
	eventually(t, "it is delivered", func() bool { n, _ := a.reports.count(); return n == 0 })
}

// readCloser is a body that was read and is read again.
type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }
