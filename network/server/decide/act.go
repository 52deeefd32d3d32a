package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// A decider is what the server asks.
var (
	_ server.Decider = (*Decider)(nil)
	_ server.Rules   = (*Decider)(nil)
)

// afterwards is how soon an override ends that a person takes back.
const afterwards = time.Second

// Act carries out what a person decided about a node.
func (d *Decider) Act(ctx context.Context, a server.Act) error {
	if a.Action.Action == api.ActionActionStop {
		return d.stop(ctx, a)
	}
	h := Happening{Node: a.Node, Scope: scopeOf(a.By), Actor: a.By.ID, Audit: a.Trail.Audit}
	if a.Action.Replica != nil {
		h.Replica = *a.Action.Replica
	}
	var err error
	if h.Event, err = d.eventOf(ctx, a, h); err != nil {
		return err
	}
	out, err := d.Happen(ctx, h)
	if err != nil {
		return err
	}
	if out.Refused {
		return fmt.Errorf("%w: %s", server.ErrRefused, out.Why)
	}
	return d.replicasFollow(ctx, h)
}

// replicasFollow has a person's word about a node count for those of its replicas
// that wait for the same: an approval for newcomers, a readmission for those that
// measurements took out. Neither admits by itself. Who dies before it leaves replicas
// as they are, and the same word again does it.
func (d *Decider) replicasFollow(ctx context.Context, h Happening) error {
	if h.Replica != "" || h.Event.Kind != control.EventApprove && h.Event.Kind != control.EventReadmit {
		return nil
	}
	replicas, err := d.store.Replicas(ctx, h.Scope, h.Node)
	if err != nil {
		return err
	}
	for _, r := range replicas {
		var s control.Node
		if err := json.Unmarshal(r.State, &s); err != nil {
			return fmt.Errorf("the state of replica %q of node %s: %w", r.Name, h.Node, err)
		}
		if !follows(s, h.Event.Kind) {
			continue
		}
		_, err := d.Happen(ctx, Happening{Node: h.Node, Replica: r.Name, Scope: h.Scope, Actor: h.Actor, Event: h.Event})
		if gone(err) != nil {
			return err
		}
	}
	return nil
}

// follows says whether a replica waits for what was said of its node. One that a
// person took out waits for a person's word about itself.
func follows(s control.Node, k control.Kind) bool {
	switch s.Admission {
	case control.Pending, control.Verifying:
		return k == control.EventApprove
	case control.Quarantined:
		q := s.Quarantine
		return k == control.EventReadmit && q != nil && (q.Cause == control.CauseSoft || q.Cause == control.CauseHard || q.Cause == control.CauseHeld)
	}
	return false
}

func scopeOf(p server.Principal) store.Scope { return store.Scope{All: p.All, Owners: p.Owners} }

// personOf is who decides: a program with a token stands for whoever gave it one.
func personOf(p server.Principal) control.Actor {
	_, id, _ := strings.Cut(p.ID, ":")
	return control.Actor{Kind: control.ActorPerson, ID: id}
}

// eventOf is a person's word as control knows it.
func (d *Decider) eventOf(ctx context.Context, a server.Act, h Happening) (control.Event, error) {
	now := d.now()
	e := control.Event{At: now, Actor: personOf(a.By), Reason: a.Action.Reason}
	if a.Action.Seconds != nil {
		e.Until = now.Add(time.Duration(*a.Action.Seconds) * time.Second)
	}
	switch a.Action.Action {
	case api.ActionActionDrain:
		e.Kind = control.EventDrain
	case api.ActionActionUndrain:
		e.Kind = control.EventUndrain
	case api.ActionActionRetire:
		e.Kind = control.EventRetire
	case api.ActionActionQuarantine:
		e.Kind = control.EventQuarantine
	case api.ActionActionReadmit:
		e.Kind = control.EventReadmit
	case api.ActionActionApprove:
		e.Kind = control.EventApprove
	case api.ActionActionCheck:
		e.Kind = control.EventVerificationRequested
	case api.ActionActionOverride:
		e.Kind, e.Override = control.EventOverrideSet, control.OverrideKeep
		if a.Action.State != nil && control.Admission(*a.Action.State) == control.Quarantined {
			e.Override = control.OverrideOut
		}
		if a.Action.Seconds == nil {
			return e, fmt.Errorf("%w: an override needs an end: give seconds", server.ErrRefused)
		}
	case api.ActionActionClearOverride:
		return d.cleared(ctx, h, e, now)
	default:
		return e, fmt.Errorf("%w: %q is no action that this server knows", server.ErrRefused, a.Action.Action)
	}
	return e, nil
}

