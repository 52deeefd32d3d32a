package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
	"github.com/assay-bench/assay/network/api"
)

// What one request carries at most; the server bounds its requests, too.
const (
	batchRecords  = 100
	batchBytes    = 512 << 10
	deliveryLimit = 2 * time.Minute
)

// sink delivers the outbox's records to the server.
type sink struct {
	session *session
	// settled is told what became of each record, before the outbox forgets it.
	settled func(r *ledger.Record, o outbox.Outcome)
}

// Deliver sends records in their order, statements and events each in requests of
// their own. A request that the server calls malformed is sent again one record at
// a time, so that the one that is holds up nobody else.
func (s *sink) Deliver(ctx context.Context, records []ledger.Record) ([]outbox.Outcome, error) {
	if err := s.session.link.patient(ctx); err != nil {
		return nil, err
	}
	var out []outbox.Outcome
	for from := 0; from < len(records); {
		n := batch(records[from:])
		got, err := s.send(ctx, records[from:from+n])
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
		from += n
	}
	for i := range out {
		s.settled(&records[i], out[i])
	}
	return out, nil
}

// batch is how many records of one kind go into the next request.
func batch(records []ledger.Record) int {
	n, size := 0, 0
	for n < len(records) && n < batchRecords && records[n].Kind == records[0].Kind {
		if size += len(records[n].Value) + 1; n > 0 && size > batchBytes {
			break
		}
		n++
	}
	return n
}

func (s *sink) send(ctx context.Context, records []ledger.Record) ([]outbox.Outcome, error) {
	got, err := s.post(ctx, records)
	var se *ServerError
	if !errors.As(err, &se) || !se.final() {
		return got, err
	}
	if len(records) == 1 {
		return []outbox.Outcome{{State: outbox.Refused, Reason: se.Error()}}, nil
	}
	var out []outbox.Outcome
	for i := range records {
		one, err := s.send(ctx, records[i:i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	return out, nil
}

// post is one request.
func (s *sink) post(ctx context.Context, records []ledger.Record) ([]outbox.Outcome, error) {
	var body []byte
	for i := range records {
		line := bytes.TrimSuffix(records[i].Value, []byte{'\n'})
		if bytes.IndexByte(line, '\n') >= 0 { // it would be two
			return nil, &ServerError{Doing: "deliver", Status: http.StatusBadRequest, Detail: "the record is more than one line, and was not sent"}
		}
		body = append(append(body, line...), '\n')
	}
	got, err := as[api.Delivery](ctx, s.session, "deliver", deliveryLimit, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		c := s.session.link.client
		if records[0].Kind == ledger.KindEvent {
			return c.DeliverEventsWithBody(ctx, node, "application/octet-stream", bytes.NewReader(body), auth)
		}
		return c.DeliverStatementsWithBody(ctx, node, "application/octet-stream", bytes.NewReader(body), auth)
	})
	if err != nil {
		return nil, err
	}
	if len(got.Outcomes) != len(records) {
		return nil, fmt.Errorf("deliver: the server answered for %d of %d records", len(got.Outcomes), len(records))
	}
	out := make([]outbox.Outcome, len(records))
	for i, o := range got.Outcomes {
		if o.Id != "" && o.Id != records[i].ID.String() {
			return nil, errors.New("deliver: the server's answer is about other records")
		}
		switch o.Outcome {
		case api.DeliveryOutcomesOutcomeTaken:
			out[i].State = outbox.Taken
		case api.DeliveryOutcomesOutcomeDuplicate:
			out[i].State = outbox.Duplicate
		case api.DeliveryOutcomesOutcomeRefused:
			out[i] = outbox.Outcome{State: outbox.Refused, Reason: value(o.Reason)}
		}
	}
	return out, nil
}
