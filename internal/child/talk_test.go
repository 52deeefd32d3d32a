//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A child answers question after question, and ends with its input.
func TestChildAnswers(t *testing.T) {
	p := start(t, spec("answer"))
	for _, q := range []string{"1", "2", strings.Repeat("long ", 1000)} {
		if got, err := ask(t, p, q); err != nil || got != "answer to "+q {
			t.Fatalf("%.40q %v", got, err)
		}
	}
	p.Close(patience)
	if !p.cmd.ProcessState.Success() {
		t.Errorf("told to end, it was ended: %v", p.cmd.ProcessState)
	}
}

// Every child that does not answer is noticed, by its deadline or at once, and is
// dead afterwards. Short deadlines are for those that never answer.
func TestChildThatDoesNotAnswer(t *testing.T) {
	for _, tt := range []struct {
		role  string
		until time.Duration
		want  error
		says  string
	}{
		{"hang", 50 * time.Millisecond, ErrLate, ""},
		{"half-a-line", 50 * time.Millisecond, ErrLate, ""},
		{"flood", patience, ErrFlood, "an answer of over 100000 bytes"},
		{"flood-a-line", patience, ErrFlood, "a line of over 5000 bytes"},
		{"exit", patience, nil, "its process ended: exit status 3: no card"},
		{"close-output", patience, nil, "its process closed its output"},
	} {
		t.Run(tt.role, func(t *testing.T) {
			s := spec(tt.role)
			s.MaxLine, s.MaxAnswer = 5000, 100_000
			p := start(t, s)
			err := p.Receive(t.Context(), time.Now().Add(tt.until), func(line []byte) (bool, error) {
				if string(line) != "x" {
					t.Errorf("it gave %.40q", line)
				}
				return false, nil
			})
			var ended *EndedError
			switch {
			case err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\x1b"):
				t.Errorf("error %v, want %q", err, tt.says)
			case tt.want != nil && !errors.Is(err, tt.want):
				t.Errorf("error %v, want %v", err, tt.want)
			case tt.want == nil && !errors.As(err, &ended):
				t.Errorf("error %v is no EndedError", err)
			}
		})
	}
}

// Half a line that the child's end follows is nobody's answer.
func TestHalfALineIsNoAnswer(t *testing.T) {
	p := start(t, spec("half-a-line-and-end"))
	var got []string
	err := p.Receive(t.Context(), soon(), func(line []byte) (bool, error) {
		got = append(got, string(line))
		return false, nil
	})
	var ended *EndedError
	if !errors.As(err, &ended) || ended.Exit != "exit status 0" || !slices.Equal(got, []string{"whole"}) {
		t.Errorf("%q %v", got, err)
	}
}

// A child that floods its standard error is not held up by it, and only the
// beginning is kept.
func TestStderrIsBounded(t *testing.T) {
	s := spec("flood-stderr")
	s.MaxStderr = 100
	p := start(t, s)
	if got, err := ask(t, p, "1"); err != nil || got != "answer to 1" {
		t.Fatalf("%q %v", got, err)
	}
	if got := p.Stderr(); len(got) > 100 || !strings.HasPrefix(got, "cause: yyy") {
		t.Errorf("%d bytes: %.200q", len(got), got)
	}
}

// A child that ignores both the end of its input and SIGTERM is killed.
func TestCloseKillsTheDeaf(t *testing.T) {
	p := start(t, spec("deaf"))
	var line string
	if err := p.Receive(t.Context(), soon(), one(&line)); err != nil || line != "deaf" {
		t.Fatal(line, err)
	}
	p.Close(10 * time.Millisecond)
	gone(t, p.cmd.Process.Pid)
	if err := p.Receive(t.Context(), soon(), one(&line)); err == nil {
		t.Error("a closed child gave a line")
	}
}

