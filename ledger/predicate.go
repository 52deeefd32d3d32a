package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Predicate types that we write, and that a notary takes.
const (
	TestResult    = "https://in-toto.io/attestation/test-result/v0.1"
	GPUBenchmark  = "https://github.com/assay-bench/assay/gpu-benchmark/v1"
	GPUOperations = "https://github.com/assay-bench/assay/gpu-operations/v1"
	KeyPredicate  = "https://github.com/assay-bench/assay/key/v1"
	KeyRevocation = "https://github.com/assay-bench/assay/key-revocation/v1"

	NodeTransition = "https://github.com/assay-bench/assay/node-transition/v1"
	ServerAction   = "https://github.com/assay-bench/assay/server-action/v1"
)

// Predicate is a kind of statement: a row of the one table that says what can be
// signed, and by whom. A new kind is a new row, a section of
// docs/formats/statement.md and a schema.
type Predicate struct {
	Type string
	// Role may sign it. RoleRun signs what is about its own node, and an
	// authority what is about any; another role is asked for as it is.
	Role   Role
	Schema string // a file of docs/formats/schema; empty: the format is not ours
	// AboutKey marks those whose subject is a key: a keyring judges them by rules
	// of their own, and takes them in.
	AboutKey bool
	// stamp finds the stamp; nil: its members are the predicate's own.
	stamp func(json.RawMessage) (Stamp, error)
}

// predicates is the table.
var predicates = []Predicate{
	{Type: TestResult, Role: RoleRun, stamp: configurationStamp},
	{Type: GPUBenchmark, Role: RoleRun, Schema: "gpu-benchmark.schema.json"},
	{Type: GPUOperations, Role: RoleRun, Schema: "gpu-operations.schema.json"},
	{Type: KeyPredicate, Role: RoleAuthority, Schema: "key.schema.json", AboutKey: true},
	{Type: KeyRevocation, Role: RoleAuthority, Schema: "key-revocation.schema.json", AboutKey: true},
	{Type: NodeTransition, Role: RoleServer, Schema: "node-transition.schema.json"},
	{Type: ServerAction, Role: RoleServer, Schema: "server-action.schema.json"},
}

// predicateOf finds a row.
func predicateOf(kind string) (Predicate, bool) {
	for i := range predicates {
		if predicates[i].Type == kind {
			return predicates[i], true
		}
	}
	return Predicate{}, false
}

// stampOf reads the stamp of a predicate.
func (p Predicate) stampOf(raw json.RawMessage) (st Stamp, err error) {
	if p.stamp != nil {
		return p.stamp(raw)
	}
	err = json.Unmarshal(raw, &st)
	return st, err
}

// configurationStamp is where a format that is not ours has room for a stamp.
func configurationStamp(raw json.RawMessage) (Stamp, error) {
	var p struct{ Configuration []ResourceDescriptor }
	if err := json.Unmarshal(raw, &p); err != nil {
		return Stamp{}, err
	}
	if len(p.Configuration) == 0 || p.Configuration[0].Annotations == nil {
		return Stamp{}, errors.New("its first configuration has no annotations with id, node and time")
	}
	return *p.Configuration[0].Annotations, nil
}

// AboutKey reports whether it is a statement about a key, or a revocation.
func (s Statement) AboutKey() bool {
	p, ok := predicateOf(s.PredicateType)
	return ok && p.AboutKey
}

// signs says whether a key's statement lets it sign a predicate about a node.
func (p Predicate) signs(node string) allow {
	return func(k knownKey) error {
		switch {
		case p.Role == RoleRun && k.Has(RoleAuthority):
			return nil
		case !k.Has(p.Role):
			return fmt.Errorf("%s: %w: it has not the role %s", k, ErrRole, p.Role)
		case p.Role == RoleRun && k.Node != node:
			return fmt.Errorf("%s: %w: the statement is of node %q", k, ErrOtherNode, node)
		}
		return nil
	}
}
