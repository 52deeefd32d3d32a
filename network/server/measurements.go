package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// Defaults of a measurement.
const (
	measureAhead   = 30 * time.Second
	measureTimeout = time.Hour
)

// CreateMeasurement keeps a measurement, which whoever decides then makes.
func (s *Server) CreateMeasurement(ctx context.Context, r api.CreateMeasurementRequestObject) (api.CreateMeasurementResponseObject, error) {
	if s.o.Decider == nil {
		return nil, refuse(http.StatusNotImplemented, "this server asks no nodes")
	}
	now, b := s.now(), r.Body
	m := store.Measurement{
		ID: newID(now), Created: now, By: principalOf(ctx).ID, Reason: b.Reason, Mode: string(b.Mode), Profile: deref(b.Profile), Scenario: deref(b.Scenario), Timeout: measureTimeout,
	}
	if b.TimeoutSeconds != nil {
		m.Timeout = time.Duration(*b.TimeoutSeconds) * time.Second
	}
	switch {
	case b.Mode == api.MeasurementModeTogether && b.StartSeconds != nil:
		m.Start = now.Add(time.Duration(*b.StartSeconds) * time.Second)
	case b.Mode == api.MeasurementModeTogether:
		m.Start = now.Add(measureAhead)
	case b.StartSeconds != nil:
		return nil, refuse(http.StatusBadRequest, "start_seconds is for nodes that begin together")
	}
	known := map[string]bool{}
	for _, id := range b.Nodes {
		if known[id] {
			return nil, refuse(http.StatusBadRequest, "node %s is named twice", id)
		}
		known[id] = true
		m.Nodes = append(m.Nodes, store.MeasuredNode{Node: id, State: string(api.MeasuredNodeStateWaiting)})
	}
	requestOf(ctx).detail = fmt.Sprintf("%d nodes %s: %s", len(m.Nodes), m.Mode, m.Reason)
	scope := principalOf(ctx).scope()
	err := s.store.CreateMeasurement(ctx, scope, m, s.trail(ctx, "measurement:"+m.ID))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, notFound("node") // of those that were named
	case errors.Is(err, store.ErrConflict):
		return nil, refuse(http.StatusConflict, "a node cannot be measured now: it is retired, or in a measurement that has not ended")
	}
	if err := trailed(ctx, err); err != nil {
		return nil, err
	}
	kept, err := s.store.Measurement(ctx, scope, m.ID)
	if err != nil {
		return nil, err
	}
	out, err := measurementOf(kept, true)
	return api.CreateMeasurement201JSONResponse(out), err
}

// ListMeasurements lists measurements, newest first.
func (s *Server) ListMeasurements(ctx context.Context, r api.ListMeasurementsRequestObject) (api.ListMeasurementsResponseObject, error) {
	all, err := s.store.Measurements(ctx, principalOf(ctx).scope(), pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := []api.Measurement{}
	for _, m := range all {
		one, err := measurementOf(m, false)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	next := older("/api/v1/measurements", r.Params.Limit, len(out), func() string { return out[len(out)-1].Id })
	return api.ListMeasurements200JSONResponse{Body: out, Headers: api.ListMeasurements200ResponseHeaders{Link: next}}, nil
}

// GetMeasurement shows one measurement.
func (s *Server) GetMeasurement(ctx context.Context, r api.GetMeasurementRequestObject) (api.GetMeasurementResponseObject, error) {
	m, err := s.store.Measurement(ctx, principalOf(ctx).scope(), r.Measurement)
	if err != nil {
		return nil, missing(err, "measurement")
	}
	out, err := measurementOf(m, true)
	return api.GetMeasurement200JSONResponse(out), err
}

// CancelMeasurement ends a measurement: whoever decides tells the nodes.
func (s *Server) CancelMeasurement(ctx context.Context, r api.CancelMeasurementRequestObject) (api.CancelMeasurementResponseObject, error) {
	err := s.store.CancelMeasurement(ctx, principalOf(ctx).scope(), r.Measurement, s.now(), s.trail(ctx, "measurement:"+r.Measurement))
	if errors.Is(err, store.ErrConflict) {
		return nil, refuse(http.StatusConflict, "the measurement has ended, or is about to")
	}
	if err := trailed(ctx, err); err != nil {
		return nil, missing(err, "measurement")
	}
	return api.CancelMeasurement204Response{}, nil
}

// MeasuredFigures are what is kept of a node's run in a measurement.
type MeasuredFigures struct {
	Run    string           `json:"run,omitempty"`
	Clock  *api.NodeClock   `json:"clock,omitempty"`
	Stages []api.JointStage `json:"stages,omitempty"`
}

// measurementOf is a measurement as the API shows it; whole: with stages.
func measurementOf(m store.Measurement, whole bool) (api.Measurement, error) {
	out := api.Measurement{
		Id: m.ID, Created: m.Created, By: m.By, Reason: m.Reason, Mode: api.MeasurementMode(m.Mode), Profile: m.Profile, Scenario: m.Scenario,
		Start: maybe(m.Start), Ended: maybe(m.Ended), State: api.MeasurementStateRunning, Nodes: []api.MeasuredNode{},
	}
	switch cancelled := !m.Cancelled.IsZero(); {
	case cancelled && !m.Ended.IsZero():
		out.State = api.MeasurementStateCancelled
	case cancelled:
		out.State = api.MeasurementStateCancelling
	case !m.Ended.IsZero():
		out.State = api.MeasurementStateDone
	}
	for _, n := range m.Nodes {
		one := api.MeasuredNode{Node: n.Node, Owner: n.Owner, State: api.MeasuredNodeState(n.State), Asked: maybe(n.Asked), Started: maybe(n.Started), Ended: maybe(n.Ended)}
		for to, v := range map[**string]string{&one.Hostname: n.Hostname, &one.Cause: n.Cause, &one.Report: n.Report} {
			if v != "" {
				*to = &v
			}
		}
		if whole {
			var f MeasuredFigures
			if err := json.Unmarshal(n.Figures, &f); err != nil {
				return out, fmt.Errorf("what node %s measured: %w", n.Node, err)
			}
			if one.Clock = f.Clock; f.Stages != nil {
				one.Stages = &f.Stages
			}
			if f.Run != "" {
				one.Run = &f.Run
			}
		}
		out.Nodes = append(out.Nodes, one)
	}
	if whole && !m.Ended.IsZero() {
		out.Result = &api.JointResult{}
		if err := json.Unmarshal(m.Result, out.Result); err != nil {
			return out, fmt.Errorf("the result of measurement %s: %w", m.ID, err)
		}
	}
	return out, nil
}