// cleared ends an override: one that keeps a node in ends at once, and one that
// keeps it out leads to a verification, never straight back.
func (d *Decider) cleared(ctx context.Context, h Happening, e control.Event, now time.Time) (control.Event, error) {
	s, err := d.read(ctx, h)
	if err != nil {
		return e, err
	}
	switch o := s.node.Override; {
	case o == nil:
		return e, fmt.Errorf("%w: there is no override", server.ErrRefused)
	case o.Kind == control.OverrideOut:
		e.Kind = control.EventReadmit
	default:
		e.Kind, e.Override, e.Until = control.EventOverrideSet, o.Kind, now.Add(afterwards)
	}
	return e, nil
}

// stop tells an agent to end its check at once. It changes no state.
func (d *Decider) stop(ctx context.Context, a server.Act) error {
	now := d.now()
	return d.store.AddCommand(ctx, scopeOf(a.By), store.Command{ID: d.newID(now), Node: a.Node, Kind: "stop", Reason: a.Action.Reason, Created: now, Expires: now.Add(stopLife)}, a.Trail)
}

// Reset lifts the breaker for a time.
func (d *Decider) Reset(ctx context.Context, by server.Principal, lift time.Duration, t store.Trail) error {
	for try := 0; ; try++ {
		err := d.lift(ctx, personOf(by), lift, t)
		if try >= maxTries || !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

func (d *Decider) lift(ctx context.Context, by control.Actor, lift time.Duration, t store.Trail) error {
	p, err := d.inForce(ctx)
	if err != nil {
		return err
	}
	b, version, err := d.breakers(ctx)
	if err != nil {
		return err
	}
	now := d.now()
	if b, err = b.Lift(p, by, now.Add(lift), now); err != nil {
		return fmt.Errorf("%w: %w", server.ErrRefused, err)
	}
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return d.store.SetBreaker(ctx, version, body, now, t)
}

// maxDifferences bounds what a trial of a policy shows.
const maxDifferences = 1000

// Test says what a policy would have decided in the last days.
func (d *Decider) Test(ctx context.Context, p control.Policy, days int) (api.PolicyTest, error) {
	trial, err := d.Try(ctx, p, d.now().AddDate(0, 0, -max(1, days)))
	if err != nil {
		return api.PolicyTest{}, err
	}
	if trial.Cut {
		return api.PolicyTest{}, fmt.Errorf("%w: the times of what happened, from %s to %s, are too far apart to try a policy on: a clock was wrong. Give fewer days",
			server.ErrRefused, trial.From.UTC().Format(time.RFC3339), trial.To.UTC().Format(time.RFC3339))
	}
	out := api.PolicyTest{Events: trial.Events, Nodes: trial.Nodes, Decisions: []api.PolicyDifference{}}
	for _, diff := range trial.Differences {
		for _, m := range moves(diff) {
			if len(out.Decisions) >= maxDifferences {
				return out, nil
			}
			out.Decisions = append(out.Decisions, api.PolicyDifference{Node: diff.ID, Time: m.at, Now: m.now, Then: m.then, Reasons: &m.reasons})
		}
	}
	return out, nil
}

// move is a moment at which two policies have different opinions.
type move struct {
	at        time.Time
	now, then string
	reasons   []string
}

// moves merges what both decided about a node.
func moves(d control.Difference) (out []move) {
	i, j := 0, 0
	var now, then string
	for i < len(d.Old) || j < len(d.New) {
		var m move
		switch {
		case j >= len(d.New) || i < len(d.Old) && !d.Old[i].At.After(d.New[j].At):
			m.at, m.reasons = d.Old[i].At, d.Old[i].Reasons
			if j < len(d.New) && d.New[j].At.Equal(m.at) {
				then = d.New[j].To
				j++
			}
			now = d.Old[i].To
			i++
		default:
			m.at, m.reasons, then = d.New[j].At, d.New[j].Reasons, d.New[j].To
			j++
		}
		if m.now, m.then = now, then; now != then {
			out = append(out, m)
		}
	}
	return out
}
