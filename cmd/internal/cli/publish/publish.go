// Package publish brings what a command has to say to an outbox, and from there
// to where the program can deliver it.
package publish

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
	"github.com/assay-bench/assay/telemetry"
)

// Outlet is a way for records to leave this node, which a program brings along:
// the lean one has none.
type Outlet interface {
	Register(fs *pflag.FlagSet)
	Given() bool // whether the user asked for it
	Open() (SinkCloser, error)
}

// SinkCloser is a sink that has something to close.
type SinkCloser interface {
	outbox.Sink
	io.Closer
}

// runRoom is what a run holds in the outbox from its start on: its statements
// are at most three envelopes, and its events are few.
const runRoom = 1 << 20

// Flags say where a command's records go.
type Flags struct {
	Outlet Outlet // nil: nowhere
	dir    string
	wait   time.Duration
}

// Register adds the flags, where there is an outlet.
func (f *Flags) Register(fs *pflag.FlagSet) {
	if f.Outlet == nil {
		return
	}
	f.Outlet.Register(fs)
	fs.StringVar(&f.dir, "outbox", "", "`directory` that keeps records until they are acknowledged (default "+defaultOutbox+")")
	fs.DurationVar(&f.wait, "deliver-timeout", 15*time.Second, "how long to wait for that at the end; what is left goes with the next run, or with assay ledger flush")
}

// Publisher keeps what a command has to say until it is done, and delivers it
// then: a broker is not spoken to while something is measured.
type Publisher struct {
	node string
	box  *outbox.Outbox
	sink SinkCloser
	room *outbox.Room
	wait time.Duration
	err  error // the first record that could not be kept
}

// Open prepares the way out, before anything is measured: a run whose proof
// could not be kept must not begin. It gives nil when nobody asked.
func (f *Flags) Open() (*Publisher, error) {
	if f.Outlet == nil || !f.Outlet.Given() {
		return nil, nil
	}
	sink, err := f.Outlet.Open()
	if err != nil {
		return nil, err
	}
	p := &Publisher{node: telemetry.DescribeNode().ID, sink: sink, wait: f.wait}
	if p.box, err = OpenOutbox(f.dir); err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	if p.room, err = p.box.Reserve(runRoom); err != nil {
		return nil, cli.Unknown(errors.Join(err, p.box.Close(), sink.Close()))
	}
	return p, nil
}

// defaultOutbox is where the outbox is unless told otherwise, as help shows it.
const defaultOutbox = "~/.local/state/assay/outbox"

// OpenOutbox opens the outbox of this user, or the one that is named.
func OpenOutbox(dir string) (*outbox.Outbox, error) {
	if dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("where is the outbox? give --outbox DIR: %w", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "assay", "outbox")
	}
	return outbox.Open(outbox.Options{Dir: dir})
}

// Event keeps something that happened, for people and dashboards.
func (p *Publisher) Event(ctx context.Context, action, component, details string, fields map[string]any) {
	if p == nil {
		return
	}
	now := time.Now()
	p.events(ctx, ledger.Event{ID: newID(now), Time: now, Node: p.node, Action: action, Component: component, Details: details, Fields: fields})
}

func (p *Publisher) events(ctx context.Context, events ...ledger.Event) {
	for _, e := range events {
		r, err := ledger.EncodeEvent(e)
		if err != nil {
			p.fail(err)
			continue
		}
		p.Add(ctx, r)
	}
}

// Add keeps records that are signed.
func (p *Publisher) Add(ctx context.Context, records ...ledger.Record) {
	if p == nil || len(records) == 0 {
		return
	}
	// What was measured is kept although the user wants to go.
	p.fail(p.room.Add(context.WithoutCancel(ctx), records...))
}

func (p *Publisher) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Verified keeps what a verification did and found.
func (p *Publisher) Verified(ctx context.Context, ops []assay.Operation, checks []assay.Check) {
	if p == nil {
		return
	}
	for _, o := range ops {
		p.events(ctx, ledger.OperationEvent(newID(time.Unix(0, o.At)), p.node, o))
	}
	for _, c := range checks {
		p.events(ctx, ledger.CheckEvent(newID(time.Unix(0, c.At)), p.node, c))
	}
}

// Close delivers what there is, waits for it as long as it may, and says what is
// left. Records that wait are safe, so they are no failure; a record that could
// not be kept is.
func (p *Publisher) Close(ctx context.Context, progress *cli.Progress) error {
	if p == nil {
		return nil
	}
	p.room.Release()
	err := Deliver(ctx, p.box, p.sink, p.wait, progress.Log(ctx))
	switch {
	case errors.Is(err, ErrWaiting):
		progress.Say("outbox: %v", err)
		err = nil // it is safe
	case err == nil:
		progress.Say("outbox: everything is delivered")
	}
	err = errors.Join(err, p.box.Close(), p.sink.Close())
	if p.err != nil {
		return cli.Unknown(fmt.Errorf("what was to be published could not be kept: %w", p.err))
	}
	if err != nil {
		return cli.Unknown(fmt.Errorf("outbox: %w", err))
	}
	return nil
}

// ErrWaiting means that records are safe in the outbox, and not delivered yet.
var ErrWaiting = errors.New("not everything is delivered")

// Deliver empties an outbox into a sink for as long as it may; also what dead
// processes left in it. ErrWaiting says what is left.
func Deliver(ctx context.Context, box *outbox.Outbox, sink outbox.Sink, wait time.Duration, log *slog.Logger) error {
	// It goes on delivering until somebody has looked at what is left: what it took
	// over from dead processes counts only meanwhile.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- box.Run(running, sink, log) }()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := box.Flush(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		n, bytes := box.Pending()
		what := fmt.Sprintf("%d records (%d bytes) wait", n, bytes)
		if n == 0 {
			what = "there was no time to look whether records of earlier processes wait"
		}
		err = fmt.Errorf("%w: %s in the outbox, and are safe there; assay ledger flush delivers them, or the next command with --kafka", ErrWaiting, what)
	}
	stop()
	return errors.Join(err, <-ran)
}

func newID(at time.Time) ulid.ULID {
	return ulid.MustNew(ulid.Timestamp(at), rand.Reader)
}
