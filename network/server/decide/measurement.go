package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/summary"
)

// maxMeasurements is how many measurements are gone on with in one turn.
const maxMeasurements = 100

// measurements goes on with those that have not ended. Nothing is kept in memory
// but since when nodes can be heard: whoever has the lease next goes on from the
// rows.
func (d *Decider) measurements() leasedTurn {
	w := &watch{}
	w.up.Server = d.started
	return func(ctx context.Context, _ store.Lease) (bool, error) {
		now := d.now()
		p, err := d.inForce(ctx)
		if err != nil {
			return false, err
		}
		beat := time.Duration(p.Silence.Heartbeat)
		w.turn(now, max(beat, 10*d.o.Every))
		heard := w.up.Server
		if w.up.Database.After(heard) {
			heard = w.up.Database
		}
		open, err := d.store.OpenMeasurements(ctx, maxMeasurements)
		if err != nil {
			w.up.Database = time.Time{}
			return false, err
		}
		var errs []error
		for _, m := range open {
			s := measuring{now: now, heard: heard, silence: beat * time.Duration(max(1, p.Silence.Missed)), newID: func() string { return d.newID(now) }}
			errs = append(errs, d.measure(ctx, &s, m))
		}
		return false, errors.Join(errs...)
	}
}

// measure takes one step of a measurement.
func (d *Decider) measure(ctx context.Context, s *measuring, m store.Measurement) error {
	st := s.next(m)
	if ended := over(st.Next); ended {
		st.Next.Ended = s.now
		if err := d.joined(&st); err != nil {
			return err
		}
	} else if len(st.Changed) == 0 {
		return nil
	}
	err := d.store.StepMeasurement(ctx, st)
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody was first: the next turn sees what it is now
	}
	return err
}

// joined gives a measurement that has ended its result, and the record of its end.
func (d *Decider) joined(st *store.Step) error {
	m := &st.Next
	out := api.JointResult{Missing: []string{}, Stages: []api.JointStage{}}
	var parts []summary.Part
	for _, n := range m.Nodes {
		var p summary.Part
		if n.State != measureMeasured {
			out.Missing = append(out.Missing, n.Node)
			continue
		}
		if err := json.Unmarshal(n.Share, &p); err != nil {
			return fmt.Errorf("measurement %s: what node %s measured: %w", m.ID, n.Node, err)
		}
		parts = append(parts, p)
	}
	out.Measured = len(parts)
	for _, s := range summary.Join(parts) {
		out.Stages = append(out.Stages, jointStage(s))
	}
	var err error
	if m.Result, err = json.Marshal(out); err != nil {
		return err
	}
	outcome := "done"
	if !m.Cancelled.IsZero() {
		outcome = "cancelled"
	}
	st.Trail.Audit = append(st.Trail.Audit, store.AuditEntry{
		ID: d.newID(m.Ended), At: m.Ended, Actor: "server:" + d.o.Holder, Action: "endMeasurement", Target: "measurement:" + m.ID, Outcome: outcome,
		Detail: fmt.Sprintf("%d of %d nodes were measured", len(parts), len(m.Nodes)),
	})
	return nil
}

// measuredFor judges a report that a measurement asked for: it is kept there, and
// decides nothing about the node. False: it is no such report.
func (d *Decider) measuredFor(ctx context.Context, r store.Report) (bool, error) {
	if r.Command == "" {
		return false, nil
	}
	id, n, err := d.store.MeasurementOf(ctx, r.Node, r.Command)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.Verdict, r.Scored, r.Because = "unknown", d.now(), "it was made for measurement "+id+", and decides nothing about the node"
	run, err := d.readRun(ctx, r)
	switch {
	case errors.Is(err, errUnreadable), err != nil && ctx.Err() == nil && d.now().Sub(r.Confirmed) > d.o.Limits.Retry:
		r.Because = foreign.Line(r.Because+": "+err.Error(), 500)
		if err := d.store.KeepShare(ctx, id, r.Node, r.ID, "its run cannot be used: "+foreign.Line(err.Error(), 400), nil, nil); err != nil && !errors.Is(err, store.ErrConflict) {
			return true, err
		}
	case err != nil:
		return true, err
	default:
		err := d.keepShare(ctx, id, n, r, run)
		if errors.Is(err, store.ErrConflict) {
			r.Because = "it came after measurement " + id + " had ended, and decides nothing about the node"
		} else if err != nil {
			return true, err
		}
	}
	if err := d.store.ScoreReport(ctx, r); err != nil && !errors.Is(err, store.ErrConflict) {
		return true, err
	}
	return true, nil
}

