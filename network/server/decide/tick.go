package decide

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// How soon there is another look at a replica: while it drains, and while its node
// is silent and nothing can be asked of it. A node's own return sets its own timer.
const (
	lookDraining = 5 * time.Second
	lookSilent   = 5 * time.Minute
)

// subjectOf names whose timer it is: a node's id, and behind a slash a replica's
// name.
func subjectOf(node, replica string) string {
	if replica == "" {
		return node
	}
	return node + "/" + replica
}

// tick does what is due for a node or a replica.
func (d *Decider) tick(ctx context.Context, t store.Due) error {
	node, replica, _ := strings.Cut(t.Subject, "/")
	h := Happening{Node: node, Replica: replica, Scope: everybody, Event: control.Event{Kind: control.EventTick, Actor: byServer}}
	if replica != "" {
		idle, err := d.replicaIdle(ctx, h)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if idle {
			h.Event.Kind = control.EventDrained
		}
	}
	out, err := d.Happen(ctx, h)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return d.store.DoneDue(ctx, t, d.o.Holder)
	case err != nil:
		return err
	case out.Refused:
		return d.store.DoneDue(ctx, t, d.o.Holder)
	}
	p, err := d.inForce(ctx)
	if err != nil {
		return err
	}
	// A decision has set the timer anew. Without one it is set here, and not to a time
	// that has passed already.
	next := d.dueOf(h, p, out.Node, d.now())
	if now := d.now(); !next.IsZero() && !next.After(now) {
		next = now.Add(dueSoon)
	}
	return d.store.SetDue(ctx, store.Due{Kind: dueTick, Subject: t.Subject, At: next})
}

// dueOf is when the next tick is.
func (d *Decider) dueOf(h Happening, p control.Policy, n control.Node, now time.Time) time.Time {
	next := control.Due(p, n)
	if h.Replica == "" || n.Intent == control.Retired {
		return next
	}
	var look time.Time
	switch {
	case n.Intent == control.Draining:
		look = now.Add(lookDraining)
	case n.Contact != control.Seen:
		look = now.Add(lookSilent)
	}
	if !look.IsZero() && (next.IsZero() || look.Before(next)) {
		next = look
	}
	return next
}

// replicaIdle says whether a replica that drains has nothing running any more: by a
// heart-beat since the drain began.
func (d *Decider) replicaIdle(ctx context.Context, h Happening) (bool, error) {
	s, err := d.read(ctx, h)
	if err != nil || s.node.Intent != control.Draining {
		return false, err
	}
	n, err := d.store.Node(ctx, everybody, h.Node)
	if err != nil || !n.LastSeen.After(s.node.IntentSince) {
		return false, err
	}
	var beat api.Heartbeat
	if json.Unmarshal(n.Beat, &beat) != nil || beat.Replicas == nil || beat.RunningKnown != nil && !*beat.RunningKnown {
		return false, nil // it is not known: the deadline ends it
	}
	for _, r := range *beat.Replicas {
		if r.Name == h.Replica {
			return r.Running == 0, nil
		}
	}
	return false, nil
}
