package server

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
)

// maxCompared bounds the peers that a node is compared with.
const maxCompared = 1000

// demandFor is how much demand a forecast is made from.
const demandFor = 100 * 24 * time.Hour

// HistoryOf is a metric's history from a node's points.
func HistoryOf(metric string, points []store.Point) (out []trend.Point) {
	for _, p := range points {
		f, ok := trend.ParseFigures(p.Figures)[metric]
		if !ok {
			continue
		}
		one := trend.Point{At: p.At, Value: f.Value, Low: math.NaN(), High: math.NaN(), Report: p.Report, Config: p.Config}
		if f.Low != nil && f.High != nil {
			one.Low, one.High = *f.Low, *f.High
		}
		out = append(out, one)
	}
	return out
}

// GetHistory shows how a metric of a node went in its newest configuration.
func (s *Server) GetHistory(ctx context.Context, r api.GetHistoryRequestObject) (api.GetHistoryResponseObject, error) {
	days := 92
	if r.Params.Days != nil {
		days = *r.Params.Days
	}
	points, err := s.store.Points(ctx, principalOf(ctx).scope(), r.Node, s.now().AddDate(0, 0, -days))
	if err != nil {
		return nil, err
	}
	metric := trend.Throughput
	if r.Params.Metric != nil {
		metric = string(*r.Params.Metric)
	}
	series := trend.Latest(HistoryOf(metric, points))
	v := trend.Changes(metric, series, trend.Default())
	out := api.History{Metric: api.TrendMetric(metric), Points: []api.HistoryPoint{}, Changes: []api.Change{}, Unknown: v.Unknown}
	own := []float64{}
	for _, p := range series {
		out.Configuration = p.Config
		own = append(own, p.Value)
		out.Points = append(out.Points, api.HistoryPoint{Time: p.At, Value: p.Value, Low: finite(p.Low), High: finite(p.High), Report: p.Report})
	}
	for _, c := range v.Changes {
		out.Changes = append(out.Changes, api.Change{
			Time: c.At, Found: c.Found, Before: c.Before, After: c.After, Shift: c.Shift, Low: c.Low, High: c.High, Loss: c.Loss, Gradual: c.Drift, Reports: c.Reports,
		})
	}
	if out.Peers, err = s.against(ctx, metric, r.Node, points, own); err != nil {
		return nil, err
	}
	return api.GetHistory200JSONResponse(out), nil
}

// against compares a node with its peers. Of those only the median is shown: it is
// no node's secret.
func (s *Server) against(ctx context.Context, metric, node string, points []store.Point, own []float64) (api.AgainstPeers, error) {
	if len(points) == 0 {
		return api.AgainstPeers{Unknown: "there is no report"}, nil
	}
	others, err := s.store.PeerPoints(ctx, points[0].Peer, node, maxCompared)
	if err != nil {
		return api.AgainstPeers{}, err
	}
	var peers []trend.Peer
	for _, o := range others {
		if f, ok := trend.ParseFigures(o.Figures)[metric]; ok {
			peers = append(peers, trend.Peer{Node: o.Node, Value: f.Value})
		}
	}
	a := trend.AgainstPeers(metric, own, peers, trend.Default())
	return api.AgainstPeers{Peers: a.Peers, Median: finite(a.Median), Shift: finite(a.Shift), Score: finite(a.Score), Unknown: a.Unknown}, nil
}

