package publish

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
)

// sink takes records, or refuses them.
type sink struct {
	broken error
	taken  []ledger.Record
	given  bool
}

func (s *sink) Deliver(_ context.Context, r []ledger.Record) ([]outbox.Outcome, error) {
	if s.broken == nil {
		s.taken = append(s.taken, r...)
	}
	return outbox.AllTaken(len(r)), s.broken
}

func (s *sink) Close() error              { return nil }
func (s *sink) Register(*pflag.FlagSet)   {}
func (s *sink) Given() bool               { return s.given }
func (s *sink) Open() (SinkCloser, error) { return s, nil }

func publisherOf(t *testing.T, s *sink, dir string) *Publisher {
	t.Helper()
	f := Flags{Outlet: s, dir: dir, wait: 300 * time.Millisecond}
	p, err := f.Open()
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	return p
}

// What one process could not deliver waits, is no failure of the measurement, and
// goes with the next one; a process that cannot deliver it either says so.
func TestPublisherLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	progress := cli.NewProgress(&said, false)
	away := &sink{given: true, broken: errors.New("nobody is there")}
	p := publisherOf(t, away, dir)
	p.Event(t.Context(), "run_started", "hammer", "one", nil)
	if err := p.Close(t.Context(), progress); err != nil {
		t.Errorf("records that wait are a failure: %v", err)
	}
	if all := said.String(); !strings.Contains(all, "1 records") || !strings.Contains(all, `error="nobody is there"`) {
		t.Errorf("it does not say that a record waits: %s", all)
	}

	box, err := OpenOutbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = Deliver(t.Context(), box, away, time.Second, nil)
	if !errors.Is(err, ErrWaiting) || !strings.Contains(err.Error(), "1 records") {
		t.Errorf("a leftover that was not delivered: %v", err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}

	back := &sink{given: true}
	p = publisherOf(t, back, dir)
	p.wait = 10 * time.Second
	p.Event(t.Context(), "run_ended", "hammer", "two", nil)
	if err := p.Close(t.Context(), progress); err != nil {
		t.Fatal(err)
	}
	if len(back.taken) != 2 {
		t.Errorf("%d records arrived, want both", len(back.taken))
	}
}

// A run that was broken off by the user is still said.
func TestPublisherAfterInterrupt(t *testing.T) {
	p := publisherOf(t, &sink{given: true}, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Event(ctx, "run_ended", "hammer", "interrupted", nil)
	if n, _ := p.box.Pending(); n != 1 {
		t.Errorf("%d records are kept, want 1", n)
	}
	if err := p.Close(ctx, cli.NewProgress(io.Discard, true)); err != nil {
		t.Error(err)
	}
}

func TestPublisherNotAsked(t *testing.T) {
	for _, f := range []Flags{{}, {Outlet: &sink{}}} {
		p, err := f.Open()
		if p != nil || err != nil {
			t.Errorf("open = %v, %v", p, err)
		}
		p.Event(t.Context(), "a", "b", "c", nil)
		p.Add(t.Context(), ledger.Record{})
		p.Verified(t.Context(), nil, nil)
		if err := p.Close(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}
