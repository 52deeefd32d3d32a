package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// play is a source for tests of the child itself: it does what its part says.
type play struct {
	part  string
	args  []string
	reads int
}

func (p *play) Name() string { return "play" }
func (p *play) Close() error { return nil }

func (p *play) Read(_ context.Context, emit func(assay.Reading)) error {
	p.reads++
	switch p.part {
	case "hang-at-2":
		if p.reads == 2 {
			select {}
		}
	case "waits-at-2":
		for p.reads == 2 {
			if _, err := os.Stat(p.args[0]); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	case "grandchild-hang-at-2":
		if p.reads == 1 {
			cmd := exec.Command("sleep", "60")
			if err := cmd.Start(); err != nil {
				return err
			}
			emit(value("grandchild", float64(cmd.Process.Pid)))
		} else {
			select {}
		}
	case "die-at-2":
		if p.reads == 2 {
			fmt.Fprintln(os.Stderr, "bus error in the driver\x1b[31m")
			os.Exit(7)
		}
	case "fail":
		emit(value("before", 1))
		return errors.New("one GPU\nsays no")
	case "chatter":
		fmt.Println("NVRM: the driver prints to stdout")
	case "garbage":
		fmt.Println("r\tnot a name\t\t1")
	case "long-line":
		fmt.Println(strings.Repeat("x", 3*maxChildLine))
	case "many-lines":
		fmt.Print(strings.Repeat("chatter\n", maxChildAnswer/8+1))
	case "not-finite":
		emit(value("nan", math.NaN()))
	}
	emit(assay.Reading{Name: "reads", Device: "GPU-1", Value: value("", float64(p.reads)).Value})
	emit(value("pid", float64(os.Getpid())))
	return nil
}

func servePlay(args []string) error {
	switch args[0] {
	case "never-ready":
		select {}
	case "no-library":
		return errors.New("loading libnvidia-ml.so.1: cannot open shared object file")
	}
	return ServeChild(os.Stdin, os.Stdout, &play{part: args[0], args: args[1:]})
}

// newPlay is a child in a part. Unless told otherwise it is waited for.
func newPlay(t *testing.T, o ChildOptions, part ...string) *Child {
	if o.Deadline == 0 {
		o.Deadline = patience
	}
	if o.StartDeadline == 0 {
		o.StartDeadline = patience
	}
	c := NewChild("play", append([]string{os.Args[0], "child-play"}, part...), o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func readAll(t *testing.T, s Source) (map[string]float64, error) {
	t.Helper()
	got := map[string]float64{}
	err := s.Read(t.Context(), func(r assay.Reading) {
		if r.Value == nil {
			t.Errorf("a reading without a value: %+v", r)
			return
		}
		got[r.Name] = *r.Value
	})
	return got, err
}

func TestChildGivesTheReadingsOfItsSource(t *testing.T) {
	c := newPlay(t, ChildOptions{}, "well")
	var first float64
	for i := 1; i <= 3; i++ {
		got, err := readAll(t, c)
		if err != nil || got["reads"] != float64(i) {
			t.Fatalf("reading %d: %v %v", i, got, err)
		}
		if i == 1 {
			first = got["pid"]
		}
		if got["pid"] != first || int(first) == os.Getpid() {
			t.Errorf("process %v, then %v; this is %d", first, got["pid"], os.Getpid())
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t, c); !errors.Is(err, errClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

func TestChildHandsOnTheSourcesOwnError(t *testing.T) {
	c := newPlay(t, ChildOptions{}, "fail")
	for range 2 { // it is no reason to end the process
		got, err := readAll(t, c)
		if err == nil || err.Error() != "one GPU says no" || got["before"] != 1 {
			t.Fatalf("%v %v", got, err)
		}
	}
}

func TestChildIsKilledAndStartedAgain(t *testing.T) {
	for _, tc := range []struct {
		part, want string
		deadline   time.Duration
	}{
		{"hang-at-2", "did not answer within 50ms", 50 * time.Millisecond},
		{"die-at-2", "exit status 7: bus error in the driver", patience},
	} {
		t.Run(tc.part, func(t *testing.T) {
			c := newPlay(t, ChildOptions{Backoff: time.Millisecond}, tc.part)
			before, err := readAll(t, c)
			if err != nil {
				t.Fatal(err)
			}
			c.o.Deadline = tc.deadline
			_, err = readAll(t, c)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\x1b") {
				t.Fatalf("error %v", err)
			}
			if hung := strings.HasPrefix(tc.part, "hang"); errors.Is(err, ErrNoAnswer) != hung {
				t.Errorf("is ErrNoAnswer: %v", !hung)
			}
			c.o.Deadline = patience
			var after map[string]float64
			for end := time.Now().Add(patience); err != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
				after, err = readAll(t, c)
			}
			if err != nil || after["reads"] != 1 || after["pid"] == before["pid"] {
				t.Errorf("started again: %v %v", after, err)
			}
			if alive(int(before["pid"])) {
				t.Errorf("process %v still lives", before["pid"])
			}
		})
	}
}

// What a driver's library may have started goes with it.
func TestChildIsKilledWithItsGroup(t *testing.T) {
	c := newPlay(t, ChildOptions{}, "grandchild-hang-at-2")
	got, err := readAll(t, c)
	if err != nil || got["grandchild"] == 0 {
		t.Fatal(got, err)
	}
	c.o.Deadline = 50 * time.Millisecond
	if _, err := readAll(t, c); !errors.Is(err, ErrNoAnswer) {
		t.Fatal(err)
	}
	if alive(int(got["grandchild"])) {
		t.Error("the child's child lives on")
	}
}

// alive says whether a process runs; the kernel may take a moment to end it.
func alive(pid int) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

func TestChildBoundsWhatItIsTold(t *testing.T) {
	for _, tc := range []struct{ part, want string }{
		{"chatter", ""},
		{"garbage", "no reading"},
		{"long-line", "a line of over"},
		{"many-lines", "an answer of over"},
		{"not-finite", "not one finite number"},
		{"no-library", "exit status 1: loading libnvidia-ml.so.1"},
		{"never-ready", "not ready within 50ms"},
	} {
		t.Run(tc.part, func(t *testing.T) {
			t.Parallel()
			var o ChildOptions
			if tc.part == "never-ready" {
				o.StartDeadline = 50 * time.Millisecond
			}
			c := newPlay(t, o, tc.part)
			got, err := readAll(t, c)
			switch {
			case tc.want == "" && (err != nil || got["reads"] != 1):
				t.Errorf("%v %v", got, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v; want %q", err, tc.want)
			}
		})
	}
	c := NewChild("none", []string{"/nonexistent/driver"}, ChildOptions{})
	if _, err := readAll(t, c); err == nil || !strings.Contains(err.Error(), "starting its process") {
		t.Errorf("a command that is not there: %v", err)
	}
	if _, err := readAll(t, NewChild("none", nil, ChildOptions{})); err == nil {
		t.Error("no command is no error")
	}
}

// A question that its asker gave up leaves the next with its own answer.
func TestChildAfterAContextThatEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go on")
	c := newPlay(t, ChildOptions{}, "waits-at-2", file)
	first, err := readAll(t, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = c.Read(ctx, func(r assay.Reading) { t.Errorf("emitted %+v", r) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The second was perhaps never asked: then there is nothing to throw away.
	next, err := readAll(t, c)
	if err != nil || next["pid"] != first["pid"] || next["reads"] != 2 && next["reads"] != 3 || len(next) != 2 {
		t.Errorf("the next: %v %v", next, err)
	}
}

func TestChildCloseEndsAReadThatHangs(t *testing.T) {
	c := newPlay(t, ChildOptions{}, "hang-at-2")
	got, err := readAll(t, c)
	if err != nil {
		t.Fatal(err)
	}
	var hung sync.WaitGroup
	hung.Go(func() {
		if _, err := readAll(t, c); !errors.Is(err, errClosed) {
			t.Errorf("the reading came back with %v", err)
		}
	})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	hung.Wait()
	if alive(int(got["pid"])) {
		t.Error("its process lives on")
	}
}

// The parent's death closes the child's input. That must end it even when the
// driver hangs in the middle of an answer.
func TestServeChildEndsWithItsInput(t *testing.T) {
	for _, part := range []string{"well", "hang-at-2"} {
		in, out := strings.NewReader("read 1\nread 2\n"), new(bytes.Buffer)
		done := make(chan error, 1)
		go func() { done <- ServeChild(in, &lockedBuffer{b: out}, &play{part: part}) }()
		select {
		case err := <-done:
			if hung := part != "well"; (err != nil) != hung {
				t.Errorf("%s: %v", part, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: it did not end", part)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  *bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// Whatever a child writes, its parent comes to an end, believes no reading that
// is not one, and keeps within its bounds.
func FuzzChildAnswer(f *testing.F) {
	for _, s := range []string{
		"r\tgpu_power_watts\tGPU-1\t250.5\n.\t1\n",
		"g\t{\"uuid\":\"GPU-1\",\"name\":\"H100\"}\n.\t1\n",
		"!\tno\n.\t1\n", ".\t2\n", "r\t\t\t\n", "r\tx\t\tNaN\n", "r\tx\t\t0x1p-2\n.\t1\n", "noise\n\n\t\n.\t1\n",
		"r\tx\t" + strings.Repeat("d", 200) + "\t1\n", "g\t{}\n", "r\tx\t\t1e999\n", "r\tx",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range []string{askRead, askDescribe} {
			names, values := interner{}, slab{}
			var kept []assay.Reading
			a := childAnswer{seq: 1, each: func(line []byte) error {
				if kind == askDescribe {
					g, err := parseGPU(line)
					if err == nil && (g.MemoryBytes < 0 || len(g.Name) > maxChildDevice) {
						t.Errorf("believed %+v", g)
					}
					return err
				}
				r, err := parseReading(line, names, &values)
				if err == nil {
					kept = append(kept, r)
				}
				return err
			}}
			var done bool
			var err error
			for line := range bytes.Lines(b) {
				if line, whole := bytes.CutSuffix(line, []byte("\n")); whole && !done && err == nil {
					done, err = a.line(line)
				}
			}
			if done && !bytes.Contains(b, []byte(".\t")) {
				t.Error("an answer without an end")
			}
			if reported := a.reported; reported != nil && (len(reported.Error()) > 3*maxChildText || strings.ContainsAny(reported.Error(), "\n\x1b")) {
				t.Errorf("handed on %q", reported)
			}
			for _, r := range kept {
				if r.Value == nil || math.IsNaN(*r.Value) || math.IsInf(*r.Value, 0) || !goodName(r.Name) || !goodDevice(r.Device) {
					t.Errorf("believed %+v", r)
				}
				line, ok := appendReading(nil, r)
				if !ok {
					t.Fatalf("cannot write %+v again", r)
				}
				again, err := parseReading(line[2:len(line)-1], names, &values)
				if err != nil || again.Name != r.Name || again.Device != r.Device || math.Float64bits(*again.Value) != math.Float64bits(*r.Value) {
					t.Errorf("%q: %+v, then %+v (%v)", line, r, again, err)
				}
			}
		}
	})
}
