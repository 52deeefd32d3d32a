package decide

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// Replayed is what came of a topic.
type Replayed struct {
	Read     int // statements
	Missing  int // that the database did not have, and has now
	Unsigned int // events, which nobody signs: they stay where they are
	Refused  int // whose signature does not count here, or that are here with other bytes
	Nodes    int // nodes and replicas whose state is another one now
	// Why is why the first of the refused was.
	Why string
}

// Replay brings back what was published after the backup that a database comes
// from. Nothing is taken on the topic's word: nodes' statements count by the keys
// that this server certified, and those about decisions, actions and keys by its
// own. No server may run on the database meanwhile.
type Replay struct {
	decider *Decider
	id      server.Identity
	rings   map[string]*ledger.Keyring // by node
	moves   map[subject][]control.Transition
	out     Replayed
}

// subject is a node, or a replica of it.
type subject struct{ node, replica string }

// NewReplay begins one. The store must be one that records.
func NewReplay(st *store.Store, id server.Identity) (*Replay, error) {
	d, err := New(Options{Store: st, Signer: id.Own, Origin: id.Origin})
	if err != nil {
		return nil, err
	}
	return &Replay{
		decider: d, id: id, rings: map[string]*ledger.Keyring{}, moves: map[subject][]control.Transition{},
	}, nil
}

