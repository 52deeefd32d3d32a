package decide

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// maxHistory bounds the events that a policy is tried on; beyond it the oldest
// are left out.
const maxHistory = 200_000

// Try runs what happened since a time through the policy in force and through
// another, and says where they decide differently.
func (d *Decider) Try(ctx context.Context, next control.Policy, since time.Time) (control.Trial, error) {
	old, err := d.inForce(ctx)
	if err != nil {
		return control.Trial{}, err
	}
	history, err := d.history(ctx, since)
	if err != nil {
		return control.Trial{}, err
	}
	next.Version = old.Version + 1
	return control.DryRun(old, next, history), nil
}

// history is what happened to nodes, by the events that decisions keep. A node
// that was enrolled before has no state of that time: it is taken up with the
// first decision that is found, from a state in which it was just enrolled.
func (d *Decider) history(ctx context.Context, since time.Time) ([]control.History, error) {
	byNode := map[string]*control.History{}
	var order []string
	events := 0
	page := store.Page{Limit: 1000}
	for events < maxHistory {
		rows, err := d.store.History(ctx, everybody, since, page)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			page.After = r.ID
			var e control.Event
			if r.Replica != "" || json.Unmarshal(r.Event, &e) != nil {
				continue // of a version that had other events
			}
			h := byNode[r.Node]
			if h == nil {
				h = &control.History{ID: r.Node}
				if e.Kind != control.EventEnrolled {
					begun := control.Event{Kind: control.EventEnrolled, At: e.At.Add(-time.Hour), Actor: control.Actor{Kind: control.ActorServer}}
					h.Events = append(h.Events, begun)
				}
				byNode[r.Node] = h
				order = append(order, r.Node)
			}
			h.Events = append(h.Events, e)
			events++
		}
		if len(rows) < page.Limit {
			break
		}
	}
	out := make([]control.History, 0, len(order))
	for _, id := range order {
		out = append(out, *byNode[id])
	}
	return out, nil
}
