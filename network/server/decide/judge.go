package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/score"
)

// Bounds of the judge.
const (
	maxUnscored = 200
	maxPeers    = 101
	firstRetry  = 2 * time.Second
	lastRetry   = 5 * time.Minute
)

// retry is a report whose evidence could not be fetched.
type retry struct {
	next  time.Time
	tries int
}

// Scored is what the server keeps of a report that it judged: report.summary.
type Scored struct {
	Measured control.Measured          `json:"measured"`
	Grade    control.Grade             `json:"grade"`
	Against  string                    `json:"against,omitempty"`  // what it was compared with
	Figures  *assay.Baseline           `json:"figures,omitempty"`  // its own, for peers; absent: it can be nobody's baseline
	NoPeer   string                    `json:"no_peer,omitempty"`  // why it can be nobody's
	Score    *assay.HealthScore        `json:"score,omitempty"`    //
	Findings []assay.Finding           `json:"findings,omitempty"` // the first
	Result   *assay.PerformanceMetrics `json:"performance,omitempty"`
	Model    string                    `json:"model,omitempty"`
	Levels   []api.Level               `json:"levels,omitempty"` // by stage; server.reportOf reads both
}

// judgeAll judges the reports that wait, several at once, and says how many it has
// looked at. Reports of one node are judged in their order.
func (d *Decider) judgeAll(ctx context.Context) (int, error) {
	if d.o.Evidence == nil {
		return 0, nil
	}
	keep := store.DefaultRetention()
	if d.o.Retention != nil {
		keep = *d.o.Retention
	}
	all, err := d.store.Unscored(ctx, d.now().Add(-keep.Reports), maxUnscored)
	if err != nil {
		return 0, err
	}
	byNode := map[string][]store.Report{}
	var nodes []string
	for _, r := range all {
		if byNode[r.Node] == nil {
			nodes = append(nodes, r.Node)
		}
		byNode[r.Node] = append(byNode[r.Node], r)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	judged := 0
	slots := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	for _, node := range nodes {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			for _, r := range byNode[node] {
				done, err := d.judgeOne(ctx, r)
				mu.Lock()
				if done {
					judged++
				}
				if err != nil && len(errs) < 5 {
					errs = append(errs, fmt.Errorf("judge report %s: %w", r.ID, err))
				}
				mu.Unlock()
				if err != nil || !done {
					return // those after it wait for it
				}
			}
		})
	}
	wait.Wait()
	return judged, errors.Join(errs...)
}

// judgeOne judges a report, unless it waits for another try.
func (d *Decider) judgeOne(ctx context.Context, r store.Report) (done bool, err error) {
	if !d.mayTry(r.ID) {
		return false, nil
	}
	if err := d.Judge(ctx, r); err != nil {
		d.tryLater(r.ID)
		return false, err
	}
	d.mu.Lock()
	delete(d.tries, r.ID)
	d.mu.Unlock()
	return true, nil
}

func (d *Decider) mayTry(id string) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return !now.Before(d.tries[id].next)
}

func (d *Decider) tryLater(id string) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.tries) > 10*maxUnscored { // of reports that others have judged
		clear(d.tries)
	}
	t := d.tries[id]
	t.next, t.tries = now.Add(min(lastRetry, firstRetry<<min(t.tries, 10))), t.tries+1
	d.tries[id] = t
}

// Judge reads the evidence of a confirmed report, scores it with the server's own
// baseline, and decides on the node by it. It may be called twice for a report, by
// anybody: a report counts once.
func (d *Decider) Judge(ctx context.Context, r store.Report) error {
	if done, err := d.measuredFor(ctx, r); done || err != nil {
		return err
	}
	policy, err := d.inForce(ctx)
	if err != nil {
		return err
	}
	if err := d.examine(ctx, r.Node); err != nil {
		return err
	}
	v, err := d.verdict(ctx, policy, r)
	if err != nil {
		return err
	}
	m := v.scored.Measured
	r.Score, r.ScoreLow, r.Peer = m.Overall, m.Lower, v.peer
	out, err := d.Happen(ctx, Happening{
		Node: r.Node, Scope: everybody, Report: &r, Baseline: v.scored.Against,
		Event: control.Event{Kind: control.EventReport, Reason: v.why, Actor: control.Actor{Kind: control.ActorServer}, Report: &m},
	})
	if err != nil {
		return err
	}
	if err := d.judgeReplica(ctx, r, v, out); err != nil {
		return err
	}
	// The score comes last: a report that has one is never judged again, so that
	// who dies before this line has done nothing that is not done again.
	if err := d.keepBaseline(ctx, r.Node, v, out.Node); err != nil {
		return err
	}
	if err := d.lookBack(ctx, r, v); err != nil {
		return err
	}
	return d.keepScore(ctx, r, v, out)
}