// finite is a number, or null.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// ListAnomalies lists what was found in histories.
func (s *Server) ListAnomalies(ctx context.Context, r api.ListAnomaliesRequestObject) (api.ListAnomaliesResponseObject, error) {
	p := r.Params
	all, err := s.store.Anomalies(ctx, principalOf(ctx).scope(), deref(p.Node), deref(p.Kind), pageOf(p.Limit, p.Before))
	if err != nil {
		return nil, err
	}
	out := []api.Anomaly{}
	for _, a := range all {
		one := api.Anomaly{Id: a.ID, Time: a.At, Node: a.Node, Kind: a.Kind, Metric: a.Metric, Subject: a.Subject, Since: a.At, Reports: []string{}}
		var f trend.Finding
		if json.Unmarshal(a.Body, &f) == nil {
			one.Since, one.Shift, one.Low, one.High, one.Text = f.Since, f.Shift, f.Low, f.High, f.Text
			if f.Reports != nil {
				one.Reports = f.Reports
			}
		}
		out = append(out, one)
	}
	var next *string
	if len(out) > 0 && len(out) == limitOf(p.Limit) {
		q := url.Values{}
		for name, v := range map[string]string{"node": deref(p.Node), "kind": deref(p.Kind), "limit": strconv.Itoa(limitOf(p.Limit))} {
			if v != "" {
				q.Set(name, v)
			}
		}
		next = link("/api/v1/anomalies", q, "before", out[len(out)-1].Id)
	}
	return api.ListAnomalies200JSONResponse{Body: out, Headers: api.ListAnomalies200ResponseHeaders{Link: next}}, nil
}

// GetCapacity says what load the nodes in rotation hold at an objective, and until
// when that is enough.
func (s *Server) GetCapacity(ctx context.Context, r api.GetCapacityRequestObject) (api.GetCapacityResponseObject, error) {
	slo, err := trend.ParseSLO(deref(r.Params.Slo))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "slo: %s", err)
	}
	scope, model := principalOf(ctx).scope(), deref(r.Params.Model)
	nodes, err := s.store.Holdings(ctx, scope)
	if err != nil {
		return nil, err
	}
	out := api.Capacity{Slo: deref(r.Params.Slo), Model: model}
	var sum trend.Level
	for _, n := range nodes {
		if ok, _ := control.Routable(factsOf(n.Facts)); !ok || model != "" && n.Point.Model != model {
			continue
		}
		out.Nodes++
		var levels []trend.Level
		if json.Unmarshal(n.Point.Levels, &levels) != nil {
			levels = nil // of a later version
		}
		most, ok := trend.Holds(levels, slo)
		if !ok {
			out.UnknownNodes++
			continue
		}
		out.Measured++
		sum.Streams, sum.Requests, sum.Tokens = sum.Streams+most.Streams, sum.Requests+most.Requests, sum.Tokens+most.Tokens
	}
	if out.Measured > 0 {
		out.Streams, out.RequestsPerSecond, out.OutputTokensPerSecond = &sum.Streams, &sum.Requests, &sum.Tokens
	}
	out.Forecast, err = s.forecast(ctx, scope, model, out.Streams)
	return api.GetCapacity200JSONResponse(out), err
}

// forecast says when demand exceeds what is held.
func (s *Server) forecast(ctx context.Context, scope store.Scope, model string, holds *float64) (api.Forecast, error) {
	now := s.now()
	rows, err := s.store.Demands(ctx, scope, model, now.Add(-demandFor))
	if err != nil {
		return api.Forecast{}, err
	}
	var samples []trend.Sample
	for _, d := range rows {
		if d.Nodes > d.Unknown { // of nodes that do not tell nothing is known
			samples = append(samples, trend.Sample{At: d.At, Running: float64(d.Running)})
		}
	}
	capacity := math.Inf(1)
	if holds != nil {
		capacity = *holds
	}
	o := trend.Forecast(trend.Peaks(samples, now), capacity)
	out := api.Forecast{Unknown: o.Unknown, Days: o.Days, Ahead: []api.ForecastDay{}, Tries: []api.ForecastTry{}}
	if o.Unknown != "" {
		return out, nil
	}
	out.Peak, out.GrowthWeek, out.GrowthWeekLow, out.GrowthWeekHigh = finite(o.Peak), finite(o.Growth), finite(o.GrowthLow), finite(o.GrowthHigh)
	out.Earliest, out.Expected, out.Latest = maybe(o.Earliest), maybe(o.Expected), maybe(o.Latest)
	for _, a := range o.Ahead {
		out.Ahead = append(out.Ahead, api.ForecastDay{Day: a.Day, Low: a.Low, Value: a.Value, High: a.High})
	}
	for _, t := range o.Tries {
		out.Tries = append(out.Tries, api.ForecastTry{Days: t.Days, N: t.N, Error: t.Error, Covered: t.Covered})
	}
	return out, nil
}

func maybe(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
