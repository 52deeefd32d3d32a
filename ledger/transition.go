package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
)

// Limits of what a server says about a transition or an action.
const (
	MaxReasons  = 16
	MaxEvidence = 64
	MaxWord     = 100 // a fact, a state, an action, an outcome, a replica's name, an id
	MaxActor    = 200 // also a target, and a server's origin
)

// Transition is the predicate node-transition/v1: a server moved one of the facts
// that it keeps about a node. Its stamp's Node is the node, so that the records
// of one node stay in order, and its Nonce is empty.
type Transition struct {
	Stamp
	Server        string   `json:"server"`         // who decided: the server's origin
	Replica       string   `json:"replica"`        // of the node; empty: the node itself
	Fact          string   `json:"fact"`           // admission, intent or contact
	From          string   `json:"from"`           // empty: the node is new
	To            string   `json:"to"`             //
	Reasons       []string `json:"reasons"`        // in words, at least one
	Evidence      []string `json:"evidence"`       // ids of what it rests on; their hashes are the statement's subjects
	Actor         string   `json:"actor"`          // server:…, person:…, token:… or node:…
	PolicyVersion int64    `json:"policy_version"` // of the policy that it was made by
	Version       int64    `json:"version"`        // of the node's row after it: no two transitions of a node share one
}

// Evidence is something that a transition rests on: its id, and the hash of its
// bytes (of a report, that of the envelope as it was received).
type Evidence struct{ ID, SHA256 string }

// facts are what a transition can be about.
var facts = []string{"admission", "intent", "contact"}

// StateTransition signs a transition. What cannot be printed in its words is
// replaced, and what is too long is cut: they come from people, nodes and
// engines, and a transition that happened must not be lost for its words.
func StateTransition(ctx context.Context, t Transition, evidence []Evidence, by Signer) (Record, error) {
	t.Replica, t.Reasons = foreign.Line(t.Replica, MaxWord), cleanReasons(t.Reasons)
	t.Evidence = []string{}
	subjects := []ResourceDescriptor{nodeSubject(t.Node)}
	for _, e := range evidence[:min(len(evidence), MaxEvidence)] {
		t.Evidence = append(t.Evidence, e.ID)
		subjects = append(subjects, subject(evidenceSubject(e.ID), e.SHA256))
	}
	t.Time = t.Time.UTC()
	if err := t.check(subjects); err != nil {
		return Record{}, fmt.Errorf("state a transition of node %s: %w", t.Node, err)
	}
	r, err := stateByServer(ctx, NodeTransition, subjects, t, by)
	if err != nil {
		return Record{}, fmt.Errorf("state a transition of node %s: %w", t.Node, err)
	}
	return r, nil
}

// TransitionOf reads the predicate of a statement that ParseStatement took,
// strictly. It says nothing about the signature.
func TransitionOf(s Statement) (Transition, error) {
	var t Transition
	if err := decodeMembers(s.Predicate, &t, "id", "node", "nonce", "time", "server", "replica", "fact", "from", "to", "reasons", "evidence", "actor", "policy_version", "version"); err != nil {
		return Transition{}, fmt.Errorf("%w: predicate: %w", ErrStatement, err)
	}
	return t, t.check(s.Subject)
}

// check holds the rules of docs/formats/statement.md.
func (t Transition) check(subjects []ResourceDescriptor) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: predicate: %w", ErrStatement, fmt.Errorf(format, args...))
	}
	if t.Nonce != "" {
		return bad("it has a nonce, and is about no run")
	}
	for _, w := range []struct {
		what, text string
		most       int
		empty      bool
	}{
		{"server", t.Server, MaxActor, false}, {"replica", t.Replica, MaxWord, true}, {"fact", t.Fact, MaxWord, false},
		{"from", t.From, MaxWord, true}, {"to", t.To, MaxWord, false}, {"actor", t.Actor, MaxActor, false},
	} {
		if w.empty && w.text == "" {
			continue
		}
		if err := checkKeyWords(w.what, w.text, w.most); err != nil {
			return bad("%w", err)
		}
	}
	switch {
	case !slices.Contains(facts, t.Fact):
		return bad("fact is %.40q; known are %q", t.Fact, facts)
	case t.From == t.To:
		return bad("it leads from %q to %q, which is no transition", t.From, t.To)
	case len(t.Reasons) == 0 || len(t.Reasons) > MaxReasons:
		return bad("it has %d reasons; 1 to %d are allowed", len(t.Reasons), MaxReasons)
	case t.Evidence == nil:
		return bad("evidence is a list, if an empty one")
	case t.PolicyVersion < 0 || t.Version < 1:
		return bad("it is of policy %d and version %d of the node", t.PolicyVersion, t.Version)
	}
	for _, r := range t.Reasons {
		if err := checkKeyWords("reason", r, MaxReason); err != nil {
			return bad("%w", err)
		}
	}
	return t.checkSubjects(subjects)
}

// checkSubjects refuses subjects that are not the node and the evidence.
func (t Transition) checkSubjects(subjects []ResourceDescriptor) error {
	want := []string{nodeSubject(t.Node).Name}
	for _, id := range t.Evidence {
		if err := checkKeyWords("evidence", id, MaxWord); err != nil {
			return fmt.Errorf("%w: predicate: %w", ErrStatement, err)
		}
		want = append(want, evidenceSubject(id))
	}
	var have []string
	for _, s := range subjects {
		have = append(have, s.Name)
	}
	if !slices.Equal(want, have) || subjects[0].Digest["sha256"] != nodeSubject(t.Node).Digest["sha256"] {
		return fmt.Errorf("%w: its subjects are %.300q and must be the node and the evidence, %.300q", ErrStatement, have, want)
	}
	for _, s := range subjects {
		if !isSHA256(s.Digest["sha256"]) {
			return fmt.Errorf("%w: subject %.100q has no sha256", ErrStatement, s.Name)
		}
	}
	return nil
}

// nodeSubject names a node among subjects, which must have a hash: of its id.
func nodeSubject(node string) ResourceDescriptor {
	sum := sha256.Sum256([]byte(node))
	return subject("node:"+node, hex.EncodeToString(sum[:]))
}

func evidenceSubject(id string) string { return "evidence:" + id }

// cleanReasons makes reasons that can be signed: none becomes one that says so.
func cleanReasons(in []string) []string {
	var out []string
	for _, r := range in {
		if r = strings.TrimSpace(foreign.Line(r, MaxReason)); r != "" {
			out = append(out, r)
		}
	}
	if more := len(out) - MaxReasons; more > 0 {
		out = append(out[:MaxReasons-1], fmt.Sprintf("and %d more", more+1))
	}
	if len(out) == 0 {
		out = []string{"none was given"}
	}
	return out
}

// stateByServer signs a statement of the server's own and makes its record.
func stateByServer(ctx context.Context, kind string, subjects []ResourceDescriptor, predicate any, by Signer) (Record, error) {
	if by == nil {
		return Record{}, errors.New("there is no key to sign with")
	}
	envelope, err := signStatement(ctx, by, kind, subjects, predicate)
	if err != nil {
		return Record{}, err
	}
	return RecordOf(envelope)
}
