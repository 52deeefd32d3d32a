package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

const reportSum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func testTransition() (Transition, []Evidence) {
	return Transition{
		Stamp:  Stamp{ID: ulid.ULID{1}, Node: "n1", Time: day(1)},
		Server: "https://assay.example", Fact: "admission", From: "admitted", To: "quarantined",
		Reasons: []string{"the score's lower bound is 41, below 60"}, Actor: "server:s1", PolicyVersion: 3, Version: 7,
	}, []Evidence{{"01J00000000000000000000001", reportSum}}
}

func testAction() Action {
	return Action{
		Stamp:  Stamp{ID: ulid.ULID{2}, Node: "n1", Time: day(1).Add(1500 * time.Microsecond)},
		Server: "https://assay.example", Actor: "person:p1", Action: "drain", Target: "n1", Outcome: "done",
	}
}

// checkRecord judges a record as a notary does.
func checkRecord(ring *Keyring, r Record) error {
	e, err := ReadEnvelope(r.Value)
	if err != nil {
		return err
	}
	s, st, err := ParseStatement(e.Payload)
	if err != nil {
		return err
	}
	_, err = ring.Check(e, s, st, time.Time{})
	return err
}

// TestServersKey: it signs transitions and actions of any node and nothing else,
// and no other role signs them.
func TestServersKey(t *testing.T) {
	n := newNetwork(t)
	server := testSigner("server key")
	serverKey := stateTestKey(t, server, n.root, "server", RoleServer)
	ring := NewKeyring(n.rootKey)
	if err := ring.AddAll(unlogged(n.nodeKey.Envelope, serverKey.Envelope, n.enrolKey.Envelope)...); err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]Signer{"server": server, "enrol": n.enrol, "node": n.node, "authority": n.root} {
		tr, ev := testTransition()
		made, err := StateTransition(t.Context(), tr, ev, by)
		if err != nil {
			t.Fatal(err)
		}
		acted, err := StateAction(t.Context(), testAction(), "why", by)
		if err != nil {
			t.Fatal(err)
		}
		for what, r := range map[string]Record{"transition": made, "action": acted} {
			err := checkRecord(ring, r)
			if (name == "server") != (err == nil) || err != nil && !errors.Is(err, ErrRole) {
				t.Errorf("%s by %s: %v", what, name, err)
			}
			if r.Node != "n1" || r.Kind != KindEnvelope {
				t.Errorf("%s: record of %q, kind %s", what, r.Node, r.Kind)
			}
		}
	}
	for _, node := range []string{"server", "n1"} {
		if _, err := checkRun(t, ring, server, node, day(1), day(1)); !errors.Is(err, ErrRole) {
			t.Errorf("it signed a run of %s: %v", node, err)
		}
	}
	if err := CheckSigner(server, serverKey, "server", day(1)); !errors.Is(err, ErrRole) {
		t.Errorf("CheckSigner lets it sign runs: %v", err)
	}
	if err := CheckSigner(n.node, n.nodeKey, "n1", day(1)); err != nil {
		t.Errorf("CheckSigner of a node's key: %v", err)
	}
	thief := testSigner("thief")
	for _, role := range Roles() {
		if err := ring.Add(stateTestKey(t, thief, server, "n1", role).Envelope, time.Time{}); !errors.Is(err, ErrRole) {
			t.Errorf("it certified a key for %s: %v", role, err)
		}
		if role != RoleRun {
			if err := ring.Add(stateTestKey(t, thief, n.enrol, "n1", role).Envelope, time.Time{}); !errors.Is(err, ErrRole) {
				t.Errorf("an enrol key certified one for %s: %v", role, err)
			}
		}
	}
	for _, roles := range [][]Role{{RoleServer, RoleRun}, {RoleEnrol, RoleServer}, {RoleAuthority, RoleServer}} {
		if err := CheckRoles(roles); err == nil || !strings.Contains(err.Error(), "stands alone") {
			t.Errorf("%v: %v", roles, err)
		}
	}
}

