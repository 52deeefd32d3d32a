package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Action is the predicate server-action/v1: somebody whom a server knows did
// something there, or was refused. People are named by a random id: who that is
// stands in the server's register, where it can be erased; a log forgets nothing.
// For the same reason it holds no words of theirs: its subject is the hash of the
// audit entry that does.
type Action struct {
	Stamp
	Server  string `json:"server"`  // the server's origin
	Actor   string `json:"actor"`   // person:…, token:…, node:… or server:…
	Action  string `json:"action"`  // as the audit log has it
	Target  string `json:"target"`  // what it was done to; may be empty
	Outcome string `json:"outcome"` // done, refused …
}

// StateAction signs an action. Its stamp's ID is that of the audit entry, and its
// Node the node that it was about, else the server's origin. The detail is what
// the audit entry holds beside the members; only its hash leaves the server.
func StateAction(ctx context.Context, a Action, detail string, by Signer) (Record, error) {
	a.Target, a.Time = foreign.Line(a.Target, MaxActor), a.Time.UTC()
	subjects := []ResourceDescriptor{subject(auditSubject(a), a.AuditSum(detail))}
	if err := a.check(subjects); err != nil {
		return Record{}, fmt.Errorf("state an action: %w", err)
	}
	r, err := stateByServer(ctx, ServerAction, subjects, a, by)
	if err != nil {
		return Record{}, fmt.Errorf("state an action: %w", err)
	}
	return r, nil
}

// AuditSum hashes the audit entry of an action, as docs/formats/statement.md has
// it: whoever is shown the entry can check it with the statement.
func (a Action) AuditSum(detail string) string {
	h := sha256.New()
	for _, v := range []string{a.ID.String(), a.Time.UTC().Format(time.RFC3339Nano), a.Actor, a.Action, a.Target, a.Outcome, detail} {
		fmt.Fprintf(h, "%d:%s\n", len(v), v)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ActionOf reads the predicate of a statement that ParseStatement took, strictly.
// It says nothing about the signature.
func ActionOf(s Statement) (Action, error) {
	var a Action
	if err := decodeMembers(s.Predicate, &a, "id", "node", "nonce", "time", "server", "actor", "action", "target", "outcome"); err != nil {
		return Action{}, fmt.Errorf("%w: predicate: %w", ErrStatement, err)
	}
	return a, a.check(s.Subject)
}

func (a Action) check(subjects []ResourceDescriptor) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: predicate: %w", ErrStatement, fmt.Errorf(format, args...))
	}
	if a.Nonce != "" {
		return bad("it has a nonce, and is about no run")
	}
	for _, w := range []struct {
		what, text string
		most       int
	}{{"server", a.Server, MaxActor}, {"actor", a.Actor, MaxActor}, {"action", a.Action, MaxWord}, {"outcome", a.Outcome, MaxWord}} {
		if err := checkKeyWords(w.what, w.text, w.most); err != nil {
			return bad("%w", err)
		}
	}
	if kind, id, ok := strings.Cut(a.Actor, ":"); !ok || id == "" || kind != "person" && kind != "token" && kind != "node" && kind != "server" {
		return bad("actor is %.60q; person:ID, token:ID, node:ID and server:ID are known", a.Actor)
	}
	if len(a.Target) > MaxActor || !foreign.Plain(a.Target) {
		return bad("target has %d bytes; at most %d that can be printed are allowed", len(a.Target), MaxActor)
	}
	if len(subjects) != 1 || subjects[0].Name != auditSubject(a) {
		return fmt.Errorf("%w: its subject is not the audit entry %s", ErrStatement, a.ID)
	}
	return nil
}

func auditSubject(a Action) string { return "audit:" + a.ID.String() }
