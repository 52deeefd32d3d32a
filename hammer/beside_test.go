package hammer

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// front stands before a simulator, byte for byte, and sees each connection that
// begins with its /metrics page; answer says whether the n-th is answered.
type front struct {
	mu     sync.Mutex
	reads  []int64
	answer func(n int) bool
}

func (f *front) serve(t *testing.T, engine string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go f.pass(c, strings.TrimPrefix(engine, "http://"))
		}
	}()
	return "http://" + ln.Addr().String()
}

func (f *front) pass(c net.Conn, engine string) {
	defer c.Close()
	to, err := net.Dial("tcp", engine)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(c, to)
		_ = c.Close()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		if bytes.HasPrefix(b[:n], []byte("GET /metrics")) && !f.look() {
			n = 0
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (f *front) look() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, time.Now().UnixNano())
	return f.answer(len(f.reads))
}

// The engine's totals are read at the edges of each stage and never within one,
// whether or not anything else is read, and calibration is not in them.
func TestEngineTotalsAtTheEdges(t *testing.T) {
	f := &front{answer: func(int) bool { return true }}
	c := short(f.serve(t, engine(t, steady)), "openai-chat")
	c.Telemetry.Interval = 0
	c.Load = Load{Mode: ModeSweep, Levels: []int{1, 3}, Requests: 20, Grace: assay.Duration(5 * time.Second)}
	dir := filepath.Join(t.TempDir(), "run")
	sum, err := Run(t.Context(), c, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sum.Stages {
		for _, what := range []string{"requests", "input_tokens", "output_tokens"} {
			if x, ok := s.EngineCheck.Find(what, "metrics"); !ok || x.Verdict != assay.Pass || *x.Ours == 0 {
				t.Errorf("%s: %s: %+v; %s", s.Name, what, x, s.EngineCheck.Why)
			}
		}
	}
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	var within [][2]int64
	for e, err := range rd.Events() {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case assay.EventStageStarted:
			within = append(within, [2]int64{e.At})
		case assay.EventStageEnded:
			within[len(within)-1][1] = e.At
		case assay.EventEngineBefore, assay.EventEngineAfter:
		default:
			continue
		}
		kinds = append(kinds, string(e.Kind))
	}
	one := "engine_before stage_started stage_ended engine_after"
	if got := strings.Join(kinds, " "); got != one+" "+one {
		t.Errorf("events %s", got)
	}
	if len(f.reads) < 6 {
		t.Errorf("the page was read %d times", len(f.reads))
	}
	for _, at := range f.reads {
		for _, w := range within {
			if at > w[0] && at < w[1] {
				t.Errorf("the page was read %s into a stage", time.Duration(at-w[0]))
			}
		}
	}
}

// A page that breaks down in the middle costs the run nothing but the
// comparison, and is not waited for at each further stage.
func TestEngineTotalsBreakDown(t *testing.T) {
	// To find it, and twice to see that it stands still.
	f := &front{answer: func(n int) bool { return n <= 3 }}
	c := short(f.serve(t, engine(t, steady)), "openai-chat")
	c.Telemetry.Interval = 0
	c.Load = Load{Mode: ModeSweep, Levels: []int{1, 2, 3, 4}, Requests: 10, Grace: assay.Duration(5 * time.Second)}
	sum, err := Run(t.Context(), c, filepath.Join(t.TempDir(), "run"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.reads) != 4 {
		t.Errorf("the page was asked for %d times, want 3 with an answer and one without", len(f.reads))
	}
	for i, s := range sum.Stages {
		switch {
		case s.OK != 10:
			t.Errorf("%s: %d succeeded: %v", s.Name, s.OK, s.Errors)
		case i == 0 && (s.EngineCheck == nil || s.EngineCheck.Verdict != assay.Unknown || s.EngineCheck.Why == ""):
			t.Errorf("%s: %+v", s.Name, s.EngineCheck)
		case i > 0 && s.EngineCheck != nil:
			t.Errorf("%s: %+v without a page", s.Name, s.EngineCheck)
		}
	}
}
