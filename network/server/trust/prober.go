// Package trust looks at nodes from outside: it sends completions as customers do,
// matches them with what the nodes' engines say that they counted, and has
// network/trust judge it.
//
// What it promises: a node learns of a session nothing but requests that look like a
// customer's, at times and of lengths that nobody knows before. What a session may
// cost is bounded: 24 windows of about a heart-beat, in half of them a few streams of
// at most 256 tokens, and only so many sessions and requests at once. One process does
// it at a time, by a lease; a session that is cut off is begun anew by the next.
//
// What it refuses: to decide. It hands findings to whoever does, and the policy says
// what follows. While it seems to be cut off itself it accuses nobody of being away.
package trust

import (
	"context"
	crand "crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/ask"
	"github.com/assay-bench/assay/network/store"
)

// Store is what is read, and the lease.
type Store interface {
	Routes(context.Context) ([]store.Route, error)
	Counts(ctx context.Context, nodes []string) ([]store.Count, error)
	Points(ctx context.Context, scope store.Scope, node string, since time.Time) ([]store.Point, error)
	Acquire(ctx context.Context, name, holder string, hold time.Duration) (store.Lease, error)
}

// Decider is told what was found. anomaly is the kind that one that failed is.
type Decider interface {
	Found(ctx context.Context, f store.Finding, anomaly string) error
	Policy(context.Context) (control.Policy, error)
}

// Options say how nodes are looked at. Store, Decider, Way and Holder must be given.
type Options struct {
	Store   Store
	Decider Decider
	// Way is how nodes are asked. Those that are not in rotation are asked straight
	// where it names a router: no router sends them anything.
	Way       ask.Way
	Holder    string        // this process, unique for each start
	Heartbeat time.Duration // how often agents tell their counters; zero: 30 s
	Poll      time.Duration // how often counters are looked at; zero: a fifteenth of a heart-beat
	Sessions  int           // at once; zero: 64
	Requests  int           // at once; zero: 32
	Log       *slog.Logger  // nil: nothing is logged
}

// The checks, and the kinds of anomalies that they find.
const (
	CheckAddress = "address"
	CheckSpeed   = "speed"

	kindReach   = "unreachable"
	kindAddress = "address_false"
	kindSpeed   = "slower_outside"
)

const (
	lease = "trust"
	// retryReach is how soon one that could not be reached is looked at again.
	retryReach = 5 * time.Minute
	maxStreams = 4
)

// Prober looks at nodes.
type Prober struct {
	o        Options
	log      *slog.Logger
	sessions chan struct{}
	requests chan struct{}

	mu      sync.Mutex
	running map[string]bool      // by replica
	next    map[string]time.Time // by replica and what is known of it
	reached map[string]bool      // by node that answered once: the last look
	never   map[string]bool      // nodes that never answered
	streams map[string]int       // by replica: of a probe
	rng     *rand.Rand
	counts  counts
}

