package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server/routing"
	"github.com/assay-bench/assay/network/store"
)

// Defaults of [Options].
const (
	DefaultHeartbeat      = 30 * time.Second
	DefaultMaxUnpublished = 1_000_000
)

// Default limits. A node asks a few times a minute; its outbox comes in batches.
// An address stands for many nodes where they share one way out.
var (
	DefaultAddressRate = Rate{PerSecond: 50, Burst: 500}
	DefaultPersonRate  = Rate{PerSecond: 20, Burst: 200}
	DefaultNodeRate    = Rate{PerSecond: 5, Burst: 60}
	DefaultAuditRate   = Rate{PerSecond: 1, Burst: 100}
)

// Options say what a server is made of. Store and Identity must be given.
type Options struct {
	Store    *store.Store // which records its audit entries
	Identity Identity
	Evidence Evidence // nil: reports are refused
	Decider  Decider  // nil: actions are refused
	Rules    Rules    // nil: policies cannot be tested
	Rentals  Rentals  // nil: nothing is known of rented machines
	Renting  Renting  // nil: none are rented here
	// Ready says what else must be well for requests to be served; nil: nothing.
	Ready func(context.Context) error
	// Metrics adds to the page, and Decisions what was decided; nil: nothing.
	Metrics   func(*promtext.Page)
	Decisions func(context.Context, *promtext.Page) error

	// Authenticators are asked after the server's own, which knows API tokens and
	// log-ins of nodes.
	Authenticators []Authenticator
	SignIn         string // where people sign in; empty: nowhere
	// Mounts are answered by others, who say themselves whom they answer: paths, as
	// the standard mux has them.
	Mounts map[string]http.Handler

	Version   string
	Log       *slog.Logger     // nil: nothing is logged
	Now       func() time.Time // nil: the clock
	Heartbeat time.Duration    // what agents are told; zero: DefaultHeartbeat
	BeatEvery time.Duration    // how long heart-beats gather; zero: a second
	// MaxUnpublished is how many records may wait to be published; zero:
	// DefaultMaxUnpublished; negative: without a bound, where nobody publishes.
	MaxUnpublished int
	// TrustedProxies are networks of proxies in front, whose word about who asks is
	// taken (X-Forwarded-For); none: headers about addresses are not read.
	TrustedProxies []netip.Prefix
	AddressRate    *Rate // of requests that nobody known sends; nil: DefaultAddressRate
	PersonRate     *Rate
	NodeRate       *Rate
	AuditRate      *Rate // of refusals that one principal leaves in the audit log; nil: DefaultAuditRate
}

// Server answers requests. Run must be running while it does.
type Server struct {
	o              Options
	store          *store.Store
	identity       Identity
	log            *slog.Logger
	now            func() time.Time
	authenticators []Authenticator
	origins        *http.CrossOriginProtection
	mux            *http.ServeMux
	metrics        *metrics

	byAddress, byPerson, byNode, byAudit *limiter

	beats   *batcher[store.Beat, store.Standing]
	polls   *polls[store.Command]
	ended   chan struct{} // closed when Run ends: nobody waits on
	end     sync.Once
	routes  *routing.Table
	rejects rejections
	backlog backlog
}

// New makes a server. It fails where the document, the table of who may what and
// the handlers do not fit together.
func New(o Options) (*Server, error) {
	if o.Store == nil {
		return nil, errors.New("a server needs a store")
	}
	if !o.Store.Records() {
		return nil, errors.New("a server needs a store that records what is done there: store.RecordedBy(Identity.Record)")
	}
	if err := o.Identity.check(); err != nil {
		return nil, err
	}
	s := &Server{
		o: o, store: o.Store, identity: o.Identity, log: o.Log, now: o.Now, metrics: newMetrics(), ended: make(chan struct{}),
		origins: http.NewCrossOriginProtection(), mux: http.NewServeMux(),
		byAddress: newLimiter(or(o.AddressRate, DefaultAddressRate)), byPerson: newLimiter(or(o.PersonRate, DefaultPersonRate)),
		byNode: newLimiter(or(o.NodeRate, DefaultNodeRate)), byAudit: newLimiter(or(o.AuditRate, DefaultAuditRate)),
	}
	s.defaults()
	s.authenticators = append([]Authenticator{tokens{s}}, o.Authenticators...)
	s.beats = newBatcher(s.o.BeatEvery, maxBeats, s.flushBeats)
	s.polls = newPolls(time.Second, s.waitingCommands)
	s.routes = routing.NewTable(o.Store, routing.Options{Now: s.now, Log: s.log})
	if err := s.register(); err != nil {
		return nil, fmt.Errorf("make the server: %w", err)
	}
	return s, nil
}

func (s *Server) defaults() {
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.o.Heartbeat == 0 {
		s.o.Heartbeat = DefaultHeartbeat
	}
	if s.o.BeatEvery == 0 {
		s.o.BeatEvery = time.Second
	}
	if s.o.MaxUnpublished == 0 {
		s.o.MaxUnpublished = DefaultMaxUnpublished
	}
}

func or(r *Rate, otherwise Rate) Rate {
	if r == nil {
		return otherwise
	}
	return *r
}

// register puts every operation behind its guard.
func (s *Server) register() error {
	wrap, missing, err := s.guards()
	if err != nil {
		return err
	}
	strict := api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			if refusalOf(err) == nil {
				err = refuse(http.StatusBadRequest, "%s", err)
			}
			s.fail(w, r, err)
		},
		ResponseErrorHandlerFunc: s.fail,
	})
	api.HandlerWithOptions(strict, api.StdHTTPServerOptions{
		BaseRouter: router{s.mux, wrap},
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			s.fail(w, r, refuse(http.StatusBadRequest, "%s", err))
		},
	})
	for path, h := range s.o.Mounts {
		if strings.HasPrefix(s.o.SignIn, path) {
			h = s.strangers(h)
		}
		s.mux.Handle(path, h)
	}
	return missing()
}

// Run does what goes on beside the answers until ctx ends: heart-beats are stored,
// polls served, counts written, who gets requests read.
func (s *Server) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.beats.run(ctx) })
	all.Go(func() { s.polls.run(ctx, s.trouble("look for commands")) })
	all.Go(func() { s.flushRejections(ctx) })
	all.Go(func() { s.routes.Run(ctx) })
	<-ctx.Done()
	s.Quit()
	all.Wait()
}

// Quit answers every poll that waits, so that the listener can close. New ones
// are answered at once.
func (s *Server) Quit() { s.end.Do(func() { close(s.ended) }) }

// trouble logs what goes wrong beside the answers, at most every ten seconds.
func (s *Server) trouble(doing string) func(error) {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := s.now(); now.Sub(last) >= 10*time.Second && !errors.Is(err, context.Canceled) {
			last = now
			s.log.Error("could not "+doing, "error", err)
		}
	}
}
