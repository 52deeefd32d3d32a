package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Bench is one measurement on a machine.
type Bench struct {
	// Run names its directory there, as run-1: what was started under a name is
	// never started again.
	Run      string
	Engine   Engine
	Model    string
	Duration time.Duration
	Streams  int // requests under way at once
}

func (b Bench) words() words {
	return words{
		"run": b.Run, "model": b.Model, "port": b.Engine.port(), "backend": b.Engine.backend(),
		"seconds": strconv.Itoa(max(1, int(b.Duration.Seconds()))), "streams": strconv.Itoa(max(1, b.Streams)),
	}
}

// StartBench starts the measurement, unless it was started before.
func (n *Node) StartBench(ctx context.Context, b Bench) error {
	out, err := n.ask(ctx, call{command: "bench-start", words: b.words()})
	if err != nil {
		return err
	}
	switch string(bytes.TrimSpace(out)) {
	case "started", "running":
		return nil
	}
	return fmt.Errorf("%w: the start of the benchmark answers %q", ErrHostile, foreign.Line(out, 100))
}

// Look is how far a measurement is.
type Look struct {
	Ended      bool
	Exit       int              // hammer's status, when it has ended
	Checkpoint assay.Checkpoint // zero: there is none yet
}

// Look looks how far the measurement is.
func (n *Node) Look(ctx context.Context, run string) (Look, error) {
	out, err := n.ask(ctx, call{command: "bench-look", words: words{"run": run}})
	if err != nil {
		return Look{}, err
	}
	return parseLook(out)
}

func parseLook(out []byte) (l Look, err error) {
	first, rest, _ := bytes.Cut(out, []byte("\n"))
	if word := string(bytes.TrimSpace(first)); word != "running" {
		if l.Exit, err = strconv.Atoi(word); err != nil || l.Exit < 0 || l.Exit > 255 {
			return Look{}, fmt.Errorf("%w: the benchmark's exit status is %q", ErrHostile, foreign.Line(first, 60))
		}
		l.Ended = true
	}
	if rest = bytes.TrimSpace(rest); len(rest) > 0 {
		if err := json.Unmarshal(rest, &l.Checkpoint); err != nil {
			return Look{}, fmt.Errorf("%w: the benchmark's checkpoint is none: %s", ErrHostile, foreign.Line(err.Error(), 200))
		}
	}
	return l, nil
}

// WatchOptions are how a measurement is watched.
type WatchOptions struct {
	// Dial connects, and connects again after the connection was lost.
	Dial func(context.Context) (*Node, error)
	// Every is the time between two looks; 0: ten seconds.
	Every time.Duration
	// Silent is how long the checkpoint may stay the same: it is written every
	// second; 0: one minute.
	Silent time.Duration
	// Slack is how much longer than its duration the measurement may take; 0: two
	// minutes.
	Slack    time.Duration
	Watchdog Watchdog
	// Seen hears of each look, and of what the watchdog has learned; nil: nobody does.
	Seen func(Look, Watchdog)
}

func (o WatchOptions) resolved() WatchOptions {
	if o.Every <= 0 {
		o.Every = 10 * time.Second
	}
	if o.Silent <= 0 {
		o.Silent = time.Minute
	}
	if o.Slack <= 0 {
		o.Slack = 2 * time.Minute
	}
	return o
}

// Watch waits until a measurement has ended and gives its exit status. The error is
// ErrStuck when the engine hardly answers any more, which ends the measurement,
// and what Dial says when the machine is gone.
func Watch(ctx context.Context, b Bench, o WatchOptions) (exit int, err error) {
	o = o.resolved()
	w := &watch{b: b, o: o, dog: o.Watchdog, end: time.Now().Add(b.Duration + o.Slack)}
	defer func() {
		if w.n != nil {
			w.n.Close()
		}
	}()
	for {
		l, err := w.look(ctx)
		switch {
		case err != nil:
			return 0, err
		case l.Ended:
			return l.Exit, nil
		}
		if err := w.judge(time.Now(), l); err != nil {
			return 0, errors.Join(err, w.stop(ctx))
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(o.Every):
		}
	}
}

type watch struct {
	b       Bench
	o       WatchOptions
	n       *Node
	dog     Watchdog
	end     time.Time
	last    int64 // the checkpoint's time
	changed time.Time
}

// look connects when it must.
func (w *watch) look(ctx context.Context) (Look, error) {
	for {
		if w.n == nil {
			var err error
			if w.n, err = w.o.Dial(ctx); err != nil {
				return Look{}, err
			}
		}
		l, err := w.n.Look(ctx, w.b.Run)
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, ErrLost) || ctx.Err() != nil:
			return Look{}, err
		}
		w.n.Close()
		w.n = nil
	}
}

func (w *watch) judge(now time.Time, l Look) error {
	if c := l.Checkpoint; c.At != w.last || w.changed.IsZero() {
		w.last, w.changed = c.At, now
	}
	err := w.dog.See(now, l.Checkpoint.TokenRate, l.Checkpoint.InFlight > 0)
	if w.o.Seen != nil {
		w.o.Seen(l, w.dog)
	}
	switch {
	case err != nil:
		return err
	case now.Sub(w.changed) >= w.o.Silent:
		return fmt.Errorf("%w: it has written nothing for %s", ErrStuck, now.Sub(w.changed).Round(time.Second))
	case now.After(w.end):
		return fmt.Errorf("%w: it runs for longer than %s", ErrStuck, w.b.Duration+w.o.Slack)
	}
	return nil
}

// stop ends the measurement, which then saves what there is.
func (w *watch) stop(ctx context.Context) error {
	_, err := w.n.ask(ctx, call{command: "bench-stop", words: words{"run": w.b.Run}})
	if isExit(err) { // there was nothing left to stop
		return nil
	}
	for range 10 {
		if l, err := w.n.Look(ctx, w.b.Run); err != nil || l.Ended {
			return err
		}
		time.Sleep(min(w.o.Every, time.Second))
	}
	return err
}
