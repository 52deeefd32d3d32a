package decide

import (
	"context"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// judgeReplica has a report count for the replica that it names. The node was
// decided on before it, and what people were told of that is not told again.
func (d *Decider) judgeReplica(ctx context.Context, r store.Report, v verdict, node control.Outcome) error {
	if v.why != "" || node.Refused {
		return nil // it names nobody, or its node takes no more events
	}
	replicas, err := d.store.Replicas(ctx, everybody, r.Node)
	if err != nil {
		return err
	}
	name := replicaNamed(v.engine, replicas)
	if name == "" {
		return nil
	}
	m := v.scored.Measured
	_, err = d.Happen(ctx, Happening{
		Node: r.Node, Replica: name, Scope: everybody, Report: &r, Baseline: v.scored.Against, Told: node.Notices,
		Event: control.Event{Kind: control.EventReport, Actor: byServer, Report: &m},
	})
	return gone(err)
}

// replicaNamed is the replica that a run was made with: the one that it names, if
// that serves the model which answered. A run of before runs had the name is of the
// only replica with its model. Empty: of none.
func replicaNamed(e assay.Engine, replicas []store.Replica) string {
	model := foreign.Line(e.Model, 300) // as inventories have it
	var name string
	found := 0
	for _, r := range replicas {
		if r.Model == model && model != "" && (e.Replica == "" || e.Replica == r.Name) {
			name = r.Name
			found++
		}
	}
	if found != 1 {
		return ""
	}
	return name
}
