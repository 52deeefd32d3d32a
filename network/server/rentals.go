package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// Rentals is what is known of machines that were rented, and of what they measured.
type Rentals interface {
	// Sessions lists machines, the newest first.
	Sessions(ctx context.Context, q SessionQuery) ([]api.Session, error)
	// Benchmarks lists the last result of each kind of machine, the best first: those
	// that keep the limits, by the order that was asked for.
	Benchmarks(ctx context.Context, q BenchmarkQuery) ([]api.Benchmark, error)
}

// Renting asks clouds, and rents from them. What it refuses is one of the errors
// below, and their words are for whoever asked.
type Renting interface {
	// Offers is what can be rented now. [ErrClouds]: none of them answered.
	Offers(ctx context.Context, q OfferQuery) (api.Offers, error)
	// Rent rents a machine and gives its session. [ErrStaleOffer]: take another offer;
	// [ErrRefused]: the order or its money is not good; [ErrClouds]: the cloud is not
	// to be used now.
	Rent(ctx context.Context, n api.NewSession) (session string, err error)
	// End begins the end of a session, as its user wants it. [ErrNoSession]: there is
	// none.
	End(ctx context.Context, session string, done bool) error
	// Extend lets a session live so long from now on. [ErrNoSession]; [ErrRefused]: it
	// is being ended.
	Extend(ctx context.Context, session string, d time.Duration) error
}

// Errors of Renting.
var (
	ErrNoSession  = errors.New("there is no such session")
	ErrStaleOffer = errors.New("the offer is gone")
	ErrClouds     = errors.New("the cloud cannot be used now")
)

// OfferQuery narrows offers; its zero value asks for all.
type OfferQuery struct {
	Provider  string
	GPU       string
	MinVRAMGB int
	MaxPrice  *float64 // USD an hour
}

// SessionQuery narrows sessions.
type SessionQuery struct {
	ID       string // only this one
	Status   api.SessionStatus
	Provider string
	Before   string // only those that are older than this one
	Limit    int
}

// BenchmarkQuery narrows results.
type BenchmarkQuery struct {
	Model string // empty: all
	SLO   []assay.Objective
	Cost  bool // the cheapest first, and not the fastest
}

// staleInventory is the type of the problem that an offer is gone.
const staleInventory = "stale_inventory"

// rented refuses what a server without rented machines cannot answer.
func (s *Server) rented() error {
	if s.o.Rentals == nil {
		return refuse(http.StatusNotImplemented, "this server knows no campaigns: --campaigns names their database")
	}
	return nil
}

// renting refuses what a server without credentials cannot do.
func (s *Server) renting() error {
	if err := s.rented(); err != nil || s.o.Renting != nil {
		return err
	}
	return refuse(http.StatusNotImplemented, "this server has no credentials of clouds: --credentials names their file")
}

// rentalFault makes an error of a cloud one for whoever asked.
func rentalFault(err error) error {
	switch {
	case errors.Is(err, ErrNoSession):
		return notFound("session")
	case errors.Is(err, ErrStaleOffer):
		return &refusal{status: http.StatusServiceUnavailable, kind: staleInventory, retry: time.Minute, detail: err.Error()}
	case errors.Is(err, ErrClouds):
		return refuseFor(http.StatusServiceUnavailable, time.Minute, "%s", err)
	case errors.Is(err, ErrRefused):
		return refuse(http.StatusConflict, "%s", err)
	}
	return err
}

// ListOffers lists what can be rented.
func (s *Server) ListOffers(ctx context.Context, r api.ListOffersRequestObject) (api.ListOffersResponseObject, error) {
	p := r.Params
	gpu := deref(p.GpuType)
	if gpu == "" {
		gpu = deref(p.GpuName)
	}
	out, err := s.offers(ctx, OfferQuery{Provider: deref(p.Provider), GPU: gpu, MinVRAMGB: deref(p.MinVram), MaxPrice: p.MaxPrice})
	return api.ListOffers200JSONResponse(out), err
}

func (s *Server) offers(ctx context.Context, q OfferQuery) (api.Offers, error) {
	if err := s.renting(); err != nil {
		return api.Offers{}, err
	}
	out, err := s.o.Renting.Offers(ctx, q)
	return out, rentalFault(err)
}

// ListSessions lists machines that were rented, the newest first.
func (s *Server) ListSessions(ctx context.Context, r api.ListSessionsRequestObject) (api.ListSessionsResponseObject, error) {
	if err := s.rented(); err != nil {
		return nil, err
	}
	p := r.Params
	q := SessionQuery{Status: deref(p.Status), Provider: deref(p.Provider), Before: deref(p.Before), Limit: limitOf(p.Limit)}
	list, err := s.o.Rentals.Sessions(ctx, q)
	if err != nil {
		return nil, err
	}
	var next *string
	if len(list) > 0 && len(list) == q.Limit {
		more := url.Values{"limit": {strconv.Itoa(q.Limit)}}
		for name, v := range map[string]string{"status": string(q.Status), "provider": q.Provider} {
			if v != "" {
				more.Set(name, v)
			}
		}
		next = link("/api/v1/sessions", more, "before", list[len(list)-1].Id)
	}
	return api.ListSessions200JSONResponse{Body: list, Headers: api.ListSessions200ResponseHeaders{Link: next}}, nil
}

