package operate

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
)

// recordLine is a record as one line of JSON. All of it is its sender's word,
// but for topic, partition, offset and time.
type recordLine struct {
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"`
	Time      *time.Time    `json:"time,omitempty"`
	TimeBy    string        `json:"time_by,omitempty"` // broker; or producer, where the topic's settings are wrong
	Key       string        `json:"key,omitempty"`
	Kind      ledger.Kind   `json:"kind,omitempty"`
	ID        string        `json:"id,omitempty"`
	Refused   string        `json:"refused,omitempty"` // why it is not one of our records
	Event     *ledger.Event `json:"event,omitempty"`
	Envelope  *envelopeOut  `json:"envelope,omitempty"`
	Problem   string        `json:"problem,omitempty"` // why its value could not be read
}

// envelopeOut is what an envelope says of itself. No signature was checked.
type envelopeOut struct {
	Predicate string    `json:"predicate"`
	Node      string    `json:"node"`
	Time      time.Time `json:"time"`
	Subjects  int       `json:"subjects"`
	Keys      []string  `json:"key_ids"`
}

// wants says whether a record passes the filters. One that is not ours passes
// only where nothing is asked for that it does not have.
func (f *tailFlags) wants(r *kafka.Record) bool {
	if f.node != "" && r.Node != f.node {
		return false
	}
	if f.events {
		if r.Refused != nil || r.Kind != ledger.KindEvent {
			return false
		}
		e, err := ledger.ParseEvent(r.Record)
		if err != nil {
			return f.action == "" && f.component == ""
		}
		return (f.action == "" || e.Action == f.action) && (f.component == "" || e.Component == f.component)
	}
	return f.kind == "" || r.Refused == nil && string(r.Kind) == f.kind
}

func (f *tailFlags) print(w io.Writer, r *kafka.Record) error {
	l := describeRecord(r)
	if !f.times {
		l.Time, l.TimeBy = nil, ""
	}
	if !f.keys {
		l.Key = ""
	}
	if f.format == "json" {
		if f.events && l.Event != nil {
			return cli.WriteJSONLine(w, l.Event)
		}
		return cli.WriteJSONLine(w, l)
	}
	_, err := io.WriteString(w, l.text()+"\n")
	return err
}

func describeRecord(r *kafka.Record) recordLine {
	l := recordLine{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: &r.Time, TimeBy: "broker", Key: r.Node,
	}
	if r.ByProducer {
		l.TimeBy = "producer"
	}
	if r.Refused != nil {
		l.Refused = r.Refused.Error()
		return l
	}
	l.Kind, l.ID = r.Kind, r.ID.String()
	switch r.Kind {
	case ledger.KindEvent:
		e, err := ledger.ParseEvent(r.Record)
		if err != nil {
			l.Problem = err.Error()
			return l
		}
		l.Event = &e
	case ledger.KindEnvelope:
		e, err := describeEnvelope(r.Value)
		if err != nil {
			l.Problem = err.Error()
			return l
		}
		l.Envelope = &e
	}
	return l
}

func describeEnvelope(value []byte) (envelopeOut, error) {
	e, err := ledger.ParseEnvelope(value)
	if err != nil {
		return envelopeOut{}, err
	}
	s, stamp, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return envelopeOut{}, err
	}
	out := envelopeOut{Predicate: s.PredicateType, Node: stamp.Node, Time: stamp.Time, Subjects: len(s.Subject)}
	for _, sig := range e.Signatures {
		out.Keys = append(out.Keys, sig.KeyID)
	}
	return out, nil
}

// text is the record on one line of a terminal.
func (l recordLine) text() string {
	var b strings.Builder
	if l.Time != nil {
		b.WriteString(l.Time.UTC().Format("2006-01-02T15:04:05.000Z") + " ")
		if l.TimeBy != "broker" {
			b.WriteString("(by its producer) ")
		}
	}
	fmt.Fprintf(&b, "%d/%d", l.Partition, l.Offset)
	if l.Key != "" {
		b.WriteString(" " + printable(l.Key))
	}
	switch {
	case l.Refused != "":
		b.WriteString(" REFUSED " + printable(l.Refused))
	case l.Problem != "":
		fmt.Fprintf(&b, " %s %s UNREADABLE %s", l.Kind, l.ID, printable(l.Problem))
	case l.Event != nil:
		fmt.Fprintf(&b, " event %s %s %s", printable(l.Event.Action), printable(l.Event.Component), printable(l.Event.Details))
	case l.Envelope != nil:
		fmt.Fprintf(&b, " envelope %s %s of node %s, %d subjects, key", l.ID, printable(shortPredicate(l.Envelope.Predicate)), printable(l.Envelope.Node), l.Envelope.Subjects)
		for _, k := range l.Envelope.Keys {
			b.WriteString(" " + foreign.Line(k, 16+len("…")))
		}
	}
	return b.String()
}

// shortPredicate is the end of a predicate's address: test-result/v0.1.
func shortPredicate(s string) string {
	parts := strings.Split(s, "/")
	return strings.Join(parts[max(len(parts)-2, 0):], "/")
}

// maxShown bounds one text of a record on a terminal, in bytes.
const maxShown = 4 << 10

// printable is for words that come from whoever may write to the topic.
func printable(s string) string { return foreign.Line(s, maxShown) }