// keepShare keeps what a run gives to a measurement.
func (d *Decider) keepShare(ctx context.Context, id string, n store.MeasuredNode, r store.Report, run reading) error {
	if !n.Ended.IsZero() {
		return store.ErrConflict
	}
	m, err := d.store.Measurement(ctx, everybody, id)
	if err != nil {
		return err
	}
	p := summary.Part{Node: r.Node, Share: run.share}
	clock := clockOf(&p, run.checks, n.Asked, r.At)
	if !m.Start.IsZero() && len(p.Stages) > 0 && p.Why == "" {
		late := time.Unix(0, p.Stages[0].Started+p.Offset).Sub(m.Start).Seconds()
		clock.StartErrorSeconds = &late
	}
	f := server.MeasuredFigures{Run: foreign.Line(r.Run, 100), Clock: clock, Stages: []api.JointStage{}}
	for _, s := range summary.Join([]summary.Part{p}) {
		f.Stages = append(f.Stages, jointStage(s))
	}
	figures, err := json.Marshal(f)
	if err != nil {
		return err
	}
	share, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return d.store.KeepShare(ctx, id, r.Node, r.ID, "", figures, share)
}

// maxOffset is how far a clock may be off: an agent starts no run beyond a minute.
const maxOffset = 90 * time.Second

// clockOf takes what the run says of its node's clock. The node says so itself; so
// its times count only as far as they fit with what the server saw: nothing was
// measured before it was asked for, or after it was announced.
func clockOf(p *summary.Part, checks []assay.Check, asked, announced time.Time) *api.NodeClock {
	offset, slack := math.NaN(), math.NaN()
	for _, c := range checks {
		if c.Name == "host.clock" {
			if v, ok := c.Values["offset_seconds"]; ok {
				offset = v
			}
			if v, ok := c.Values["uncertainty_seconds"]; ok {
				slack = v
			}
		}
	}
	out := &api.NodeClock{}
	if !(math.Abs(offset) <= maxOffset.Seconds() && slack >= 0 && slack <= maxOffset.Seconds()) {
		p.Why = "its clock was not compared with the server's"
		out.Unknown = &p.Why
		return out
	}
	p.Offset, p.Slack = int64(offset*1e9), int64(slack*1e9)
	out.OffsetSeconds, out.UncertaintySeconds = &offset, &slack
	for _, s := range p.Stages {
		from, to := s.Started, max(s.Started, s.To)
		if from+p.Offset < asked.UnixNano()-p.Slack || to+p.Offset > announced.UnixNano()+p.Slack {
			p.Why = "its times are not between when it was asked and when it announced the run"
			out.Unknown = &p.Why
			break
		}
	}
	return out
}

func jointStage(s summary.JointStage) api.JointStage {
	out := api.JointStage{
		Name: s.Name, Streams: s.Streams, Nodes: s.Nodes, Requests: s.Requests, Failed: s.Failed,
		OutputTokensPerSecond: estimate(s.Tokens), RequestsPerSecond: estimate(s.Finished),
		TtftMs: distribution(s.TTFT), TpotMs: distribution(s.TPOT), E2eMs: distribution(s.E2E),
	}
	if s.Overlap > 0 {
		seconds := float64(s.Overlap) / 1e9
		out.OverlapSeconds = &seconds
	}
	return out
}

func estimate(q assay.Quantity) api.Estimate {
	out := api.Estimate{N: q.N}
	if q.Why != "" {
		out.Why = &q.Why
	}
	if q.Known() {
		out.Value, out.Low, out.High = number(q.Est), number(q.Lo), number(q.Hi)
	}
	return out
}

func distribution(d assay.Dist) api.JointDistribution {
	out := api.JointDistribution{N: d.N}
	for level, to := range map[float64]**api.JointPercentile{50: &out.P50, 90: &out.P90, 99: &out.P99} {
		if p, ok := d.P(level); ok {
			*to = &api.JointPercentile{Value: p.Value, Low: number(p.Lo), High: number(p.Hi)}
		}
	}
	return out
}

// number is nil for one that is not known.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
