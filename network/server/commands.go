package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// maxCommands is how many commands one poll gives; the rest comes with the next.
const maxCommands = 100

const defaultWait = 30

// ListCommands gives a node its commands, or waits until there is one.
func (s *Server) ListCommands(ctx context.Context, r api.ListCommandsRequestObject) (api.ListCommandsResponseObject, error) {
	seconds := defaultWait
	if r.Params.Wait != nil {
		seconds = *r.Params.Wait
	}
	found, err := s.polls.wait(ctx, s.ended, r.Node, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	out := api.ListCommands200JSONResponse{}
	for i, c := range found {
		if i == maxCommands {
			break
		}
		one := api.Command{Id: c.ID, Kind: api.CommandKind(c.Kind), Created: c.Created, Expires: c.Expires}
		if c.Reason != "" {
			one.Reason = &c.Reason
		}
		out = append(out, one)
	}
	return out, nil
}

// waitingCommands is the one query that serves all polls.
func (s *Server) waitingCommands(ctx context.Context, nodes []string) (map[string][]store.Command, error) {
	s.metrics.add(countPollQueries, 1)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all, err := s.store.WaitingCommands(ctx, nodes, s.now())
	if err != nil {
		return nil, err
	}
	out := map[string][]store.Command{}
	for _, c := range all {
		out[c.Node] = append(out[c.Node], c)
	}
	return out, nil
}

// AcknowledgeCommand notes what became of a command.
func (s *Server) AcknowledgeCommand(ctx context.Context, r api.AcknowledgeCommandRequestObject) (api.AcknowledgeCommandResponseObject, error) {
	c := store.Command{
		ID: r.Command, Node: r.Node, Outcome: string(r.Body.Outcome), Detail: foreign.Line(deref(r.Body.Detail), maxReason), Run: foreign.Line(deref(r.Body.Run), 100),
	}
	err := s.store.AckCommand(ctx, c, r.Body.Outcome != api.AcknowledgementOutcomeStarted, s.now())
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil, refuse(http.StatusConflict, "the command has ended otherwise already")
	case err != nil:
		return nil, missing(err, "command")
	}
	if s.o.Decider != nil {
		if err := s.o.Decider.Acknowledged(ctx, r.Node, r.Command, string(r.Body.Outcome)); err != nil {
			return nil, err
		}
	}
	return api.AcknowledgeCommand204Response{}, nil
}
