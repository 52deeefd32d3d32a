package notary

import (
	"bytes"
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
