package notary

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-bench/assay/ledger"
)

// A notary takes the statement over recorded operations, with its members and no
// others.
func TestNotaryTakesOperations(t *testing.T) {
	s := statement(newID(), "node-0", epoch, 1)
	p := ledger.Operations{
		Stamp: ledger.Stamp{ID: newID(), Node: "node-0", Time: epoch}, Operations: 1, First: &epoch, Last: &epoch,
		Devices: []string{"Cuda(0)"}, Result: "PASSED", PassedChecks: []string{"compute.golden"}, WarnedChecks: []string{}, FailedChecks: []string{},
	}
	s.PredicateType, s.Predicate = ledger.GPUOperations, must(json.Marshal(p))
	if kind, _, err := slowStatement(must(json.Marshal(s))); err != nil || kind != ledger.GPUOperations {
		t.Fatalf("%s: %v", kind, err)
	}
	for _, spoil := range []struct{ from, to, want string }{
		{`"devices"`, `"colour":"red","devices"`, "colour"},
		{`"PASSED"`, `"GOOD"`, "GOOD"},
		{`"failed":0`, `"failed":2`, "2 of 1"},
		{`["Cuda(0)"]`, `null`, "lists"},
	} {
		bad := s
		bad.Predicate = bytes.Replace(s.Predicate, []byte(spoil.from), []byte(spoil.to), 1)
		if _, _, err := slowStatement(must(json.Marshal(bad))); err == nil || !strings.Contains(err.Error(), spoil.want) {
			t.Errorf("%s: %v", spoil.to, err)
		}
	}
}

// A notary takes what a server decided and what was done there, with their
// members and no others.
func TestNotaryTakesServersStatements(t *testing.T) {
	signer := ledger.HeldKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	stamp := ledger.Stamp{ID: newID(), Node: "node-0", Time: epoch}
	moved := must(ledger.StateTransition(t.Context(), ledger.Transition{
		Stamp: stamp, Server: "https://assay.example", Fact: "admission", From: "verifying", To: "admitted",
		Reasons: []string{"good"}, Actor: "server:1", PolicyVersion: 1, Version: 2,
	}, nil, signer))
	acted := must(ledger.StateAction(t.Context(), ledger.Action{
		Stamp: stamp, Server: "https://assay.example", Actor: "person:1", Action: "drain", Outcome: "done",
	}, "", signer))
	for kind, r := range map[string]ledger.Record{ledger.NodeTransition: moved, ledger.ServerAction: acted} {
		payload := must(ledger.ReadEnvelope(r.Value)).Payload
		if got, _, err := slowStatement(payload); err != nil || got != kind {
			t.Errorf("%s: %s: %v", kind, got, err)
		}
		bad := bytes.Replace(payload, []byte(`"server":`), []byte(`"colour":"red","server":`), 1)
		if _, _, err := slowStatement(bad); err == nil || !strings.Contains(err.Error(), "colour") {
			t.Errorf("%s with one member more: %v", kind, err)
		}
	}
}
