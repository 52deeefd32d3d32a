package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	// Told are notices of the same matter that went out already: a report that is
	// about a node and its replica pages once.
	Told []control.Notice
	// Audit is written with the decision; each entry of a known principal is also
	// signed, for the ledger.
	Audit []store.AuditEntry
}

// told says whether people know it already.
func (h Happening) told(n control.Notice) bool {
	return slices.ContainsFunc(h.Told, func(t control.Notice) bool {
		return t.Kind == n.Kind && t.Key == n.Key && t.Resolved == n.Resolved && t.Key != control.KeyBreaker
	})
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
	policy   control.Policy
	row      store.Facts
	owner    string
	node     control.Node // or the replica
	host     *control.Host
	breakers control.Breakers
	from     int64 // the breaker's
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
	if err := json.Unmarshal(s.row.State, &s.node); err != nil {
		return s, fmt.Errorf("the state of node %s: %w", h.Node, err)
	}
	if h.Replica != "" {
		if err := d.readReplica(ctx, h, &s); err != nil {
			return s, err
		}
	}
	s.node.Version = s.row.Version
	s.breakers, s.from, err = d.breakers(ctx)
	return s, err
}

// breakers reads the one row that has both.
func (d *Decider) breakers(ctx context.Context) (b control.Breakers, version int64, err error) {
	row, err := d.store.Breaker(ctx)
	if err != nil {
		return b, 0, err
	}
	if err := json.Unmarshal(row.Body, &b); err != nil {
		return b, 0, fmt.Errorf("the breaker: %w", err)
	}
	b.Version = row.Version
	return b, row.Version, nil
}

// readReplica puts a replica in the place of its node, with what the node brings.
func (d *Decider) readReplica(ctx context.Context, h Happening, s *state) error {
	all, err := d.store.Replicas(ctx, h.Scope, h.Node)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r store.Replica) bool { return r.Name == h.Replica })
	if i < 0 {
		return fmt.Errorf("replica of node %s: %w", h.Node, store.ErrNotFound)
	}
	node := s.node
	s.row, s.node = all[i].Facts, control.Node{}
	s.host = &control.Host{Verification: node.Verification, Approval: node.Approval}
	if err := json.Unmarshal(s.row.State, &s.node); err != nil {
		return fmt.Errorf("the state of replica %q of node %s: %w", h.Replica, h.Node, err)
	}
	if s.node.Facts != (control.Facts{}) && node.Contact != "" {
		s.node.Contact, s.node.ContactSince = node.Contact, node.ContactSince // one agent speaks for both
	}
	return nil
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
	h.Event.Host = s.host
	out := control.Step(s.policy, s.node, s.breakers.For(h.Replica != ""), h.Event, now)
	if out.Refused {
		d.metrics.decided(h, s.node, out)
		return out, nil
	}
	out.Notices = slices.DeleteFunc(out.Notices, h.told)
	if err := d.keep(ctx, h, s, &out, now); err != nil {
		return out, err
	}
	d.metrics.decided(h, s.node, out)
	return out, nil
}

// keep stores an outcome.
func (d *Decider) keep(ctx context.Context, h Happening, s state, out *control.Outcome, now time.Time) error {
	if !out.Changed(s.node) {
		return d.keepLittle(ctx, h, s, out, now)
	}
	dec, err := d.decision(ctx, h, s, out, now)
	if err != nil {
		return err
	}
	if dec.Breaker, err = s.nextBreaker(h, out); err != nil {
		return err
	}
	err = d.store.Decide(ctx, dec)
	if errors.Is(err, database.ErrUncertain) {
		err = d.ascertain(ctx, h, dec, err)
	}
	return err
}

// keepLittle stores what there is when the node itself does not change.
func (d *Decider) keepLittle(ctx context.Context, h Happening, s state, out *control.Outcome, now time.Time) error {
	trail, err := d.trail(h, s, nil, out.Notices, now)
	if err != nil {
		return err
	}
	body, err := s.nextBreaker(h, out)
	switch {
	case err != nil:
		return err
	case body != nil:
		return d.store.SetBreaker(ctx, s.from, body, now, trail)
	case len(trail.Audit) > 0 || len(trail.Outbox) > 0 || len(trail.Anomalies) > 0:
		return d.store.AddAudit(ctx, trail)
	}
	return nil
}

// nextBreaker is the breakers' row after an outcome; nil: it stays as it is.
func (s state) nextBreaker(h Happening, out *control.Outcome) (json.RawMessage, error) {
	replica := h.Replica != ""
	if out.Breaker == s.breakers.For(replica) {
		return nil, nil
	}
	return json.Marshal(s.breakers.With(replica, out.Breaker))
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
