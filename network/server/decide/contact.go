package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// maxListed bounds the nodes that are looked at in one turn.
const maxListed = 5000

var byServer = control.Actor{Kind: control.ActorServer}

// watch is since when the server and its database are known to work.
type watch struct {
	up   control.Up
	last time.Time // the last turn
}

// turn notes a turn that has begun, and one that went wrong or came late: a server
// that stood still, or whose database was away, has heard nobody meanwhile.
func (w *watch) turn(now time.Time, late time.Duration) {
	if !w.last.IsZero() && now.Sub(w.last) > late {
		w.up.Server = now
	}
	w.last = now
	if w.up.Database.IsZero() {
		w.up.Database = now
	}
}

// contacts looks who is silent, who is back, and who has drained.
func (d *Decider) contacts() leasedTurn {
	w := &watch{up: control.Up{Server: d.started}}
	var counted time.Time
	return func(ctx context.Context, _ store.Lease) (bool, error) {
		begun := d.now()
		err := d.contact(ctx, w, begun)
		// A query that took long waited for a database that was away.
		if took := d.now().Sub(begun); err != nil || took > 5*time.Second {
			w.up.Database = time.Time{}
		}
		if err == nil && begun.Sub(counted) >= recountEvery {
			if err = d.recount(ctx, begun); err == nil {
				counted = begun
			}
		}
		return false, err
	}
}

// recountEvery is how often the breaker's counts are made anew.
const recountEvery = 5 * time.Minute

// recount makes the breaker's counts anew from all rows. Decisions keep them; after
// a restore they are as old as the backup, and a replica that its node does not name
// any more counts no longer.
func (d *Decider) recount(ctx context.Context, now time.Time) error {
	return d.store.RecountBreaker(ctx, now, func(row store.Breaker, nodes, replicas store.Counted) (json.RawMessage, error) {
		var b control.Breakers
		if err := json.Unmarshal(row.Body, &b); err != nil {
			return nil, fmt.Errorf("the breaker: %w", err)
		}
		b.Version = row.Version
		next := b.Recount(control.Counts(nodes), control.Counts(replicas))
		if next == b {
			return nil, nil
		}
		d.log.Warn("the breaker's counts were not those of the rows", "nodes", nodes, "nodes_were", control.Counts{Members: b.Members, Out: b.Out}, "replicas", replicas, "replicas_were", control.Counts{Members: b.Replicas.Members, Out: b.Replicas.Out})
		return json.Marshal(next)
	})
}

func (d *Decider) contact(ctx context.Context, w *watch, now time.Time) error {
	p, err := d.inForce(ctx)
	if err != nil {
		return err
	}
	beat := time.Duration(p.Silence.Heartbeat)
	w.turn(now, max(beat, 10*d.o.Every))
	return errors.Join(d.returned(ctx, p, now), d.silence(ctx, p, w.up, now), d.drained(ctx), d.begun(ctx))
}