// TestTransitionStatement: what is signed is what was given, in words that can be
// printed, with the evidence as subjects.
func TestTransitionStatement(t *testing.T) {
	tr, ev := testTransition()
	tr.Reasons = append(tr.Reasons, "an engine's\x1b[2J words", " ")
	for range 20 {
		tr.Reasons = append(tr.Reasons, strings.Repeat("long", 1000))
	}
	r, err := StateTransition(t.Context(), tr, ev, testSigner("server key"))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := ReadEnvelope(r.Value)
	s, _, err := ParseStatement(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	got, err := TransitionOf(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Reasons) != MaxReasons || got.Reasons[0] != tr.Reasons[0] || got.Reasons[MaxReasons-1] != "and 7 more" || strings.Contains(got.Reasons[1], "\x1b") {
		t.Errorf("reasons %q", got.Reasons)
	}
	if got.Version != 7 || got.To != "quarantined" || !got.Time.Equal(tr.Time) || !slices.Equal(got.Evidence, []string{ev[0].ID}) {
		t.Errorf("%+v", got)
	}
	if len(s.Subject) != 2 || s.Subject[0].Name != "node:n1" || s.Subject[1].Digest["sha256"] != reportSum {
		t.Errorf("subjects %+v", s.Subject)
	}
	if tr.Reasons = nil; true {
		if r, err = StateTransition(t.Context(), tr, nil, testSigner("server key")); err != nil || len(r.Value) == 0 {
			t.Errorf("without words or evidence: %v", err)
		}
	}
	if _, err := StateTransition(t.Context(), tr, []Evidence{{"x", "no hash"}}, testSigner("server key")); err == nil {
		t.Error("evidence without a hash was signed")
	}
	if _, err := StateTransition(t.Context(), tr, nil, nil); err == nil {
		t.Error("signed without a key")
	}
}

// TestTransitionFitsALog: the largest statement is not too large.
func TestTransitionFitsALog(t *testing.T) {
	tr, _ := testTransition()
	tr.Replica, tr.Server, tr.Actor = strings.Repeat(`"`, MaxWord), strings.Repeat(`"`, MaxActor), strings.Repeat(`"`, MaxActor)
	tr.Reasons = slices.Repeat([]string{strings.Repeat(`"`, MaxReason)}, MaxReasons)
	ev := slices.Repeat([]Evidence{{strings.Repeat("e", MaxWord), reportSum}}, MaxEvidence+5)
	if _, err := StateTransition(t.Context(), tr, ev, testSigner("server key")); err != nil {
		t.Error(err)
	}
}

// TestServerStatementsRefused: one wrong member, and nobody takes it.
func TestServerStatementsRefused(t *testing.T) {
	tr, ev := testTransition()
	a := testAction()
	made, err := StateTransition(t.Context(), tr, ev, testSigner("server key"))
	if err != nil {
		t.Fatal(err)
	}
	acted, err := StateAction(t.Context(), a, "why", testSigner("server key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r             Record
		from, to, why string
	}{
		{made, `"fact":"admission"`, `"fact":"mood"`, "mood"},
		{made, `"to":"quarantined"`, `"to":"admitted"`, "no transition"},
		{made, `"version":7`, `"version":0`, "version 0"},
		{made, `"nonce":""`, `"nonce":"ab"`, "nonce"},
		{made, `"replica":""`, `"replica":"\u001b"`, "printed"},
		{made, `"replica":""`, `"replica":"","colour":"red"`, "colour"},
		{made, `"actor":"server:s1",`, ``, "actor"},
		{made, `"evidence":["01J00000000000000000000001"]`, `"evidence":[]`, "subjects"},
		{made, `"evidence":["01J00000000000000000000001"]`, `"evidence":null`, "list"},
		{made, `"node:n1"`, `"node:n2"`, "subjects"},
		{made, `"reasons":["the score's lower bound is 41, below 60"]`, `"reasons":[]`, "0 reasons"},
		{acted, `"actor":"person:p1"`, `"actor":"Jane Doe"`, "person:ID"},
		{acted, `"outcome":"done"`, `"outcome":""`, "outcome"},
		{acted, `"audit:`, `"audit:x`, "audit entry"},
		{acted, `"target":"n1"`, `"target":"\u0007"`, "printed"},
		{acted, `"target":"n1"`, `"target":"n1","detail":"words"`, "detail"},
	} {
		e, _ := ReadEnvelope(tt.r.Value)
		payload := bytes.Replace(e.Payload, []byte(tt.from), []byte(tt.to), 1)
		if bytes.Equal(payload, e.Payload) {
			t.Fatalf("%s is not in %s", tt.from, e.Payload)
		}
		s, _, err := ParseStatement(payload)
		if err == nil {
			if tt.r.ID == made.ID {
				_, err = TransitionOf(s)
			} else {
				_, err = ActionOf(s)
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v", tt.to, err)
		}
	}
}

// TestAuditSum: the hash covers each part of the entry, and no two entries share
// one by moving bytes between parts.
func TestAuditSum(t *testing.T) {
	a := testAction()
	sums := map[string]string{a.AuditSum("why"): "as it is"}
	for what, change := range map[string]func(*Action){
		"actor": func(a *Action) { a.Actor = "person:p2" }, "action": func(a *Action) { a.Action = "undrain" },
		"target": func(a *Action) { a.Target = "n2" }, "outcome": func(a *Action) { a.Outcome = "refused" },
		"time": func(a *Action) { a.Time = a.Time.Add(time.Microsecond) }, "id": func(a *Action) { a.ID[3]++ },
		"moved": func(a *Action) { a.Action, a.Target = "drainn", "1" },
	} {
		b := a
		change(&b)
		if other, twice := sums[b.AuditSum("why")]; twice {
			t.Errorf("%s has the sum of %s", what, other)
		}
		sums[b.AuditSum("why")] = what
	}
	if _, same := sums[a.AuditSum("other words")]; same {
		t.Error("the detail is not in the sum")
	}
}

// TestServerSchemas: what is signed keeps its schema, and the schema refuses what
// is not so.
func TestServerSchemas(t *testing.T) {
	tr, ev := testTransition()
	made, err := StateTransition(t.Context(), tr, ev, testSigner("server key"))
	if err != nil {
		t.Fatal(err)
	}
	acted, err := StateAction(t.Context(), testAction(), "", testSigner("server key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Record{"node-transition": made, "server-action": acted} {
		schema := keySchema(t, name)
		doc := keyPredicateOf(t, r.Value).(map[string]any)
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for m := range doc {
			for what, value := range map[string]any{"missing": nil, "a number": json.Number("-7")} {
				spoilt := maps.Clone(doc)
				if spoilt[m] = value; value == nil {
					delete(spoilt, m)
				}
				if schema.Validate(spoilt) == nil {
					t.Errorf("%s: %s %s keeps the schema", name, m, what)
				}
			}
		}
		if doc["more"] = true; schema.Validate(doc) == nil {
			t.Errorf("%s: one member more keeps the schema", name)
		}
	}
}
