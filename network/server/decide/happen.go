package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// maxTries bounds how often one event is decided anew because somebody else was
// first. The breaker is one row for all nodes: many tries are no fault.
const maxTries = 200

// Happening is something that happened to a node.
type Happening struct {
	Node    string
	Replica string // its name; empty: the node itself
	Scope   store.Scope
	Event   control.Event
	Actor   string // person:ID or token:ID, where Event.Actor is a person
	Report  *store.Report
	// Baseline names what the report was compared with.
	Baseline string
	// Anomaly is kept with what is decided on it; nil: the event is none.
	Anomaly *store.Anomaly
	// Audit is written with the decision; each entry of a known principal is also
	// signed, for the ledger.
	Audit []store.AuditEntry
}

// Happen decides on an event and stores what follows from it, once. An outcome
// that is refused has left nothing behind.
func (d *Decider) Happen(ctx context.Context, h Happening) (control.Outcome, error) {
	for try := 0; ; try++ {
		out, err := d.once(ctx, h)
		if err == nil || try >= maxTries || !errors.Is(err, store.ErrConflict) {
			return out, err
		}
		wait := time.NewTimer(time.Duration(rand.Int64N(int64(5*time.Millisecond) * int64(min(try+1, 20)))))
		select {
		case <-ctx.Done():
			wait.Stop()
			return out, ctx.Err()
		case <-wait.C:
		}
	}
}

// state is what a decision is made on.
type state struct {
	policy  control.Policy
	row     store.Facts
	owner   string
	node    control.Node
	breaker control.Breaker
	from    int64 // the breaker's
}

func (d *Decider) read(ctx context.Context, h Happening) (s state, err error) {
	if s.policy, err = d.inForce(ctx); err != nil {
		return s, err
	}
	n, err := d.store.Node(ctx, h.Scope, h.Node)
	if err != nil {
		return s, err
	}
	s.row, s.owner = n.Facts, n.Owner
	if h.Replica != "" {
		if s.row, err = d.replica(ctx, h); err != nil {
			return s, err
		}
	}
	if err := json.Unmarshal(s.row.State, &s.node); err != nil {
		return s, fmt.Errorf("the state of node %s: %w", h.Node, err)
	}
	s.node.Version = s.row.Version
	b, err := d.store.Breaker(ctx)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b.Body, &s.breaker); err != nil {
		return s, fmt.Errorf("the breaker: %w", err)
	}
	s.from = b.Version
	s.breaker.Version = b.Version
	return s, nil
}

func (d *Decider) replica(ctx context.Context, h Happening) (store.Facts, error) {
	all, err := d.store.Replicas(ctx, h.Scope, h.Node)
	if err != nil {
		return store.Facts{}, err
	}
	for _, r := range all {
		if r.Name == h.Replica {
			return r.Facts, nil
		}
	}
	return store.Facts{}, fmt.Errorf("replica of node %s: %w", h.Node, store.ErrNotFound)
}

// once reads, decides and stores once.
func (d *Decider) once(ctx context.Context, h Happening) (control.Outcome, error) {
	s, err := d.read(ctx, h)
	if err != nil {
		return control.Outcome{}, err
	}
	now := d.now()
	if h.Event.At.IsZero() {
		h.Event.At = now
	}
	if s.node.Facts == (control.Facts{}) && h.Event.Kind != control.EventEnrolled {
		// Whoever took it in could not finish.
		begin := Happening{Node: h.Node, Replica: h.Replica, Scope: h.Scope, Event: control.Event{Kind: control.EventEnrolled, At: now, Actor: control.Actor{Kind: control.ActorServer}}}
		if _, err := d.once(ctx, begin); err != nil {
			return control.Outcome{}, err
		}
		return control.Outcome{}, fmt.Errorf("node %s was begun: %w", h.Node, store.ErrConflict)
	}
	breaker := s.breaker
	if h.Replica != "" {
		breaker = control.Breaker{} // it counts nodes; a replica is not one of them
	}
	out := control.Step(s.policy, s.node, breaker, h.Event, now)
	if h.Replica != "" {
		out.Breaker = breaker
	}
	if out.Refused {
		return out, nil
	}
	return out, d.keep(ctx, h, s, &out, breaker, now)
}

// keep stores an outcome.
func (d *Decider) keep(ctx context.Context, h Happening, s state, out *control.Outcome, breaker control.Breaker, now time.Time) error {
	if !out.Changed(s.node) {
		return d.keepLittle(ctx, h, s, out, breaker, now)
	}
	dec, err := d.decision(ctx, h, s, out, now)
	if err != nil {
		return err
	}
	if out.Breaker != breaker {
		if dec.Breaker, err = json.Marshal(out.Breaker); err != nil {
			return err
		}
	}
	err = d.store.Decide(ctx, dec)
	if errors.Is(err, database.ErrUncertain) {
		err = d.ascertain(ctx, h, dec, err)
	}
	return err
}

// keepLittle stores what there is when the node itself does not change.
func (d *Decider) keepLittle(ctx context.Context, h Happening, s state, out *control.Outcome, breaker control.Breaker, now time.Time) error {
	trail, err := d.trail(h, s, nil, out.Notices, now)
	if err != nil {
		return err
	}
	switch {
	case out.Breaker != breaker:
		body, err := json.Marshal(out.Breaker)
		if err != nil {
			return err
		}
		return d.store.SetBreaker(ctx, s.from, body, now, trail)
	case len(trail.Audit) > 0 || len(trail.Outbox) > 0 || len(trail.Anomalies) > 0:
		return d.store.AddAudit(ctx, trail)
	}
	return nil
}

// ascertain finds out whether a transaction whose answer was lost was carried out.
func (d *Decider) ascertain(ctx context.Context, h Happening, dec store.Decision, lost error) error {
	s, err := d.read(ctx, h)
	switch {
	case err != nil:
		return errors.Join(lost, err)
	case s.row.Version == dec.From:
		return fmt.Errorf("%w: %w", store.ErrConflict, lost) // it was not: decide again
	case s.row.Version == dec.Next.Version && sameJSON(s.row.State, dec.Next.State):
		return nil
	}
	// Somebody decided after it, or in its place: the event is decided on what there
	// is now, and one that has counted counts no second time.
	return fmt.Errorf("%w: %w", store.ErrConflict, lost)
}

// sameJSON compares documents that both came from our encoder.
func sameJSON(a, b json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b)) }
