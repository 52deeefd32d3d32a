package decide

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
)

// Found keeps what the server found out about a node itself, under a new id. What
// follows from one that failed is the policy's, by the kind of anomaly that it is.
func (d *Decider) Found(ctx context.Context, f store.Finding, anomaly string) error {
	now := d.now()
	f.ID, f.At, f.Text = d.newID(now), now, foreign.Line(f.Text, 500)
	if err := d.store.AddFinding(ctx, f); err != nil {
		return err
	}
	if f.Verdict != control.ProofFail {
		return nil
	}
	if told, err := d.goesOn(ctx, f, anomaly); told || err != nil {
		return err
	}
	body, err := json.Marshal(trend.Finding{Kind: anomaly, Metric: f.Check, Subject: f.Node, Since: now, Text: f.Text})
	if err != nil {
		return err
	}
	_, err = d.Happen(ctx, Happening{
		Node: f.Node, Scope: everybody,
		Event:   control.Event{Kind: control.EventAnomaly, Anomaly: anomaly, Reason: f.Text, Evidence: []string{f.ID}, Actor: byServer},
		Anomaly: &store.Anomaly{ID: d.newID(now), At: now, Node: f.Node, Kind: anomaly, Metric: f.Check, Subject: f.Node, Report: f.ID, Body: body},
	})
	if errors.Is(err, store.ErrTaken) {
		return nil // it was decided on
	}
	return err
}

// tellAgain is how often people are told of one trouble that goes on.
const tellAgain = 24 * time.Hour

// goesOn says whether people know of a failure, and nothing is left to follow from it:
// its node is out, or it is away and tried every few minutes. Else a node that was
// taken out for cheating would page somebody by every look until it is retired.
func (d *Decider) goesOn(ctx context.Context, f store.Finding, anomaly string) (bool, error) {
	told, err := d.store.ToldSince(ctx, f.Node, anomaly, f.Check, f.At.Add(-tellAgain))
	if err != nil || !told || f.Check == control.CheckReach {
		return told, err
	}
	n, err := d.store.Node(ctx, everybody, f.Node)
	return n.Admission == string(control.Quarantined), err
}

// Policy is the policy in force.
func (d *Decider) Policy(ctx context.Context) (control.Policy, error) { return d.inForce(ctx) }
