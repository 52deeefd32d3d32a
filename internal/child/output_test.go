//go:build unix

package child

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOutput(t *testing.T) {
	large := bytes.Repeat([]byte("a line of many\n"), 50_000) // more than a pipe holds
	limited := spec("flood")
	limited.MaxAnswer = 1000
	room := spec("answer")
	room.MaxAnswer = 10 << 20
	environ := spec("print", "hello")
	environ.AddEnv = []string{"CHILD_TEST=world"}
	for name, tt := range map[string]struct {
		spec  Spec
		stdin []byte
		want  string
		is    error
		says  string
	}{
		"prints":           {environ, nil, "hello world\n", nil, ""},
		"reads nothing":    {environ, large, "hello world\n", nil, ""},
		"reads and writes": {room, large, strings.Repeat("answer to a line of many\n", 50_000), nil, ""},
		"fails":            {spec("exit"), nil, "", nil, "exit status 3: no card"},
		"floods":           {limited, nil, strings.Repeat("x\n", 500), ErrFlood, "1000 bytes"},
		"floods stderr":    {spec("flood-stderr"), nil, "", nil, ""},
		"is not there":     {Spec{Command: []string{"/nonexistent"}}, nil, "", nil, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Output(t.Context(), tt.spec, tt.stdin)
			if string(r.Stdout) != tt.want {
				t.Errorf("%d bytes: %.100q", len(r.Stdout), r.Stdout)
			}
			if (err != nil) != (tt.says != "") || tt.is != nil && !errors.Is(err, tt.is) || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// At the context's end the child and its group are killed, and the cause is told.
func TestOutputEndsWithItsContext(t *testing.T) {
	cause := errors.New("it took too long")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	for range 2 { // the second when it has ended
		if _, err := Output(ctx, spec("hang"), nil); !errors.Is(err, cause) {
			t.Errorf("error %v", err)
		}
	}
}

// What a child leaves running is killed unless it was asked to be left, and holds
// nobody up in either case.
func TestOutputAndWhatIsLeft(t *testing.T) {
	for _, leave := range []bool{false, true} {
		s := spec("grandchild", "end")
		s.LeaveGroup = leave
		r, err := Output(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
		if err != nil {
			t.Fatal(err)
		}
		if leave {
			if !runs(pid) {
				t.Error("what was to be left was killed")
			}
			if err := kill(pid); err != nil {
				t.Error(err)
			}
		}
		gone(t, pid)
	}
}
