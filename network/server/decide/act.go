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

// liftFor is how long a person's word holds the breaker open. After it the breaker
// judges by its counts again.
const liftFor = time.Hour

// Act carries out what a person decided about a node.
func (d *Decider) Act(ctx context.Context, a server.Act) error {
	scope := store.Scope{All: a.By.All, Owners: a.By.Owners}
	if a.Action.Action == api.ActionActionStop {
		return d.stop(ctx, a, scope)
	}
	e, err := d.event(a)
	if err != nil {
		return err
	}
	h := Happening{Node: a.Node, Scope: scope, Event: e, Actor: a.By.ID, Audit: a.Trail.Audit}
	if a.Action.Replica != nil {
		h.Replica = *a.Action.Replica
	}
	out, err := d.Happen(ctx, h)
	if err != nil {
		return err
	}
	if out.Refused {
		return fmt.Errorf("%w: %s", server.ErrRefused, out.Why)
	}
	return nil
}

// kinds are the events of actions.
var kinds = map[api.ActionAction]control.Kind{
	api.ActionActionDrain:      control.EventDrain,
	api.ActionActionUndrain:    control.EventUndrain,
	api.ActionActionRetire:     control.EventRetire,
	api.ActionActionQuarantine: control.EventQuarantine,
	api.ActionActionReadmit:    control.EventReadmit,
	api.ActionActionApprove:    control.EventApprove,
	api.ActionActionOverride:   control.EventOverrideSet,
	api.ActionActionCheck:      control.EventVerificationRequested,
}

// event is a person's action as control knows it.
func (d *Decider) event(a server.Act) (control.Event, error) {
	kind, ok := kinds[a.Action.Action]
	if !ok {
		return control.Event{}, fmt.Errorf("%w: an override ends at its time; to end it now, quarantine the node or readmit it", server.ErrRefused)
	}
	now := d.now()
	e := control.Event{Kind: kind, At: now, Actor: person(a.By), Reason: a.Action.Reason}
	if a.Action.Seconds != nil {
		e.Until = now.Add(time.Duration(*a.Action.Seconds) * time.Second)
	}
	if kind != control.EventOverrideSet {
		return e, nil
	}
	if a.Action.State == nil || a.Action.Seconds == nil {
		return e, fmt.Errorf("%w: an override needs a state (quarantined, or admitted to keep it in rotation) and seconds", server.ErrRefused)
	}
	switch *a.Action.State {
	case api.AdmissionQuarantined:
		e.Override = control.OverrideOut
	case api.AdmissionAdmitted, api.AdmissionDegraded:
		e.Override = control.OverrideKeep
	default:
		return e, fmt.Errorf("%w: an override keeps a node in rotation (admitted) or out of it (quarantined), not %s", server.ErrRefused, *a.Action.State)
	}
	return e, nil
}

// person is who acts. An API token stands for whoever holds it.
func person(p server.Principal) control.Actor {
	_, id, _ := strings.Cut(p.ID, ":")
	return control.Actor{Kind: control.ActorPerson, ID: id}
}

// stop has a check of the node end at once.
func (d *Decider) stop(ctx context.Context, a server.Act, scope store.Scope) error {
	now := d.now()
	return d.store.AddCommand(ctx, scope, store.Command{
		ID: d.newID(now), Node: a.Node, Kind: "stop",
		Reason: a.Action.Reason, Created: now, Expires: now.Add(stopLife),
	}, a.Trail)
}

// Test says what a policy would have decided in the last days.
func (d *Decider) Test(ctx context.Context, p control.Policy, days int) (api.PolicyTest, error) {
	trial, err := d.Try(ctx, p, d.now().AddDate(0, 0, -days))
	if err != nil {
		return api.PolicyTest{}, err
	}
	out := api.PolicyTest{Events: trial.Events, Nodes: trial.Nodes, Decisions: []api.PolicyDifference{}}
	for _, diff := range trial.Differences {
		row := api.PolicyDifference{Node: diff.ID, Time: trial.To, Now: string(diff.OldEnd), Then: string(diff.NewEnd)}
		if n := len(diff.New); n > 0 {
			row.Time, row.Reasons = diff.New[n-1].At, &diff.New[n-1].Reasons
		}
		out.Decisions = append(out.Decisions, row)
	}
	return out, nil
}

// Reset lets the breaker go for a while, by a person's word.
func (d *Decider) Reset(ctx context.Context, by server.Principal, _ string, t store.Trail) error {
	for try := 0; ; try++ {
		err := d.reset(ctx, by, t)
		if !errors.Is(err, store.ErrConflict) || try >= maxTries {
			return err
		}
	}
}

func (d *Decider) reset(ctx context.Context, by server.Principal, t store.Trail) error {
	row, err := d.store.Breaker(ctx)
	if err != nil {
		return err
	}
	var b control.Breaker
	if err := json.Unmarshal(row.Body, &b); err != nil {
		return fmt.Errorf("the breaker: %w", err)
	}
	b.Version = row.Version
	p, err := d.inForce(ctx)
	if err != nil {
		return err
	}
	now := d.now()
	lifted, err := b.Lift(p, person(by), now.Add(min(liftFor, time.Duration(p.Override.Max))), now)
	if err != nil {
		return fmt.Errorf("%w: %w", server.ErrRefused, err)
	}
	body, err := json.Marshal(lifted)
	if err != nil {
		return err
	}
	return d.store.SetBreaker(ctx, row.Version, body, now, t)
}
