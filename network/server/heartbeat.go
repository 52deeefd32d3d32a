package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// maxBeats is how many heart-beats one statement stores.
const maxBeats = 1000

// Heartbeat stores that a node is there. It is answered when the batch that it is
// in is stored: then the answer is true, a server that dies has promised nothing,
// and what the node has to be told is read once for all of the batch. A node that
// comes alone waits for nothing; with thousands the wait is at most the time in
// which they gather, which nobody notices every thirty seconds.
func (s *Server) Heartbeat(ctx context.Context, r api.HeartbeatRequestObject) (api.HeartbeatResponseObject, error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, err
	}
	running := int64(-1) // unknown
	if r.Body.RunningKnown == nil || *r.Body.RunningKnown {
		running = int64(r.Body.Running)
	}
	now := s.now()
	st, err := s.beats.submit(ctx, store.Beat{Node: r.Node, Seen: now, Version: foreign.Line(r.Body.Version, 100), Running: running, Body: body})
	if err != nil {
		return nil, err
	}
	if st.Node == "" {
		return nil, notFound("node")
	}
	if st.Version == 0 {
		s.enrolled(ctx, r.Node) // the one who took it in could not finish
	}
	return api.Heartbeat200JSONResponse{
		Time: s.now().UTC(), HeartbeatSeconds: s.heartbeatSeconds(), SettingsVersion: st.SettingsVersion,
		SendInventory: r.Body.InventorySha256 == "" || r.Body.InventorySha256 != st.InventorySHA256,
		Intent:        api.Intent(st.Intent), State: api.Admission(st.Admission),
	}, nil
}

// flushBeats stores a batch, and reads what its nodes have to be told.
func (s *Server) flushBeats(ctx context.Context, beats []store.Beat) ([]store.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := s.store.Beats(ctx, beats); err != nil {
		return nil, s.away(ctx, err)
	}
	ids := make([]string, len(beats))
	for i, b := range beats {
		ids[i] = b.Node
	}
	found, err := s.store.Standings(ctx, ids)
	if err != nil {
		return nil, s.away(ctx, err)
	}
	out := make([]store.Standing, len(beats))
	for i, id := range ids {
		out[i] = found[id]
	}
	s.metrics.add(countBeats, len(beats))
	s.metrics.add(countBeatBatches, 1)
	return out, nil
}

// away is one refusal for a whole batch, logged once.
func (s *Server) away(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		s.log.Error("could not store heart-beats", "error", err)
	}
	return refuseFor(http.StatusServiceUnavailable, 5*time.Second, "the database does not answer now")
}
