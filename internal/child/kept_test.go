//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keep makes a kept child with a clock that the test moves.
func keep(t *testing.T, s Spec, o KeepOptions) (*Kept, *time.Time) {
	t.Helper()
	k := Keep(s, o)
	now := time.Now()
	k.now = func() time.Time { return now }
	t.Cleanup(func() { k.Close(0) })
	return k, &now
}

// asked puts one question to a kept child.
func asked(t *testing.T, k *Kept) (pid int, err error) {
	t.Helper()
	err = k.Do(t.Context(), patience, func(p *Process, until time.Time) error {
		pid = p.cmd.Process.Pid
		if err := p.Send(t.Context(), until, []byte("1\n")); err != nil {
			return err
		}
		var line string
		return p.Receive(t.Context(), until, one(&line))
	})
	return pid, err
}

// A child that failed is left alone for a while that doubles, and success resets
// the wait.
func TestKeptIsStartedAgain(t *testing.T) {
	k, now := keep(t, spec("die", "1"), KeepOptions{Backoff: time.Minute, MaxBackoff: 3 * time.Minute})
	life := func() (pid int) {
		t.Helper()
		pid, err := asked(t, k)
		if err != nil {
			t.Fatal(err)
		}
		again, err := asked(t, k)
		if err == nil || !strings.Contains(err.Error(), "its process ended: exit status 7") || again != pid {
			t.Fatalf("processes %d and %d: %v", pid, again, err)
		}
		return pid
	}
	waits := func(want time.Duration) {
		t.Helper()
		*now = now.Add(want - time.Second)
		if pid, err := asked(t, k); err == nil || pid != 0 || !strings.HasSuffix(err.Error(), "it is started again in 1s") {
			t.Errorf("within the wait of %v: process %d, %v", want, pid, err)
		}
		*now = now.Add(time.Second)
	}
	first := life()
	waits(time.Minute)
	if second := life(); second == first {
		t.Error("the same process twice")
	}
	waits(time.Minute) // it had succeeded meanwhile
	k.spec = spec("exit")
	for _, want := range []time.Duration{2, 3, 3} {
		if _, err := asked(t, k); err == nil {
			t.Fatal("no error")
		}
		waits(want * time.Minute)
	}
	k.spec = Spec{Command: []string{"/nonexistent"}}
	if _, err := asked(t, k); err == nil || !strings.Contains(err.Error(), "starting its process") {
		t.Errorf("error %v", err)
	}
	waits(3 * time.Minute)
}

// A protocol's error ends the child, and is told with what it wrote beside it.
func TestKeptIsKilledForItsProtocol(t *testing.T) {
	k, _ := keep(t, spec("flood-stderr"), KeepOptions{})
	nonsense := errors.New("nonsense")
	pid := 0
	err := k.Do(t.Context(), patience, func(p *Process, until time.Time) error {
		pid = p.cmd.Process.Pid
		if _, err := ask(t, p, "1"); err != nil {
			t.Error(err)
		}
		return nonsense
	})
	if !errors.Is(err, nonsense) || !strings.Contains(err.Error(), "nonsense: cause: y") {
		t.Errorf("error %.100v", err)
	}
	gone(t, pid)
}

// Getting ready has a time of its own, over as many questions as it takes.
func TestKeptGetsReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready")
	k, _ := keep(t, spec("ready", file), KeepOptions{Ready: "ready", StartWithin: time.Hour})
	never := func(*Process, time.Time) error {
		t.Error("called before it was ready")
		return nil
	}
	for range 3 {
		if err := k.Do(t.Context(), time.Millisecond, never); !errors.Is(err, ErrStarting) {
			t.Fatal(err)
		}
	}
	starting := k.p.cmd.Process.Pid
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if pid, err := asked(t, k); err != nil || pid != starting {
		t.Errorf("process %d, then %d: %v", starting, pid, err)
	}
}

func TestKeptIsNeverReady(t *testing.T) {
	k, _ := keep(t, spec("hang"), KeepOptions{Ready: "ready", StartWithin: 50 * time.Millisecond})
	_, err := asked(t, k)
	if !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "not ready within 50ms") {
		t.Error(err)
	}
	if _, err := asked(t, k); err == nil || !strings.Contains(err.Error(), "started again in") {
		t.Error(err)
	}
}

// A context that ends is no failure of the child.
func TestKeptAfterAContextThatEnded(t *testing.T) {
	k, _ := keep(t, spec("answer"), KeepOptions{})
	first, err := asked(t, k)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = k.Do(ctx, patience, func(p *Process, until time.Time) error {
		cancel()
		return p.Receive(ctx, until, func([]byte) (bool, error) { return true, nil })
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if again, err := asked(t, k); err != nil || again != first {
		t.Errorf("process %d, then %d: %v", first, again, err)
	}
}

// Close ends an exchange that hangs, and nothing is started after it.
func TestKeptCloses(t *testing.T) {
	k, _ := keep(t, spec("hang"), KeepOptions{})
	inside, result := make(chan int), make(chan error)
	go func() {
		result <- k.Do(t.Context(), patience, func(p *Process, until time.Time) error {
			inside <- p.cmd.Process.Pid
			return p.Receive(t.Context(), until, func([]byte) (bool, error) { return true, nil })
		})
	}()
	pid := <-inside
	k.Close(patience)
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
	gone(t, pid)
	if _, err := asked(t, k); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
}
