package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// StatementType is that of in-toto's first version.
const StatementType = "https://in-toto.io/Statement/v1"

// Limits of a statement.
const (
	MaxPayload  = 45_000 // as base64 in an envelope it stays below MaxValue
	MaxNode     = 200
	MaxSubjects = 200
)

// Statement is an in-toto statement: a predicate about subjects, which are named
// by their hash.
type Statement struct {
	Type          string               `json:"_type"`
	Subject       []ResourceDescriptor `json:"subject"`
	PredicateType string               `json:"predicateType"`
	Predicate     json.RawMessage      `json:"predicate"`
}

// ResourceDescriptor is in-toto's word for a thing and its hash.
type ResourceDescriptor struct {
	Name        string            `json:"name,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations *Stamp            `json:"annotations,omitempty"`
}

// Stamp says which statement this is: every predicate of ours has it, and
// test-result, whose shape is not ours, carries it as annotations of its first
// configuration.
type Stamp struct {
	ID    ulid.ULID `json:"id"`    // the statement's own, and that of its record
	Node  string    `json:"node"`  // who made it; of a key, whose it is
	Nonce string    `json:"nonce"` // the run's; hexadecimal
	Time  time.Time `json:"time"`  // when it was signed, by the signer's word
}

// ErrStatement marks what is signed and is no statement that we know.
var ErrStatement = errors.New("not a statement that is known here")

// ParseStatement reads what an envelope holds and checks its shape. The predicate
// is checked only as far as Stamp goes.
func ParseStatement(payload []byte) (Statement, Stamp, error) {
	fail := func(format string, args ...any) (Statement, Stamp, error) {
		return Statement{}, Stamp{}, fmt.Errorf("%w: %w", ErrStatement, fmt.Errorf(format, args...))
	}
	if len(payload) > MaxPayload {
		return fail("it has %d bytes; at most %d are allowed", len(payload), MaxPayload)
	}
	var s Statement
	if err := json.Unmarshal(payload, &s); err != nil {
		return fail("%w", err)
	}
	if s.Type != StatementType {
		return fail("its type is %q", s.Type)
	}
	if len(s.Subject) == 0 || len(s.Subject) > MaxSubjects {
		return fail("it has %d subjects; 1 to %d are allowed", len(s.Subject), MaxSubjects)
	}
	for _, d := range s.Subject {
		if d.Name == "" || !isSHA256(d.Digest["sha256"]) {
			return fail("subject %q has no name or no sha256", d.Name)
		}
	}
	p, ok := predicateOf(s.PredicateType)
	if !ok {
		return fail("its predicate is %q", s.PredicateType)
	}
	st, err := p.stampOf(s.Predicate)
	if err != nil {
		return fail("predicate: %w", err)
	}
	switch {
	case st.ID == ulid.ULID{}:
		return fail("it has no id")
	case st.Node == "" || len(st.Node) > MaxNode:
		return fail("its node's id has %d bytes; 1 to %d are allowed", len(st.Node), MaxNode)
	case st.Time.IsZero():
		return fail("it has no time")
	}
	return s, st, nil
}

// payload is the statement's bytes as they are signed.
func (s Statement) payload() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	p := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(p) > MaxPayload {
		return nil, fmt.Errorf("the statement has %d bytes; at most %d fit into a log's entry", len(p), MaxPayload)
	}
	return p, nil
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
