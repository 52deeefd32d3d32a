package server

import (
	"bytes"
	"context"
	"fmt"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// ListTransitions lists what was decided about a node, newest first.
func (s *Server) ListTransitions(ctx context.Context, r api.ListTransitionsRequestObject) (api.ListTransitionsResponseObject, error) {
	all, err := s.store.Transitions(ctx, principalOf(ctx).scope(), r.Node, pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := []api.Transition{}
	for _, t := range all {
		one := api.Transition{
			Id: t.ID, Time: t.At, Fact: api.TransitionFact(t.Fact), From: t.From, To: t.To, Reasons: t.Reasons, Actor: t.Actor, PolicyVersion: t.PolicyVersion,
		}
		if one.Reasons == nil {
			one.Reasons = []string{}
		}
		if len(t.Evidence) > 0 {
			one.Evidence = &t.Evidence
		}
		if t.Replica != "" {
			one.Replica = &t.Replica
		}
		out = append(out, one)
	}
	next := older(fmt.Sprintf("/api/v1/nodes/%s/transitions", r.Node), r.Params.Limit, len(out), func() string { return out[len(out)-1].Id })
	return api.ListTransitions200JSONResponse{Body: out, Headers: api.ListTransitions200ResponseHeaders{Link: next}}, nil
}

// GetTransitionStatement gives a transition as the server signed it.
func (s *Server) GetTransitionStatement(ctx context.Context, r api.GetTransitionStatementRequestObject) (api.GetTransitionStatementResponseObject, error) {
	t, err := s.store.Transition(ctx, principalOf(ctx).scope(), r.Node, r.Transition)
	if err != nil {
		return nil, missing(err, "transition")
	}
	return api.GetTransitionStatement200ApplicationoctetStreamResponse{Body: bytes.NewReader(t.Statement), ContentLength: int64(len(t.Statement))}, nil
}

// ListAudit lists what was done by whom, as far as it concerns owners that the
// principal sees.
func (s *Server) ListAudit(ctx context.Context, r api.ListAuditRequestObject) (api.ListAuditResponseObject, error) {
	all, err := s.store.Audit(ctx, principalOf(ctx).scope(), deref(r.Params.Node), pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := []api.AuditEntry{}
	for _, e := range all {
		one := api.AuditEntry{Id: e.ID, Time: e.At, Actor: e.Actor, Action: e.Action, Target: e.Target, Outcome: e.Outcome}
		if e.Detail != "" {
			one.Detail = &e.Detail
		}
		out = append(out, one)
	}
	next := older("/api/v1/audit", r.Params.Limit, len(out), func() string { return out[len(out)-1].Id })
	if next != nil && r.Params.Node != nil {
		next = ptr(fmt.Sprintf("</api/v1/audit?before=%s&limit=%d&node=%s>; rel=\"next\"", out[len(out)-1].Id, limitOf(r.Params.Limit), *r.Params.Node))
	}
	return api.ListAudit200JSONResponse{Body: out, Headers: api.ListAudit200ResponseHeaders{Link: next}}, nil
}

// ListRejections lists counts of requests of nobody known that were refused.
func (s *Server) ListRejections(ctx context.Context, r api.ListRejectionsRequestObject) (api.ListRejectionsResponseObject, error) {
	all, err := s.store.Rejections(ctx, principalOf(ctx).scope(), store.Page{Limit: limitOf(r.Params.Limit)})
	if err != nil {
		return nil, err
	}
	out := api.ListRejections200JSONResponse{}
	for _, c := range all {
		out = append(out, api.Rejections{Time: c.Minute, Kind: c.Kind, Count: c.Count})
	}
	return out, nil
}
