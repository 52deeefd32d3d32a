package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// maxReason bounds why a record was refused.
const maxReason = 500

// outcome is what became of one record, as the API tells it.
type outcome = struct {
	// Id The record's; empty where it could not be read
	Id      string                      `json:"id"` //nolint:revive,staticcheck // as it is generated
	Outcome api.DeliveryOutcomesOutcome `json:"outcome"`
	Reason  *string                     `json:"reason,omitempty"`
}

// DeliverStatements takes signed statements of a node: as the bytes that came, with
// a signature by a key of the node that counts. One that is refused blocks none
// behind it. Once it is answered the bytes are stored, and wait to be published.
func (s *Server) DeliverStatements(ctx context.Context, r api.DeliverStatementsRequestObject) (api.DeliverStatementsResponseObject, error) {
	lines, err := s.delivered(ctx, r.Body)
	if err != nil {
		return nil, err
	}
	v, err := s.verifierOf(ctx, r.Node)
	if err != nil {
		return nil, err
	}
	found := make([]statement, len(lines))
	for i, line := range lines {
		found[i] = v.check(line)
	}
	outcomes, err := s.take(ctx, r.Node, found)
	if err != nil {
		return nil, err
	}
	return api.DeliverStatements200JSONResponse{Outcomes: outcomes}, nil
}

// DeliverEvents takes events of a node, which nobody signs.
func (s *Server) DeliverEvents(ctx context.Context, r api.DeliverEventsRequestObject) (api.DeliverEventsResponseObject, error) {
	lines, err := s.delivered(ctx, r.Body)
	if err != nil {
		return nil, err
	}
	found := make([]statement, len(lines))
	for i, line := range lines {
		found[i] = event(r.Node, line)
	}
	outcomes, err := s.take(ctx, r.Node, found)
	if err != nil {
		return nil, err
	}
	return api.DeliverEvents200JSONResponse{Outcomes: outcomes}, nil
}

// delivered reads the lines of a body, if there is room for them.
func (s *Server) delivered(ctx context.Context, body io.Reader) ([][]byte, error) {
	if err := s.room(ctx); err != nil {
		return nil, err
	}
	return readLines(body)
}

// verifierOf knows the keys of a node that count now.
func (s *Server) verifierOf(ctx context.Context, node string) (verifier, error) {
	keys, err := s.store.NodeKeys(ctx, store.Scope{All: true}, node)
	if err != nil {
		return verifier{}, err
	}
	var statements [][]byte
	for _, k := range keys {
		if k.Revoked.IsZero() {
			statements = append(statements, k.Statement)
		}
	}
	return newVerifier(node, statements)
}

// event reads a line that is an event of the node.
func event(node string, line []byte) statement {
	value := line[:len(line)-1]
	var head struct {
		ID ulid.ULID `json:"id"`
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return statement{reason: "it is no event: " + err.Error()}
	}
	st := statement{record: ledger.Record{ID: head.ID, Kind: ledger.KindEvent, Node: node, Value: value}}
	if _, err := ledger.ParseEvent(st.record); err != nil {
		st.reason = err.Error()
	}
	return st
}

// take stores what was not refused, in one transaction, and says what became of
// each.
func (s *Server) take(ctx context.Context, node string, found []statement) ([]outcome, error) {
	out := make([]outcome, len(found))
	var records []store.Record
	var places []int
	for i, f := range found {
		if f.record.ID != (ulid.ULID{}) {
			out[i].Id = f.record.ID.String()
		}
		if f.reason != "" {
			out[i].Outcome, out[i].Reason = api.DeliveryOutcomesOutcomeRefused, ptr(foreign.Line(f.reason, maxReason))
			continue
		}
		records = append(records, store.Record{ID: f.record.ID.String(), Kind: string(f.record.Kind), Bytes: f.record.Value})
		places = append(places, i)
	}
	if len(records) > 0 {
		stored, err := s.store.Deliver(ctx, node, records, s.now())
		if err != nil {
			return nil, err
		}
		for j, o := range stored {
			i := places[j]
			out[i].Outcome = api.DeliveryOutcomesOutcome(o)
			if o == store.Refused {
				out[i].Reason = ptr("another record has this id")
			}
		}
	}
	s.countOutcomes(out)
	return out, nil
}

func (s *Server) countOutcomes(out []outcome) {
	var taken, duplicate, refused int
	for _, o := range out {
		switch o.Outcome {
		case api.DeliveryOutcomesOutcomeTaken:
			taken++
		case api.DeliveryOutcomesOutcomeDuplicate:
			duplicate++
		default:
			refused++
		}
	}
	s.metrics.add(countTaken, taken)
	s.metrics.add(countDuplicate, duplicate)
	s.metrics.add(countRefused, refused)
}

// backlogEvery is how long a count of what waits is good: counting a full table
// takes its time.
const backlogEvery = 5 * time.Second

// backlog remembers for a while how much waits to be published.
type backlog struct {
	mu   sync.Mutex
	at   time.Time
	full bool
}

// room refuses deliveries while too much waits to be published: agents keep what
// they have, and ask again.
func (s *Server) room(ctx context.Context) error {
	if s.o.MaxUnpublished < 0 {
		return nil
	}
	s.backlog.mu.Lock()
	defer s.backlog.mu.Unlock()
	if now := s.now(); now.Sub(s.backlog.at) > backlogEvery {
		n, err := s.store.Unpublished(ctx, store.TopicLedger, s.o.MaxUnpublished)
		if err != nil {
			return err
		}
		s.backlog.at, s.backlog.full = now, n >= s.o.MaxUnpublished
	}
	if s.backlog.full {
		return refuseFor(http.StatusServiceUnavailable, 30*time.Second, "%d records wait to be published: keep yours, and try again", s.o.MaxUnpublished)
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

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