// Take takes records in the order that the topic has them.
func (r *Replay) Take(ctx context.Context, records []ledger.Record) error {
	var batch []store.Replayed
	for _, rec := range records {
		if rec.Kind != ledger.KindEnvelope {
			r.out.Unsigned++
			continue
		}
		r.out.Read++
		one, err := r.read(ctx, rec)
		var no *refused
		switch {
		case errors.As(err, &no):
			r.refuse(rec.ID.String(), no.why)
		case err != nil:
			return err
		default:
			batch = append(batch, one)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	missing, differ, err := r.decider.store.Replay(ctx, batch, r.decider.now())
	if err != nil {
		return err
	}
	r.out.Missing += missing
	for _, id := range differ {
		r.refuse(id, errors.New("the database has other bytes under this id"))
	}
	return nil
}

// refused is a record that does not count here, as errors of the database are not.
type refused struct{ why error }

func (e *refused) Error() string { return e.why.Error() }

func (r *Replay) refuse(id string, why error) {
	if r.out.Refused++; r.out.Why == "" {
		r.out.Why = foreign.Line(id+": "+why.Error(), 300)
	}
}

// read checks a record's signature, and finds what it says.
func (r *Replay) read(ctx context.Context, rec ledger.Record) (out store.Replayed, err error) {
	e, err := ledger.ReadEnvelope(rec.Value)
	if err != nil {
		return out, &refused{err}
	}
	s, stamp, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return out, &refused{err}
	}
	if stamp.ID != rec.ID || stamp.Node != rec.Node {
		return out, &refused{errors.New("it is under another id or node than the one that was signed")}
	}
	ring, err := r.ring(ctx, stamp.Node)
	if err != nil {
		return out, err
	}
	if _, err := ring.Check(e, s, stamp, time.Time{}); err != nil {
		return out, &refused{err}
	}
	out.Record = store.Record{ID: rec.ID.String(), Node: rec.Node, Kind: string(rec.Kind), Bytes: rec.Value, Received: stamp.Time}
	switch s.PredicateType {
	case ledger.KeyPredicate:
		err = r.key(ring, rec.Value, &out)
	case ledger.NodeTransition:
		err = r.transition(s, &out)
	case ledger.ServerAction:
		err = r.action(s, &out)
	}
	if err != nil {
		return out, &refused{err}
	}
	return out, nil
}

// ring has our own keys and those that the database has of a node. Those that were
// revoked count, too: what they signed was taken before.
func (r *Replay) ring(ctx context.Context, node string) (*ledger.Keyring, error) {
	if ring := r.rings[node]; ring != nil {
		return ring, nil
	}
	rows, err := r.decider.store.NodeKeys(ctx, everybody, node)
	if err != nil {
		return nil, err
	}
	trusted := []ledger.Key{r.id.OwnKey, r.id.EnrolKey}
	for _, row := range rows {
		k, err := ledger.ParseKey(row.Statement)
		if err != nil {
			return nil, fmt.Errorf("the database's key %s of node %s: %w", row.ID, node, err)
		}
		trusted = append(trusted, k)
	}
	r.rings[node] = ledger.NewKeyring(trusted...)
	return r.rings[node], nil
}

// key is a statement of our own about the key of a node.
func (r *Replay) key(ring *ledger.Keyring, envelope []byte, out *store.Replayed) error {
	k, err := ledger.ParseKey(envelope)
	if err != nil {
		return err
	}
	if k.SignedBy != r.id.EnrolKey.ID {
		return errors.New("it is about a key that another server or an authority certified")
	}
	if err := ring.Add(envelope, time.Time{}); err != nil {
		return err
	}
	out.Node = &store.Node{
		ID: k.Node, Owner: k.Owner, Name: k.Node, Created: k.Time,
		Facts: store.Facts{Admission: string(control.Pending), Intent: string(control.Serve), Contact: string(control.Seen), Reasons: []string{"enrolled"}},
	}
	out.Key = &store.NodeKey{ID: k.ID, Node: k.Node, PublicKey: k.Public, Statement: k.Envelope, NotBefore: k.NotBefore, NotAfter: k.NotAfter, Created: k.Time}
	return nil
}

// transition is a decision of our own.
func (r *Replay) transition(s ledger.Statement, out *store.Replayed) error {
	t, err := ledger.TransitionOf(s)
	if err != nil {
		return err
	}
	if t.Server != r.id.Origin {
		return fmt.Errorf("the server %s decided it", foreign.Line(t.Server, 100))
	}
	of := subject{t.Node, t.Replica}
	r.moves[of] = append(r.moves[of], control.Transition{Fact: control.Fact(t.Fact), From: t.From, To: t.To, At: t.Time, Reasons: t.Reasons, NodeVersion: t.Version})
	out.Transition = &store.Transition{
		ID: out.ID, At: t.Time, Node: t.Node, Replica: t.Replica, Fact: t.Fact, From: t.From, To: t.To, Actor: t.Actor,
		Reasons: t.Reasons, Evidence: t.Evidence, PolicyVersion: t.PolicyVersion, NodeVersion: t.Version, Statement: out.Bytes,
	}
	return nil
}

// action is something that somebody did here. A key that was revoked is so again.
func (r *Replay) action(s ledger.Statement, out *store.Replayed) error {
	a, err := ledger.ActionOf(s)
	if err != nil {
		return err
	}
	if a.Server != r.id.Origin {
		return fmt.Errorf("it was done at the server %s", foreign.Line(a.Server, 100))
	}
	e := store.AuditEntry{ID: out.ID, At: a.Time, Actor: a.Actor, Action: a.Action, Target: a.Target, Outcome: a.Outcome}
	if a.Node != r.id.Origin {
		e.Node = a.Node
	}
	out.Audit = &e
	if key, ok := strings.CutPrefix(a.Target, "key:"); ok && a.Action == "revokeKey" && a.Outcome == "done" {
		out.Revoked = key
	}
	return nil
}

// Finish gives nodes the state that the last transitions led to, and the breaker
// its counts.
func (r *Replay) Finish(ctx context.Context) (Replayed, error) {
	policy, err := r.decider.inForce(ctx)
	if err != nil {
		return r.out, err
	}
	for of, moves := range r.moves {
		changed, err := r.settle(ctx, policy, of, moves)
		if err != nil {
			return r.out, fmt.Errorf("node %s: %w", of.node, err)
		}
		if changed {
			r.out.Nodes++
		}
	}
	return r.out, r.decider.recount(ctx, r.decider.now())
}

// settle is for one node or replica. One that the database does not know has its
// transitions, and nothing else.
func (r *Replay) settle(ctx context.Context, p control.Policy, of subject, moves []control.Transition) (changed bool, err error) {
	h := Happening{Node: of.node, Replica: of.replica, Scope: everybody}
	s, err := r.decider.read(ctx, h)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now := r.decider.now()
	next := control.Restored(p, s.node, moves, now)
	if next.Version == s.node.Version {
		return false, nil
	}
	facts, err := factsOf(h, next)
	if err != nil {
		return false, err
	}
	due := []store.Due{{Kind: dueTick, Subject: subjectOf(of.node, of.replica), At: r.decider.dueOf(h, p, next, now)}}
	return true, r.decider.store.RestoreFacts(ctx, of.node, of.replica, s.row.Version, facts, due, now)
}
