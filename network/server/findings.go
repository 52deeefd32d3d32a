package server

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay/network/api"
)

// ListFindings lists what the server found out about a node itself, newest first.
func (s *Server) ListFindings(ctx context.Context, r api.ListFindingsRequestObject) (api.ListFindingsResponseObject, error) {
	all, err := s.store.Findings(ctx, principalOf(ctx).scope(), r.Node, pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := []api.Finding{}
	for _, f := range all {
		one := api.Finding{Id: f.ID, Time: f.At, Check: f.Check, Verdict: api.FindingVerdict(f.Verdict), Text: f.Text}
		if f.Replica != "" {
			one.Replica = &f.Replica
		}
		if len(f.Figures) > 0 {
			one.Figures = &f.Figures
		}
		out = append(out, one)
	}
	next := older(fmt.Sprintf("/api/v1/nodes/%s/findings", r.Node), r.Params.Limit, len(out), func() string { return out[len(out)-1].Id })
	return api.ListFindings200JSONResponse{Body: out, Headers: api.ListFindings200ResponseHeaders{Link: next}}, nil
}

// untrusted says why a replica gets no requests though its facts would let it; empty:
// it is not that.
func (s *Server) untrusted(node, replica string) string {
	all, err := s.routes.Targets()
	if err != nil {
		return "" // not known now, and what is known is shown
	}
	for _, t := range all {
		if t.Node == node && t.Replica == replica {
			return t.Untrusted
		}
	}
	return ""
}
