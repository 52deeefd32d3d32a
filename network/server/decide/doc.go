// Package decide is what a server does by itself: it judges reports, says who is
// silent, does what is due, and sees to it that what was decided leaves.
//
// What it promises: a node is judged by its uploaded evidence, scored anew with a
// baseline that the server chose, and by nothing that the node says of itself.
// Every change of a node is a compare-and-set on its version in one transaction
// with the breaker's row, the signed statement about it and the messages for
// people: any number of processes may run it on one database, and any of them may
// die or stand still at any moment; together they make each decision once. Leases
// only keep processes from doing the same work twice; nothing rests on them
// (docs/adr/037-leases-and-compare-and-set.md).
//
// What it refuses: to take evidence that cannot be read for anything but unknown,
// to read without a bound, and to hold a lock that a connection carries.
package decide

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

// Evidence opens an object; what is read is compared with its hash.
type Evidence interface {
	Open(ctx context.Context, o evidence.Object) (io.ReadCloser, error)
}

// Sink takes records for the ledger, in each node's order; that of ledger/kafka is
// one.
type Sink interface {
	Deliver(ctx context.Context, records []ledger.Record) ([]outbox.Outcome, error)
}

// Options say what a decider works with. Store, Signer and Origin must be given.
type Options struct {
	Store    *store.Store  // which records its audit entries
	Signer   ledger.Signer // a key of the role server
	Origin   string        // the server's
	Evidence Evidence      // nil: reports are not judged here
	// Discard removes an object that no report names any more; nil: objects stay.
	Discard func(context.Context, evidence.Object) error
	Sink    Sink // nil: what is to be published stays

	Webhooks webhook.Targets
	Secret   webhook.Secret
	Client   *http.Client // for webhooks; nil: none is sent here

	Holder  string // this process, unique for each start; empty: made
	Scratch string // where evidence is unpacked; empty: the system's
	Limits  Limits
	Log     *slog.Logger     // nil: nothing is logged
	Now     func() time.Time // nil: the clock
	Every   time.Duration    // how often there is a look for work; zero: a second
	Lease   time.Duration    // how long a lease is held; zero: 15 s

	Retention *store.Retention // nil: the store's default
	Models    Models           // whose models are compared, and with what
}

// Limits bound what is read of one report. Zero values are the defaults.
type Limits struct {
	Bytes int64         // of all files together; 1 GiB
	Lines int           // of all files together; 20,000,000
	Time  time.Duration // for reading and scoring; two minutes
	// Retry is how long evidence that cannot be fetched is tried for, from when it
	// was confirmed; an hour. Then the report is unknown.
	Retry time.Duration
}

func (l Limits) resolved() Limits {
	if l.Bytes == 0 {
		l.Bytes = 1 << 30
	}
	if l.Lines == 0 {
		l.Lines = 20_000_000
	}
	if l.Time == 0 {
		l.Time = 2 * time.Minute
	}
	if l.Retry == 0 {
		l.Retry = time.Hour
	}
	return l
}

// Decider decides. Run does what goes on by itself; the other methods can be
// called whether it runs or not.
type Decider struct {
	o       Options
	store   *store.Store
	log     *slog.Logger
	started time.Time
	reports chan struct{} // there may be one to judge
	metrics *metrics

	mu      sync.Mutex
	policy  control.Policy // the one in force when it was last looked at
	has     bool
	entropy *ulid.MonotonicEntropy
	held    int // leases
	failing map[string]failure
	tries   map[string]retry
}

// New makes a decider.
func New(o Options) (*Decider, error) {
	switch {
	case o.Store == nil:
		return nil, errors.New("a decider needs a store")
	case !o.Store.Records():
		return nil, errors.New("a decider needs a store that records what people do")
	case o.Signer == nil || o.Origin == "":
		return nil, errors.New("a decider needs the server's key and its origin: what it decides is signed")
	}
	d := &Decider{o: o, store: o.Store, log: o.Log, reports: make(chan struct{}, 1), entropy: ulid.Monotonic(rand.Reader, 0), tries: map[string]retry{}, failing: map[string]failure{}, metrics: newMetrics()}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.o.Now == nil {
		d.o.Now = time.Now
	}
	if d.o.Every == 0 {
		d.o.Every = time.Second
	}
	if d.o.Lease == 0 {
		d.o.Lease = 15 * time.Second
	}
	d.o.Limits = o.Limits.resolved()
	d.started = d.now()
	if d.o.Holder == "" {
		d.o.Holder = d.newID(d.started)
	}
	return d, nil
}

// now is in microseconds, as the database has times: what is signed is then what
// is stored.
func (d *Decider) now() time.Time { return d.o.Now().UTC().Truncate(time.Microsecond) }

// newID makes an id. Those of one process grow, also within a millisecond, so that
// what was decided together is listed in its order.
func (d *Decider) newID(at time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(at), d.entropy)
	if err != nil { // more than 2^80 in a millisecond, or no random numbers
		panic(fmt.Sprintf("make an id: %v", err))
	}
	return id.String()
}

// Reported is told that there may be a report to judge.
func (d *Decider) Reported() {
	select {
	case d.reports <- struct{}{}:
	default: // it is known
	}
}

// inForce is the policy in force; the default, version 0, where none was applied.
func (d *Decider) inForce(ctx context.Context) (control.Policy, error) {
	version, err := d.store.PolicyVersion(ctx)
	if err != nil {
		return control.Policy{}, err
	}
	d.mu.Lock()
	p, has := d.policy, d.has
	d.mu.Unlock()
	if has && p.Version == version {
		return p, nil
	}
	if p, err = d.readPolicy(ctx, version); err != nil {
		return control.Policy{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.policy, d.has = p, true
	return p, nil
}
