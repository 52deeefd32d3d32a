package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/routing"
)

// Routes is who gets requests, for the listener that answers routers.
func (s *Server) Routes() *routing.Table { return s.routes }

// targets are those that the principal sees.
func (s *Server) targets(ctx context.Context) ([]routing.Target, error) {
	all, err := s.routes.Targets()
	if errors.Is(err, routing.ErrStale) {
		return nil, refuseFor(http.StatusServiceUnavailable, 5*time.Second, "%s; keep what you have", err)
	}
	if err != nil {
		return nil, err
	}
	p := principalOf(ctx)
	out := make([]routing.Target, 0, len(all))
	for _, t := range all {
		if p.Sees(t.Owner) {
			out = append(out, t)
		}
	}
	return out, nil
}

// GetRoute says who gets requests for a model, and how many.
func (s *Server) GetRoute(ctx context.Context, r api.GetRouteRequestObject) (api.GetRouteResponseObject, error) {
	objectives, err := parseSLO(deref(r.Params.Slo))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "slo: %s", foreign.Line(err.Error(), maxDetail))
	}
	all, err := s.targets(ctx)
	if err != nil {
		return nil, err
	}
	out := api.GetRoute200JSONResponse{}
	for _, t := range all {
		model := deref(r.Params.Model)
		if !t.Member || model != "" && model != t.Model {
			continue
		}
		if route := routeOf(t, objectives); route.Weight > 0 || deref(r.Params.All) {
			out = append(out, route)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Route) int { return cmp.Compare(b.Weight, a.Weight) })
	return out, nil
}

func routeOf(t routing.Target, objectives []assay.Objective) api.Route {
	out := api.Route{
		Id: t.ID, Node: t.Node, Replica: t.Replica, Owner: t.Owner, Model: t.Model, Engine: t.Engine, ServingUrl: t.ServingURL,
		Weight: t.Weight, Rotation: api.RouteRotation(t.Rotation), Why: t.Why, ScoreLow: t.ScoreLow,
	}
	p := t.Figures.Performance
	if p != nil {
		out.OutputTokensPerSecond = p.OutputTokensPerSecond
	}
	for _, o := range objectives {
		if why := missed(o, p); why != "" {
			out.Weight, out.Why = 0, why
			break
		}
	}
	return out
}

// parseSLO reads objectives with commas between them, of figures that are kept of
// a report.
func parseSLO(slo string) ([]assay.Objective, error) {
	out, err := parseObjectives(slo)
	for _, o := range out {
		if _, err := figureOf(o, &assay.PerformanceMetrics{}); err != nil {
			return nil, err
		}
	}
	return out, err
}

// parseObjectives reads objectives with commas between them.
func parseObjectives(slo string) ([]assay.Objective, error) {
	if slo == "" {
		return nil, nil
	}
	var out []assay.Objective
	for _, text := range strings.Split(slo, ",") {
		o, err := assay.ParseObjective(text)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// figureOf is what a report measured of what an objective speaks of; nil: unknown.
func figureOf(o assay.Objective, p *assay.PerformanceMetrics) (*float64, error) {
	switch o.Metric + "_" + o.Stat {
	case "ttft_p99":
		return p.TTFTp99MS, nil
	case "tpot_p50":
		return p.TPOTp50MS, nil
	case "e2e_p99":
		return p.P99LatencyMS, nil
	case "e2e_mean":
		return p.AvgLatencyMS, nil
	case "error_rate_":
		return p.ErrorRate, nil
	}
	return nil, errors.New(o.String() + ": of a report are kept ttft_p99, tpot_p50, e2e_p99, e2e_mean and error_rate")
}

// missed says why an objective was not kept; empty: it was. Unknown is not kept.
func missed(o assay.Objective, p *assay.PerformanceMetrics) string {
	if p == nil {
		return "whether it keeps " + o.String() + " is not known: there is no report"
	}
	switch v, err := figureOf(o, p); {
	case err != nil || v == nil:
		return "whether it keeps " + o.String() + " is not known"
	case !(*v <= o.Max):
		return "its last report did not keep " + o.String()
	}
	return ""
}

// GetTargets says what Prometheus scrapes: who is seen and has an address. What
// others wrote is in labels only, which Prometheus takes for data.
func (s *Server) GetTargets(ctx context.Context, _ api.GetTargetsRequestObject) (api.GetTargetsResponseObject, error) {
	all, err := s.targets(ctx)
	if err != nil {
		return nil, err
	}
	out := api.GetTargets200JSONResponse{}
	for _, t := range all {
		if t.Contact != control.Seen || t.Address.Port == 0 {
			continue
		}
		scheme := "http"
		if t.Address.TLS {
			scheme = "https"
		}
		out = append(out, api.TargetGroup{Targets: []string{t.Address.String()}, Labels: map[string]string{
			"__scheme__":             scheme,
			"__meta_assay_id":        t.ID,
			"__meta_assay_node":      t.Node,
			"__meta_assay_replica":   foreign.Line(t.Replica, 100),
			"__meta_assay_owner":     t.Owner,
			"__meta_assay_hostname":  foreign.Line(t.Hostname, maxHostname),
			"__meta_assay_model":     foreign.Line(t.Model, 300),
			"__meta_assay_engine":    foreign.Line(t.Engine, 100),
			"__meta_assay_admission": t.NodeFacts.Admission,
			"__meta_assay_rotation":  string(t.Rotation),
		}})
	}
	return out, nil
}