// keepScore writes what was made of a report.
func (d *Decider) keepScore(ctx context.Context, r store.Report, v verdict, out control.Outcome) error {
	reasons := []string{}
	if v.why != "" {
		reasons = append(reasons, v.why)
	}
	r.Verdict, v.scored.Grade = "unknown", control.GradeUnknown
	if j := out.Judgement; j != nil {
		v.scored.Grade = j.Grade
		reasons = append(reasons, j.Reasons...)
		switch j.Grade {
		case control.GradeGood, control.GradeFair:
			r.Verdict = "pass"
		case control.GradeHard, control.GradeSevere, control.GradePoor:
			r.Verdict = "fail"
		}
	} else {
		reasons = append(reasons, out.Why)
	}
	r.Because, r.Scored = foreign.Line(strings.Join(reasons, "; "), 500), d.now()
	var err error
	if r.Summary, err = v.scored.encode(); err != nil {
		return err
	}
	if err := d.store.ScoreReport(ctx, r); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil // somebody was first, with the same
}

// encode keeps within what a row may hold.
func (s Scored) encode() (json.RawMessage, error) {
	b, err := json.Marshal(s)
	if err == nil && len(b) > store.MaxSummary {
		s.Findings, s.Score, s.Result = nil, nil, nil
		b, err = json.Marshal(s)
	}
	if err == nil && len(b) > store.MaxSummary {
		s.Measured.Found, s.Measured.Checks = nil, nil
		b, err = json.Marshal(s)
	}
	return b, err
}

// verdict is a report before the policy has judged it.
type verdict struct {
	scored Scored
	peer   string
	engine assay.Engine // that was measured
	why    string       // nothing is known, and why; empty: it was read
	own    bool         // it was compared with the node's own baseline
	point  *store.Point // for the node's history; nil: it has no figures
}

// verdict reads and scores. An error is ours and is tried again; whatever is wrong
// with the evidence is a verdict.
func (d *Decider) verdict(ctx context.Context, p control.Policy, r store.Report) (verdict, error) {
	run, err := d.readRun(ctx, r)
	switch {
	case errors.Is(err, errUnreadable):
		return d.unknown(r, err), nil
	case err != nil && ctx.Err() == nil && d.now().Sub(r.Confirmed) > d.o.Limits.Retry:
		return d.unknown(r, fmt.Errorf("it could not be read for %s: %w", d.o.Limits.Retry, err)), nil
	case err != nil:
		return verdict{}, err
	}
	fresh, err := d.doubt(ctx, r, run)
	switch {
	case err != nil:
		return verdict{}, err
	case fresh == assay.Fail:
		return d.unknown(r, errors.New("it is an old run: it says nothing about now")), nil
	}
	return d.score(ctx, p, r, run, fresh)
}

// unknown is what is known of a report that cannot be read: that it was made.
func (d *Decider) unknown(r store.Report, err error) verdict {
	why := foreign.Line(err.Error(), 300)
	d.log.Warn("a report cannot be judged", "report", r.ID, "node", r.Node, "error", why)
	return verdict{why: why, scored: Scored{Measured: control.Measured{Run: r.ID, Began: r.At, Answers: r.Command, Why: why}}}
}

// score compares a run with a baseline of the server's choice.
func (d *Decider) score(ctx context.Context, p control.Policy, r store.Report, run reading, fresh assay.Verdict) (v verdict, err error) {
	var chosen *assay.Baseline
	basis := control.BasisNone
	v.engine = run.manifest.Engine
	like, err := score.FromRun(run.manifest, run.summary, "report "+r.ID)
	if err != nil {
		v.scored.NoPeer = foreign.Line(err.Error(), 300)
	} else {
		v.peer, v.scored.Figures = peerKey(like), &like
		v.point = pointOf(r, run, like, v.peer)
		if chosen, basis, err = d.baseline(ctx, p, r.Node, v.peer, like); err != nil {
			return v, err
		}
	}
	health, err := d.health(score.Input{Manifest: run.manifest, Summary: run.summary, Checks: run.checks, Baseline: chosen})
	if err != nil {
		return d.unknown(r, err), nil
	}
	if chosen != nil {
		v.scored.Against = foreign.Line(chosen.Source, 200)
	}
	v.own = basis == control.BasisOwn
	v.scored.Measured = control.Measure(control.Report{
		Run: r.ID, Began: began(run.manifest, r), Answers: r.Command,
		Health: health, Summary: run.summary, Checks: run.checks, Basis: basis, Fresh: fresh,
	})
	v.scored.Score, v.scored.Result = &health.Score, &health.Performance
	v.scored.Model, v.scored.Levels = foreign.Line(run.summary.Engine.Model, 300), levels(run.summary)
	v.scored.Findings = health.Findings[:min(len(health.Findings), 50)]
	return v, nil
}

