// Package routing tells routers who gets requests: a table of all replicas with
// their weights, read from the registry once a second and kept in memory, and the
// listener that answers HAProxy's agent checks from it.
//
// It promises that no question of a router is a query, and that what is not known
// is not answered: while the database is away the last answers hold for a stated
// time, and then there are none, so that routers keep the state that they have.
// It refuses to decide: weights are those of network/control.
package routing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// Defaults of [Options].
const (
	DefaultEvery = time.Second
	DefaultKeep  = 30 * time.Second
)

// ErrStale means that nothing is known now. Routers keep what they have.
var ErrStale = errors.New("who gets requests is not known now: the database does not answer")

// Store is what is read.
type Store interface {
	Routes(context.Context) ([]store.Route, error)
	Summaries(ctx context.Context, reports []string) (map[string]json.RawMessage, error)
	PolicyVersion(context.Context) (int64, error)
	Policy(ctx context.Context, version int64) (store.Policy, error)
}

// Target is a replica that serves a model somewhere.
type Target struct {
	store.Route
	Address  control.Serving // zero: the serving URL cannot be used
	Contact  control.Contact
	Member   bool // it was admitted once
	Rotation control.Rotation
	control.Weighed
	Untrusted string  // why it gets nothing though it might be routed; empty: it is not that
	Figures   Figures // of its last report
}

// Figures are what the last report measured; nil is unknown.
type Figures struct {
	Figures     *assay.Baseline           `json:"figures"`
	Performance *assay.PerformanceMetrics `json:"performance"`
}

// load names the load that figures are of.
func (f Figures) load() (capacity *float64, load string) {
	if f.Figures == nil {
		return nil, ""
	}
	return f.Figures.OutputTokensPerSecond, fmt.Sprintf("%s %g", f.Figures.Load, f.Figures.At)
}

// Options say how a table is kept. The zero value is usable.
type Options struct {
	Every time.Duration    // how often the registry is read; zero: DefaultEvery
	Keep  time.Duration    // how long answers hold when it cannot be; zero: DefaultKeep
	Now   func() time.Time // nil: the clock
	Log   *slog.Logger     // nil: nothing is logged
}

// Table is who gets requests. Run keeps it.
type Table struct {
	store Store
	o     Options
	now   atomic.Pointer[snapshot]

	mu      sync.Mutex // of who reads
	policy  control.Policy
	reports map[string]Figures // by id
	states  map[string]state   // by replica
}

// state is a replica's state as it was read last.
type state struct {
	node, replica int64 // versions
	joint         control.Node
	last          *control.LastReport // the replica's own; nil: its node's counts
}

// snapshot is the table at one time. It is never changed.
type snapshot struct {
	at      time.Time
	targets []Target
	answers map[string]string // by replica
}

// NewTable makes an empty table.
func NewTable(s Store, o Options) *Table {
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Table{store: s, o: o, policy: control.Default(), reports: map[string]Figures{}, states: map[string]state{}}
}

// Run reads the registry until ctx ends.
func (t *Table) Run(ctx context.Context) {
	tick := time.NewTicker(t.o.Every)
	defer tick.Stop()
	var told time.Time
	for {
		if err := t.Refresh(ctx); err != nil && ctx.Err() == nil {
			if now := t.o.Now(); now.Sub(told) >= 30*time.Second {
				told = now
				t.o.Log.Error("could not read who gets requests; routers get the last answers, and then none", "held for", t.o.Keep, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Refresh reads the registry once.
func (t *Table) Refresh(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(5*time.Second, t.o.Every))
	defer cancel()
	began := t.o.Now() // what is read is at least as new
	if err := t.readPolicy(ctx); err != nil {
		return err
	}
	rows, err := t.store.Routes(ctx)
	if err != nil {
		return err
	}
	t.readStates(rows)
	if err := t.readReports(ctx, rows); err != nil {
		return err
	}
	t.now.Store(t.make(began, rows))
	return nil
}

func (t *Table) readPolicy(ctx context.Context) error {
	version, err := t.store.PolicyVersion(ctx)
	if err != nil || version == t.policy.Version {
		return err
	}
	row, err := t.store.Policy(ctx, version)
	if err != nil {
		return err
	}
	p, err := readPolicy(row)
	if err != nil {
		return err
	}
	t.policy = p
	return nil
}

// readReports reads what was made of reports that are not known yet, and forgets
// those that are nobody's last any more.
func (t *Table) readReports(ctx context.Context, rows []store.Route) error {
	known := make(map[string]Figures, len(t.reports))
	var missing []string
	for _, r := range rows {
		if f, ok := t.reports[r.LastReport]; ok {
			known[r.LastReport] = f
		} else if r.LastReport != "" {
			missing = append(missing, r.LastReport)
		}
	}
	t.reports = known
	for len(missing) > 0 {
		n := min(len(missing), 200)
		found, err := t.store.Summaries(ctx, missing[:n])
		if err != nil {
			return err
		}
		// One that is not there yet is asked for again: it is being written.
		for id, b := range found {
			var f Figures
			if err := json.Unmarshal(b, &f); err != nil {
				t.o.Log.Warn("what was made of a report cannot be read, and counts as unknown", "report", id, "error", err)
			}
			t.reports[id] = f
		}
		missing = missing[n:]
	}
	return nil
}

// Targets are all replicas with a serving URL, by id. They are shared: whoever
// asks changes nothing of them.
func (t *Table) Targets() ([]Target, error) {
	s := t.fresh()
	if s == nil {
		return nil, ErrStale
	}
	return s.targets, nil
}

// Answer is what a router's agent check is told about a replica: ok is false where
// nothing is known, and then nothing is to be said.
func (t *Table) Answer(id string) (line string, ok bool) {
	s := t.fresh()
	if s == nil {
		return "", false
	}
	if line, ok = s.answers[id]; !ok {
		line = answerDown // nobody that has a place in rotation
	}
	return line, true
}

// fresh is the snapshot while it holds; nil: there is none.
func (t *Table) fresh() *snapshot {
	s := t.now.Load()
	if s == nil || t.o.Now().Sub(s.at) > t.o.Keep {
		return nil
	}
	return s
}
