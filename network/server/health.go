package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// GetLive says that the process runs.
func (s *Server) GetLive(context.Context, api.GetLiveRequestObject) (api.GetLiveResponseObject, error) {
	return api.GetLive200TextResponse("alive\n"), nil
}

// GetReady says whether requests can be served: the database answers, and its
// schema is one that this program runs on.
func (s *Server) GetReady(ctx context.Context, _ api.GetReadyRequestObject) (api.GetReadyResponseObject, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case <-s.ended:
		return nil, refuseFor(http.StatusServiceUnavailable, 5*time.Second, "the server is ending")
	default:
	}
	if err := s.store.Check(ctx); err != nil {
		s.log.Error("not ready", "error", err)
		return nil, refuseFor(http.StatusServiceUnavailable, 5*time.Second, "the database does not answer, or its schema is not right")
	}
	if s.o.Ready != nil {
		if err := s.o.Ready(ctx); err != nil {
			s.log.Error("not ready", "error", err)
			return nil, refuseFor(http.StatusServiceUnavailable, 5*time.Second, "the work that processes share is not done")
		}
	}
	return api.GetReady200TextResponse("ready\n"), nil
}

// GetServer says who the server is, and what time it has.
func (s *Server) GetServer(context.Context, api.GetServerRequestObject) (api.GetServerResponseObject, error) {
	out := api.GetServer200JSONResponse{Origin: s.identity.Origin, Version: s.o.Version, Time: s.now().UTC()}
	for _, k := range []struct {
		role, id  string
		statement []byte
	}{{"enrol", s.identity.EnrolKey.ID, s.identity.EnrolKey.Envelope}, {"server", s.identity.OwnKey.ID, s.identity.OwnKey.Envelope}} {
		out.Keys = append(out.Keys, struct {
			Id   api.Sha256 `json:"id"` //nolint:revive,staticcheck // as it is generated
			Role string     `json:"role"`

			// Statement The envelope's bytes
			Statement []byte `json:"statement"`
		}{k.id, k.role, k.statement})
	}
	if s.o.SignIn != "" {
		out.SignIn = &s.o.SignIn
	}
	return out, nil
}

// GetMetrics writes the server's own metrics.
func (s *Server) GetMetrics(ctx context.Context, _ api.GetMetricsRequestObject) (api.GetMetricsResponseObject, error) {
	var p promtext.Page
	s.metrics.page(&p)
	counts, err := s.store.CountNodes(ctx, store.Scope{All: true})
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		p.Gauge("assay_server_nodes", "Nodes by their three facts.", float64(c.Nodes), "admission", c.Admission, "intent", c.Intent, "contact", c.Contact)
	}
	p.Gauge("assay_server_polls", "Polls that wait for commands.", float64(s.polls.waitingNow()))
	if s.o.Decisions != nil {
		if err := s.o.Decisions(ctx, &p); err != nil {
			return nil, err
		}
	}
	if s.o.Metrics != nil {
		s.o.Metrics(&p)
	}
	return metricsPage(p.Bytes()), nil
}

// metricsPage has the format's own type.
type metricsPage []byte

// VisitGetMetricsResponse is for the generated code.
func (m metricsPage) VisitGetMetricsResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", promtext.ContentType)
	_, err := w.Write(m)
	return err
}

// unreachable says whether an error means that the database is away for a while.
func (s *Server) unreachable(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || database.Away(err)
}