// New makes a prober.
func New(o Options) (*Prober, error) {
	if o.Store == nil || o.Decider == nil || o.Holder == "" {
		return nil, errors.New("a prober needs a store, a decider and a holder")
	}
	if err := o.Way.Check(); err != nil {
		return nil, err
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 30 * time.Second
	}
	if o.Poll == 0 {
		o.Poll = o.Heartbeat / 15
	}
	if o.Sessions == 0 {
		o.Sessions = 64
	}
	if o.Requests == 0 {
		o.Requests = 32
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	return &Prober{
		o: o, log: o.Log, sessions: make(chan struct{}, o.Sessions), requests: make(chan struct{}, o.Requests),
		running: map[string]bool{}, next: map[string]time.Time{}, reached: map[string]bool{}, never: map[string]bool{}, streams: map[string]int{},
		rng: rand.New(rand.NewChaCha8(seed)), counts: newCounts(),
	}, nil
}

// Run looks at nodes until ctx ends, while it holds the lease.
func (p *Prober) Run(ctx context.Context) {
	tick := time.NewTicker(max(p.o.Poll, 100*time.Millisecond))
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	var turn tenure
	defer turn.end()
	var told time.Time
	for {
		_, err := p.o.Store.Acquire(ctx, lease, p.o.Holder, max(30*time.Second, 10*p.o.Poll))
		if err == nil {
			err = p.begin(turn.of(ctx), &all)
		} else {
			turn.end() // somebody else looks now, or nobody can
		}
		if err != nil && !errors.Is(err, store.ErrLease) && ctx.Err() == nil && time.Since(told) >= 30*time.Second {
			told = time.Now()
			p.log.Error("could not look at nodes from outside; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tenure is the time in which the lease is held.
type tenure struct {
	ctx  context.Context
	stop context.CancelFunc
}

// of is the context of what is done in it.
func (t *tenure) of(ctx context.Context) context.Context {
	if t.ctx == nil {
		t.ctx, t.stop = context.WithCancel(ctx)
	}
	return t.ctx
}

func (t *tenure) end() {
	if t.ctx != nil {
		t.stop()
		t.ctx = nil
	}
}

// begin begins the sessions that are due, as far as there is room.
func (p *Prober) begin(ctx context.Context, all *sync.WaitGroup) error {
	if len(p.sessions) == cap(p.sessions) {
		return nil
	}
	policy, err := p.o.Decider.Policy(ctx)
	if err != nil {
		return err
	}
	routes, err := p.o.Store.Routes(ctx)
	if err != nil {
		return err
	}
	p.forget(routes)
	now := time.Now()
	for _, r := range routes {
		if !p.due(r, policy, now) {
			continue
		}
		select {
		case p.sessions <- struct{}{}:
		default:
			return nil
		}
		p.mu.Lock()
		p.running[r.ID] = true
		p.mu.Unlock()
		all.Go(func() {
			p.look(ctx, r, policy)
			p.mu.Lock()
			delete(p.running, r.ID)
			p.mu.Unlock()
			<-p.sessions
		})
	}
	return nil
}

// due says whether it is time to look at a replica. When that is was drawn by chance:
// nobody can be ready for it.
func (p *Prober) due(r store.Route, policy control.Policy, now time.Time) bool {
	if r.NodeFacts.Contact != string(control.Seen) || r.EngineDown || r.NodeFacts.Intent != string(control.Serve) {
		return false
	}
	if _, err := control.ParseServing(r.ServingURL); err != nil {
		return false // the table of routes says so
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[r.ID] {
		return false
	}
	reach, address := r.Proofs[control.CheckReach], r.Proofs[CheckAddress]
	key := r.ID + " " + r.ServingURL + " " + reach.At.String()
	at, drawn := p.next[key]
	if !drawn {
		every := time.Duration(policy.Trust.Every)
		switch {
		case !control.SameServing(reach.URL, r.ServingURL):
			every = min(every, retryReach) // it has a new address, or is new
			at = now.Add(time.Duration(p.rng.Float64() * float64(every) / 5))
		case reach.Verdict == control.ProofFail:
			at = reach.At.Add(min(every, retryReach))
		default:
			if address.Verdict != control.ProofPass {
				every /= 4
			}
			at = reach.At.Add(time.Duration((0.5 + 0.5*p.rng.Float64()) * float64(every)))
		}
		p.next[key] = at
	}
	return !now.Before(at)
}

// forget forgets nodes and replicas that are not there any more: one that was taken
// away is not one that cannot be reached.
func (p *Prober) forget(routes []store.Route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.next) > 4*len(routes)+1000 {
		clear(p.next) // it is drawn anew
	}
	there := make(map[string]bool, 2*len(routes))
	for _, r := range routes {
		there[r.ID], there[r.Node] = true, true
	}
	gone := func(id string, _ bool) bool { return !there[id] }
	maps.DeleteFunc(p.reached, gone)
	maps.DeleteFunc(p.never, gone)
	maps.DeleteFunc(p.streams, func(id string, _ int) bool { return !there[id] })
}

// random is a source of its own for a session.
func (p *Prober) random() *rand.Rand {
	p.mu.Lock()
	defer p.mu.Unlock()
	return rand.New(rand.NewPCG(p.rng.Uint64(), p.rng.Uint64()))
}
