package ledger

import (
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// Kind tells the two kinds of records on the topic apart.
type Kind string

// Kinds of records.
const (
	KindEnvelope Kind = "envelope" // a signed envelope: what the notary logs
	KindEvent    Kind = "event"    // an operation, for people and dashboards: not signed, not logged
)

// Topic is where records go unless told otherwise.
const Topic = "gpu-monitor"

// MaxValue bounds a record's value. A log's entry has at most 65,535 bytes, its
// head line included.
const MaxValue = 64_000

// Record is what travels from a node to the topic.
type Record struct {
	ID    ulid.ULID
	Kind  Kind
	Node  string // the record's key: one node's records stay in order
	Value []byte
}

// ErrRecord marks a record that no sink and no notary may take.
var ErrRecord = errors.New("not a record")

// Check says what is wrong with a record, if something is.
func (r Record) Check() error {
	switch {
	case r.ID == ulid.ULID{}:
		return fmt.Errorf("%w: it has no id", ErrRecord)
	case r.Kind != KindEnvelope && r.Kind != KindEvent:
		return fmt.Errorf("%w: unknown kind %q", ErrRecord, r.Kind)
	case r.Node == "" || len(r.Node) > MaxNode:
		return fmt.Errorf("%w: the node's id has %d bytes; 1 to %d are allowed", ErrRecord, len(r.Node), MaxNode)
	case len(r.Value) == 0 || len(r.Value) > MaxValue:
		return fmt.Errorf("%w: its value has %d bytes; 1 to %d are allowed", ErrRecord, len(r.Value), MaxValue)
	}
	return nil
}

// RecordOf is the record of a signed statement in our own spelling. Whether the
// signature is good is for those to say who know the key.
func RecordOf(envelope []byte) (Record, error) {
	e, err := ReadEnvelope(envelope)
	if err != nil {
		return Record{}, err
	}
	_, st, err := ParseStatement(e.Payload)
	if err != nil {
		return Record{}, err
	}
	r := Record{st.ID, KindEnvelope, st.Node, envelope}
	return r, r.Check()
}
