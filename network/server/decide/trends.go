package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
)

// Bounds of what is looked at.
const (
	// lookBackFor is how far a history goes: as long as reports are kept.
	lookBackFor = 92 * 24 * time.Hour
	// tellEvery is how often one thing is told about one subject.
	tellEvery = 7 * 24 * time.Hour
	// maxCompared bounds the peers of a node.
	maxCompared = 1000
	// demandEvery is how often demand is sampled.
	demandEvery = 15 * time.Minute
	// serialPrefix is how much of a serial number cards of one batch share.
	serialPrefix = 7
)

// pointOf is a run for the node's history.
func pointOf(r store.Report, run reading, b assay.Baseline, peer string) *store.Point {
	figures := trend.Figures{}
	for _, metric := range trend.Metrics() {
		if v := trend.Of(metric, b); !math.IsNaN(v) {
			f := trend.Figure{Value: v}
			f.Low, f.High = intervalOf(metric, run.summary, b)
			figures[metric] = f
		}
	}
	traits := traitsOf(run.manifest)
	f, err := json.Marshal(figures)
	if err != nil {
		return nil // a figure that is no number: positive checked it
	}
	l, err := json.Marshal(trend.LevelsOf(run.summary))
	if err != nil {
		return nil
	}
	return &store.Point{
		Report: r.ID, Node: r.Node, At: began(run.manifest, r), Peer: peer, Model: foreign.Line(b.Model, 300), Config: configOf(run.manifest, peer, traits),
		Traits: traits, Figures: f, Levels: l,
	}
}

// intervalOf is a figure's own interval, where one stage has it.
func intervalOf(metric string, sum assay.Summary, b assay.Baseline) (low, high *float64) {
	level := map[string]float64{trend.TTFT: 99, trend.TPOT: 50}[metric]
	if level == 0 {
		return nil, nil
	}
	var found []assay.Percentile
	for _, s := range sum.Stages {
		if s.Plan.Kind != b.Load || float64(s.Plan.Concurrency) != b.At && s.Plan.Rate != b.At {
			continue
		}
		d := s.TTFT
		if metric == trend.TPOT {
			d = s.TPOT
		}
		for _, p := range d.Percentiles {
			if p.Level == level && p.Held() && p.Value == trend.Of(metric, b) {
				found = append(found, p)
			}
		}
	}
	if len(found) != 1 || math.IsInf(found[0].Lo, 0) || math.IsInf(found[0].Hi, 0) {
		return nil, nil
	}
	return &found[0].Lo, &found[0].Hi
}

// traitsOf is what nodes of one batch may share. Where cards of a node differ they
// are all named: such a node shares it only with its like.
func traitsOf(m assay.Manifest) map[string]string {
	traits := map[string]string{}
	set := func(name string, of func(assay.GPU) string) {
		var values []string
		for _, g := range m.Node.GPUs {
			if v := foreign.Line(of(g), 60); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		if text := strings.Join(values[:min(len(values), 4)], " "); text != "" {
			traits[name] = text
		}
	}
	set("driver", func(g assay.GPU) string { return g.Driver })
	set("vbios", func(g assay.GPU) string { return g.VBIOS })
	set("serial", func(g assay.GPU) string {
		if len(g.Serial) <= serialPrefix {
			return ""
		}
		return foreign.Cut(g.Serial, serialPrefix)
	})
	if v := foreign.Line(m.Engine.Version, 60); v != "" {
		traits["engine version"] = v
	}
	return traits
}

// configOf names what a run was measured with. Another configuration begins another
// series: what changes with it is no anomaly.
func configOf(m assay.Manifest, peer string, traits map[string]string) string {
	text := fmt.Sprintf("%s; engine %q, driver %q, vbios %q, model of %d bytes", peer, traits["engine version"], traits["driver"], traits["vbios"], m.Engine.ModelBytes)
	if clean := foreign.Line(text, 500); clean == text {
		return text
	}
	return store.Hash(text)
}

// lookBack compares a report with the node's past and its peers, and has decided
// what the policy says of each finding. It may be called twice for a report.
func (d *Decider) lookBack(ctx context.Context, r store.Report, v verdict) error {
	if v.point == nil {
		return nil
	}
	if err := d.store.PutPoint(ctx, *v.point); err != nil {
		return err
	}
	look, err := d.look(ctx, *v.point)
	if err != nil {
		return err
	}
	for _, f := range trend.Findings(look, trend.Default()) {
		if err := d.tell(ctx, r, f); err != nil {
			return err
		}
	}
	return nil
}

// look reads what there is to compare with. A report that is not the newest of its
// node shows nothing new.
func (d *Decider) look(ctx context.Context, p store.Point) (trend.Look, error) {
	l := trend.Look{Node: p.Node, Traits: p.Traits, History: map[string][]trend.Point{}, Peers: map[string][]trend.Peer{}}
	past, err := d.store.Points(ctx, everybody, p.Node, p.At.Add(-lookBackFor))
	if err != nil || len(past) == 0 || past[0].Report != p.Report {
		return l, err
	}
	for _, metric := range trend.Metrics() {
		l.History[metric] = server.HistoryOf(metric, past)
	}
	peers, err := d.store.PeerPoints(ctx, p.Peer, p.Node, maxCompared)
	if err != nil {
		return l, err
	}
	for _, o := range peers {
		for metric, f := range trend.ParseFigures(o.Figures) {
			l.Peers[metric] = append(l.Peers[metric], trend.Peer{Node: o.Node, Value: f.Value, Report: o.Report, Traits: o.Traits})
		}
	}
	return l, nil
}

// tell has a finding decided by the policy, once: with its evidence in the reasons.
func (d *Decider) tell(ctx context.Context, r store.Report, f trend.Finding) error {
	now := d.now()
	told, err := d.store.ToldSince(ctx, f.Subject, f.Kind, f.Metric, now.Add(-tellEvery))
	if err != nil || told {
		return err
	}
	f.Text = foreign.Line(f.Text, 500)
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	evidence := f.Reports
	if f.Kind == trend.KindBatch {
		evidence = []string{r.ID} // the others are other nodes'
	}
	_, err = d.Happen(ctx, Happening{
		Node: r.Node, Scope: everybody,
		Event:   control.Event{Kind: control.EventAnomaly, Anomaly: f.Kind, Reason: f.Text, Evidence: evidence, Actor: control.Actor{Kind: control.ActorServer}},
		Anomaly: &store.Anomaly{ID: d.newID(now), At: now, Node: r.Node, Kind: f.Kind, Metric: f.Metric, Subject: f.Subject, Report: r.ID, Body: body},
	})
	if errors.Is(err, store.ErrTaken) {
		return nil // somebody was first
	}
	return err
}

// demands samples how many requests are under way.
func (d *Decider) demands() leasedTurn {
	var last time.Time
	return func(ctx context.Context, _ store.Lease) (bool, error) {
		now := d.now()
		at := now.Truncate(demandEvery)
		if !at.After(last) {
			return false, nil
		}
		p, err := d.inForce(ctx)
		if err != nil {
			return false, err
		}
		fresh := time.Duration(p.Silence.Heartbeat) * time.Duration(p.Silence.Missed)
		if err := d.store.SampleDemand(ctx, at, now.Add(-fresh)); err != nil {
			return false, err
		}
		last = at
		return false, nil
	}
}