// health is score.Health on figures of a stranger.
func (d *Decider) health(in score.Input) (h assay.Health, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("scoring a report failed in the program itself; please report it", "error", fmt.Sprint(p))
			err = unreadable("scoring it failed in the program itself")
		}
	}()
	return score.Health(in), nil
}

// baseline chooses what a node is compared with: its own, else its peers.
func (d *Decider) baseline(ctx context.Context, p control.Policy, node, peer string, like assay.Baseline) (*assay.Baseline, control.Basis, error) {
	var own *assay.Baseline
	switch row, err := d.store.Baseline(ctx, ownKey(node, peer)); {
	case err == nil:
		b, err := score.ParseBaseline(row.Body)
		if err != nil {
			return nil, "", err
		}
		own = &b
	case !errors.Is(err, store.ErrNotFound):
		return nil, "", err
	}
	var peers []assay.Baseline
	if own == nil {
		rows, err := d.store.PeerReports(ctx, peer, node, maxPeers)
		if err != nil {
			return nil, "", err
		}
		for _, row := range rows {
			var s Scored
			if json.Unmarshal(row.Summary, &s) == nil && s.Figures != nil {
				peers = append(peers, *s.Figures)
			}
		}
	}
	b, basis := control.ChooseBaseline(p, like, own, peers)
	return b, basis, nil
}

// keepBaseline makes the figures of a good run of an admitted node its own
// baseline, once: from then on it is compared with what it was when it was let in.
func (d *Decider) keepBaseline(ctx context.Context, node string, v verdict, n control.Node) error {
	switch {
	case v.own || v.scored.Figures == nil || n.Admission != control.Admitted || n.Last == nil || n.Last.Run != v.scored.Measured.Run:
		return nil
	case n.Last.Grade != control.GradeGood && (n.Last.Grade != control.GradeUnbased || n.Approval == nil):
		return nil
	}
	own, err := ownBaseline(node, v.peer, v.scored, d.now())
	if err != nil {
		return err
	}
	if _, err := d.store.Baseline(ctx, own.Peer); !errors.Is(err, store.ErrNotFound) {
		return err // it is there
	}
	_, err = d.store.PutBaseline(ctx, own, store.Trail{})
	if errors.Is(err, store.ErrConflict) {
		err = nil // somebody was first
	}
	return err
}

// accepted is the baseline that a person's approval makes of the report that was
// approved: what was let in is what the node is compared with from then on, and
// not whatever it measures next. Nil: the approval admitted nothing, or there is
// none to make, and why says so; then the next good report makes it.
func (d *Decider) accepted(ctx context.Context, h Happening, out *control.Outcome, now time.Time) (b *store.Baseline, why string, err error) {
	l := out.Node.Last
	admits := slices.ContainsFunc(out.Transitions, func(t control.Transition) bool {
		return t.Event == control.EventApprove && t.To == string(control.Admitted)
	})
	if h.Replica != "" || !admits {
		return nil, "", nil
	}
	if l == nil {
		return nil, "nothing was measured", nil
	}
	r, err := d.store.Report(ctx, everybody, h.Node, l.Run)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "the report that was approved is not kept any more", nil
	}
	if err != nil {
		return nil, "", err
	}
	var s Scored
	if err := json.Unmarshal(r.Summary, &s); err != nil {
		return nil, "what was made of report " + r.ID + " cannot be read", nil
	}
	if s.Figures == nil || r.Peer == "" {
		return nil, "report " + r.ID + " has no figures to compare with: " + cmp.Or(s.NoPeer, "its run could not be read"), nil
	}
	s.Measured.Run = r.ID
	own, err := ownBaseline(h.Node, r.Peer, s, now)
	return &own, "", err
}

// ownBaseline is a report's figures as its node's own baseline.
func ownBaseline(node, peer string, s Scored, now time.Time) (store.Baseline, error) {
	b := *s.Figures
	b.Name, b.Source = "own", foreign.Line("report "+s.Measured.Run, 200)
	body, err := json.Marshal(b)
	return store.Baseline{Peer: ownKey(node, peer), At: now, Source: b.Source, Body: body}, err
}

// peerKey names runs that can be compared. The words are a node's; whether two are
// the same is for control to say.
func peerKey(b assay.Baseline) string {
	text := fmt.Sprintf("%d × %q, %q, %q, %s %g", b.GPUCount, strings.ToLower(b.GPUModel), b.Engine, b.Model, b.Load, b.At)
	if clean := foreign.Line(text, 300); clean == text {
		return text
	}
	return store.Hash(text)
}

func ownKey(node, peer string) string { return "node " + node + ": " + peer }