// session reads one.
func (s *Server) session(ctx context.Context, id string) (api.Session, error) {
	if err := s.rented(); err != nil {
		return api.Session{}, err
	}
	list, err := s.o.Rentals.Sessions(ctx, SessionQuery{ID: id, Limit: 1})
	if err == nil && len(list) == 0 {
		err = notFound("session")
	}
	if err != nil {
		return api.Session{}, err
	}
	return list[0], nil
}

// GetSession shows one.
func (s *Server) GetSession(ctx context.Context, r api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	out, err := s.session(ctx, r.Session)
	return api.GetSession200JSONResponse(out), err
}

// CreateSession rents a machine.
func (s *Server) CreateSession(ctx context.Context, r api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	if err := s.renting(); err != nil {
		return nil, err
	}
	req := requestOf(ctx)
	req.detail = "offer " + r.Body.OfferId
	id, err := s.o.Renting.Rent(ctx, *r.Body)
	if id != "" {
		req.target = "session:" + id
	}
	if err != nil {
		return nil, rentalFault(err)
	}
	out, err := s.session(ctx, id)
	return api.CreateSession201JSONResponse(out), err
}

// change does something to a session, and shows it.
func (s *Server) change(ctx context.Context, id string, do func() error) (api.Session, error) {
	if err := s.renting(); err != nil {
		return api.Session{}, err
	}
	if err := do(); err != nil {
		return api.Session{}, rentalFault(err)
	}
	requestOf(ctx).target = "session:" + id // it is one, and nobody's words
	return s.session(ctx, id)
}

// DeleteSession has a machine destroyed.
func (s *Server) DeleteSession(ctx context.Context, r api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	out, err := s.change(ctx, r.Session, func() error { return s.o.Renting.End(ctx, r.Session, false) })
	return api.DeleteSession200JSONResponse(out), err
}

// FinishSession has a machine destroyed whose work is done.
func (s *Server) FinishSession(ctx context.Context, r api.FinishSessionRequestObject) (api.FinishSessionResponseObject, error) {
	out, err := s.change(ctx, r.Session, func() error { return s.o.Renting.End(ctx, r.Session, true) })
	return api.FinishSession200JSONResponse(out), err
}

// ExtendSession lets a machine live on.
func (s *Server) ExtendSession(ctx context.Context, r api.ExtendSessionRequestObject) (api.ExtendSessionResponseObject, error) {
	d := time.Duration(r.Body.Hours * float64(time.Hour))
	out, err := s.change(ctx, r.Session, func() error { return s.o.Renting.Extend(ctx, r.Session, d) })
	return api.ExtendSession200JSONResponse(out), err
}

// benchmarks ranks results.
func (s *Server) benchmarks(ctx context.Context, model, slo *string, cost bool) ([]api.Benchmark, error) {
	objectives, err := parseObjectives(deref(slo))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "slo: %s", foreign.Line(err.Error(), maxDetail))
	}
	if err := s.rented(); err != nil {
		return nil, err
	}
	return s.o.Rentals.Benchmarks(ctx, BenchmarkQuery{Model: deref(model), SLO: objectives, Cost: cost})
}

// first is the best of a ranking, if it is known to be one.
func first(list []api.Benchmark, err error, known func(api.Benchmark) bool) (api.Benchmark, error) {
	if err == nil && (len(list) == 0 || list[0].Kept != api.BenchmarkKeptPass || !known(list[0])) {
		err = refuse(http.StatusNotFound, "no result is known to be one: /api/v1/benchmarks/compare says why of each")
	}
	if err != nil {
		return api.Benchmark{}, err
	}
	return list[0], nil
}

// GetBestBenchmark shows the fastest result.
func (s *Server) GetBestBenchmark(ctx context.Context, r api.GetBestBenchmarkRequestObject) (api.GetBestBenchmarkResponseObject, error) {
	list, err := s.benchmarks(ctx, r.Params.Model, r.Params.Slo, false)
	out, err := first(list, err, func(b api.Benchmark) bool { return b.TokensPerSecond != nil })
	return api.GetBestBenchmark200JSONResponse(out), err
}

// GetCheapestBenchmark shows the result whose tokens cost least.
func (s *Server) GetCheapestBenchmark(ctx context.Context, r api.GetCheapestBenchmarkRequestObject) (api.GetCheapestBenchmarkResponseObject, error) {
	list, err := s.benchmarks(ctx, r.Params.Model, r.Params.Slo, true)
	out, err := first(list, err, func(b api.Benchmark) bool { return b.CostPerMillionTokens != nil })
	return api.GetCheapestBenchmark200JSONResponse(out), err
}

// CompareBenchmarks shows them all.
func (s *Server) CompareBenchmarks(ctx context.Context, r api.CompareBenchmarksRequestObject) (api.CompareBenchmarksResponseObject, error) {
	list, err := s.benchmarks(ctx, r.Params.Model, r.Params.Slo, true)
	return api.CompareBenchmarks200JSONResponse(list), err
}