// returned tells nodes that are heard again.
func (d *Decider) returned(ctx context.Context, p control.Policy, now time.Time) error {
	back, err := d.store.Returned(ctx, now.Add(-time.Duration(p.Silence.Heartbeat)*time.Duration(max(1, p.Silence.Missed))), maxListed)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range back {
		_, err := d.Happen(ctx, Happening{Node: n.ID, Scope: everybody, Event: control.Event{Kind: control.EventHeartbeat, Actor: control.Actor{Kind: control.ActorNode, ID: n.ID}}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// silence has control say who is silent, and stores it.
func (d *Decider) silence(ctx context.Context, p control.Policy, up control.Up, now time.Time) error {
	views, err := d.views(ctx, p, now)
	if err != nil {
		return err
	}
	b, version, err := d.breakers(ctx)
	if err != nil {
		return err
	}
	out := control.Silence(p, b.For(false), views, up, now)
	if out.Breaker != b.For(false) {
		body, err := json.Marshal(b.With(false, out.Breaker))
		if err != nil {
			return err
		}
		trail, err := d.trail(Happening{}, state{}, nil, out.Notices, now)
		if err != nil {
			return err
		}
		if err := d.store.SetBreaker(ctx, version, body, now, trail); err != nil {
			if errors.Is(err, store.ErrConflict) {
				return nil // the next turn sees what it is now
			}
			return err
		}
	}
	var errs []error
	for _, id := range out.Silent {
		_, err := d.Happen(ctx, Happening{Node: id, Scope: everybody, Event: control.Event{Kind: control.EventSilence, Actor: byServer}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// views are what control looks at: those who are overdue or silent one by one, and
// everybody else in rotation as a count, since there may be very many.
func (d *Decider) views(ctx context.Context, p control.Policy, now time.Time) ([]control.View, error) {
	since := now.Add(-time.Duration(p.Silence.Heartbeat) * time.Duration(max(1, p.Silence.Missed)))
	quiet, err := d.store.Quiet(ctx, since, maxListed)
	if err != nil {
		return nil, err
	}
	silent, err := d.store.Nodes(ctx, everybody, store.NodeFilter{Contact: string(control.Silent)}, store.Page{Limit: 1000})
	if err != nil {
		return nil, err
	}
	counts, err := d.store.CountNodes(ctx, everybody)
	if err != nil {
		return nil, err
	}
	views := make([]control.View, 0, len(quiet)+len(silent))
	listed := int64(0) // of those in rotation
	for _, n := range append(quiet, silent...) {
		v := viewOf(n)
		if n.LastSeen.IsZero() {
			v.LastSeen = n.Created
		}
		if inRotation(v.Facts) {
			listed++
		}
		views = append(views, v)
	}
	total := int64(0)
	for _, c := range counts {
		if inRotation(control.Facts{Admission: control.Admission(c.Admission), Intent: control.Intent(c.Intent)}) {
			total += c.Nodes
		}
	}
	for range max(0, total-listed) {
		views = append(views, control.View{Facts: control.Facts{Admission: control.Admitted, Intent: control.Serve, Contact: control.Seen}, LastSeen: now})
	}
	return views, nil
}

func viewOf(n store.Node) control.View {
	v := control.View{
		ID: n.ID, LastSeen: n.LastSeen,
		Facts: control.Facts{Admission: control.Admission(n.Admission), Intent: control.Intent(n.Intent), Contact: control.Contact(n.Contact)},
	}
	var s control.Node
	if json.Unmarshal(n.State, &s) == nil {
		v.ContactSince = s.ContactSince
	}
	return v
}

func inRotation(f control.Facts) bool {
	return (f.Admission == control.Admitted || f.Admission == control.Degraded) && f.Intent != control.Retired
}

// drained tells nodes on which nothing is running any more: by a heart-beat since
// the drain began, of an engine that says how many are.
func (d *Decider) drained(ctx context.Context) error {
	nodes, err := d.store.Nodes(ctx, everybody, store.NodeFilter{Intent: string(control.Draining)}, store.Page{Limit: 1000})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		var s control.Node
		if json.Unmarshal(n.State, &s) != nil || n.Running != 0 || !n.LastSeen.After(s.IntentSince) {
			continue
		}
		_, err := d.Happen(ctx, Happening{Node: n.ID, Scope: everybody, Event: control.Event{Kind: control.EventDrained, Actor: byServer}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// begun begins the life of nodes whose server ended between taking them in and
// that.
func (d *Decider) begun(ctx context.Context) error {
	nodes, err := d.store.Nodes(ctx, everybody, store.NodeFilter{Admission: string(control.Pending)}, store.Page{Limit: 1000})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		if n.Version == 0 {
			errs = append(errs, d.Enrolled(ctx, n.ID))
		}
	}
	return errors.Join(errs...)
}

// Enrolled begins a node's life, and that of its replicas. It may be told more than
// once.
func (d *Decider) Enrolled(ctx context.Context, node string) error {
	begin := Happening{Node: node, Scope: everybody, Event: control.Event{Kind: control.EventEnrolled, Actor: byServer}}
	if _, err := d.Happen(ctx, begin); err != nil {
		return err
	}
	replicas, err := d.store.Replicas(ctx, everybody, node)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range replicas {
		if r.Version == 0 {
			begin.Replica = r.Name
			_, err := d.Happen(ctx, begin)
			errs = append(errs, gone(err))
		}
	}
	return errors.Join(errs...)
}

// gone is nil for a replica that its node does not have any more.
func gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Acknowledged is told what became of a command.
func (d *Decider) Acknowledged(ctx context.Context, node, command, outcome string) error {
	if outcome != "started" {
		return nil // what was measured comes as a report; what was not times out
	}
	n, err := d.store.Node(ctx, everybody, node)
	if err != nil {
		return err
	}
	replicas, err := d.store.Replicas(ctx, everybody, node)
	if err != nil {
		return err
	}
	started := Happening{Node: node, Scope: everybody, Event: control.Event{Kind: control.EventVerificationStarted, Actor: control.Actor{Kind: control.ActorNode, ID: node}}}
	var errs []error
	tell := func(name string, state json.RawMessage) {
		var s control.Node
		if err := json.Unmarshal(state, &s); err != nil {
			errs = append(errs, fmt.Errorf("the state of node %s: %w", node, err))
			return
		}
		if s.Verification == nil || s.Verification.ID != command {
			return // an old one
		}
		started.Replica = name
		_, err := d.Happen(ctx, started)
		errs = append(errs, gone(err))
	}
	tell("", n.State)
	for _, r := range replicas {
		tell(r.Name, r.State)
	}
	return errors.Join(errs...)
}

// maxDue bounds the timers of one turn, and dueHold is how long nobody else looks
// at them.
const (
	maxDue  = 200
	dueHold = 30 * time.Second
	dueSoon = 30 * time.Second
)

// doDue ticks nodes and replicas for which something is due.
func (d *Decider) doDue(ctx context.Context) (bool, error) {
	due, err := d.store.ClaimDue(ctx, dueTick, d.o.Holder, d.now(), dueHold, maxDue)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, t := range due {
		errs = append(errs, d.tick(ctx, t))
	}
	return len(due) == maxDue, errors.Join(errs...)
}