// What a child started in its group dies with it, and what left the group keeps
// nobody waiting, although it holds the pipes open.
func TestGrandchildren(t *testing.T) {
	for _, how := range []string{"stay", "end", "escape"} {
		t.Run(how, func(t *testing.T) {
			p := start(t, spec("grandchild", how))
			var line string
			if err := p.Receive(t.Context(), soon(), one(&line)); err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			if how == "stay" {
				p.Kill()
			} else {
				// It ended: that is known although a grandchild has the pipe.
				err := p.Receive(t.Context(), soon(), one(&line))
				var ended *EndedError
				if !errors.As(err, &ended) || ended.Exit != "exit status 0" {
					t.Errorf("error %v", err)
				}
			}
			if how == "escape" {
				if !runs(pid) {
					t.Error("what left the group was found: mend the package's comment")
				}
				if err := kill(pid); err != nil {
					t.Error(err)
				}
			}
			gone(t, pid)
		})
	}
}

// A question that was given up leaves the child alive. What it had begun to
// answer is kept, comes whole, and comes first.
func TestLateAnswerComesFirst(t *testing.T) {
	p := start(t, spec("late"))
	if err := p.Send(t.Context(), soon(), []byte("1\n")); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("nobody waits for it any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for p.Stderr() == "" {
			time.Sleep(time.Millisecond)
		}
		cancel(cause)
	}()
	err := p.Receive(ctx, soon(), func(line []byte) (bool, error) {
		t.Errorf("it gave %q", line)
		return true, nil
	})
	if !errors.Is(err, cause) {
		t.Fatal(err)
	}
	if err := p.Send(ctx, soon(), []byte("never sent\n")); !errors.Is(err, cause) {
		t.Fatal(err)
	}
	if err := p.Send(t.Context(), soon(), []byte("2\n")); err != nil {
		t.Fatal(err)
	}
	var got []string
	err = p.Receive(t.Context(), soon(), func(line []byte) (bool, error) {
		got = append(got, string(line))
		return len(got) == 2, nil
	})
	if err != nil || !slices.Equal(got, []string{"answer to 1", "answer to 2"}) {
		t.Errorf("%q %v", got, err)
	}
}

// A child that does not read is not waited for beyond the deadline.
func TestSendToOneWhoDoesNotRead(t *testing.T) {
	p := start(t, spec("hang"))
	err := p.Send(t.Context(), time.Now().Add(50*time.Millisecond), make([]byte, 10<<20))
	if !errors.Is(err, ErrLate) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Send(ctx, soon(), []byte("x")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What was written in time is read, however late we come to it.
func TestOurOwnLatenessIsNotTheChilds(t *testing.T) {
	p := start(t, spec("late"))
	if err := p.Send(t.Context(), soon(), []byte("1\n2\n")); err != nil {
		t.Fatal(err)
	}
	var got string
	for end := soon(); got == "" && time.Now().Before(end); {
		// Each is late when it begins.
		if err := p.Receive(t.Context(), time.Now().Add(-time.Second), one(&got)); err != nil && !errors.Is(err, ErrLate) {
			t.Fatal(err)
		}
	}
	if got != "answer to 1" {
		t.Errorf("got %q", got)
	}
}

// Whoever is killed takes the child along, though the child ignores the end of
// its input.
func TestChildDiesWithUs(t *testing.T) {
	parent := start(t, spec("parent"))
	var line string
	if err := parent.Receive(t.Context(), soon(), one(&line)); err != nil {
		t.Fatal(err)
	}
	number, rest, _ := strings.Cut(line, " ")
	pid, err := strconv.Atoi(number)
	if err != nil || rest != "<nil>" {
		t.Fatal(line, err)
	}
	if !runs(pid) {
		t.Fatal("the child does not run")
	}
	if err := kill(parent.cmd.Process.Pid); err != nil { // it alone, not its group
		t.Fatal(err)
	}
	gone(t, pid)
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func TestNothingToStart(t *testing.T) {
	for _, command := range [][]string{nil, {""}, {"/nonexistent/driver"}} {
		if _, err := Start(Spec{Command: command}); err == nil {
			t.Errorf("%q is no error", command)
		}
	}
}
