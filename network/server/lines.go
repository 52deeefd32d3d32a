package server

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// maxLines is how many records one request may deliver.
const maxLines = 1000

// readLines reads the records of a body: one a line, each with its newline, as
// they were sent. The body was bounded before.
func readLines(body io.Reader) ([][]byte, error) {
	b, err := io.ReadAll(body)
	if err != nil {
		if refusalOf(err) != nil {
			return nil, err
		}
		return nil, refuse(http.StatusBadRequest, "the body could not be read to its end")
	}
	var lines [][]byte
	for line := range bytes.Lines(b) {
		switch {
		case line[len(line)-1] != '\n':
			return nil, refuse(http.StatusBadRequest, "the last line has no newline: it may be torn, and none was taken")
		case len(lines) == maxLines:
			return nil, refuse(http.StatusRequestEntityTooLarge, "there are more than %d lines", maxLines)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// verifier says whether statements of a node are its own.
type verifier struct {
	node string
	ring *ledger.Keyring
	keys map[string]bool // statements about keys of the node, as their bytes
}

// newVerifier knows the node's keys that count now.
func newVerifier(node string, statements [][]byte) (verifier, error) {
	v := verifier{node: node, keys: map[string]bool{}}
	var known []ledger.Key
	for _, b := range statements {
		k, err := ledger.ParseKey(b)
		if err != nil {
			return verifier{}, err
		}
		known = append(known, k)
		v.keys[string(b)] = true
	}
	v.ring = ledger.NewKeyring(known...)
	return v, nil
}

// statement is what was found in one line.
type statement struct {
	record ledger.Record
	reason string // why it is refused; empty: it is not
}

// check reads a line. Only what a key of the node signed, about the node, is
// taken. Of statements about keys that is only what the server made itself: a run
// carries the statement about its key along.
func (v verifier) check(line []byte) statement {
	var st statement
	e, err := ledger.ReadEnvelope(line)
	if err != nil {
		return statement{reason: err.Error()}
	}
	s, stamp, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return statement{reason: err.Error()}
	}
	st.record = ledger.Record{ID: stamp.ID, Kind: ledger.KindEnvelope, Node: stamp.Node, Value: line}
	switch {
	case st.record.Check() != nil:
		st.reason = st.record.Check().Error()
	case stamp.Node != v.node:
		st.reason = "the statement is of another node"
	case s.AboutKey() && v.keys[string(line)]:
	case s.AboutKey():
		st.reason = "it is about a key, and not what this server signed: an authority publishes such statements itself"
	default:
		if _, err := v.ring.Check(e, s, stamp, time.Time{}); err != nil {
			st.reason = err.Error()
		}
	}
	return st
}
