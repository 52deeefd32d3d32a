package kafka

import (
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
)

// Headers of a record.
const (
	headerKind = "assay-kind"
	headerID   = "assay-id"
	headerType = "content-type"
)

// maxHeaders bounds what is looked at; a producer of ours writes three.
const maxHeaders = 32

// Record is what lies at a position of the topic. Anybody who may write to the
// topic may have put it there.
type Record struct {
	ledger.Record // only as far as it could be read when Refused is not nil
	ledger.Position

	// Time is when the broker appended it, by the broker's word; or, where
	// ByProducer is set, when its producer says that it made it: the topic had the
	// wrong settings then.
	Time       time.Time
	ByProducer bool

	// Refused says why it is not one of our records; nil: its headers, key and
	// size are right. Nothing is said about its value.
	Refused error
}

// contentType is what a kind's value is.
func contentType(k ledger.Kind) string {
	if k == ledger.KindEnvelope {
		return "application/vnd.dsse.envelope.v1+json"
	}
	return "application/json"
}

// decode reads what the broker gave.
func decode(in *kgo.Record) Record {
	r := Record{
		Position:   ledger.Position{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset},
		Time:       in.Timestamp.UTC(),
		ByProducer: in.Attrs.TimestampType() != 1,
	}
	if in.Attrs.IsControl() {
		r.Refused = fmt.Errorf("%w: it is the mark of a transaction, which nobody of ours writes", ledger.ErrRecord)
		return r
	}
	r.Record, r.Refused = decodeRecord(in.Key, in.Value, in.Headers)
	return r
}

func decodeRecord(key, value []byte, headers []kgo.RecordHeader) (ledger.Record, error) {
	var r ledger.Record
	// Too much of anything is not kept: a reader may hold many records.
	if len(key) <= ledger.MaxNode {
		r.Node = string(key)
	}
	if len(value) <= ledger.MaxValue {
		r.Value = value
	}
	refuse := func(format string, args ...any) (ledger.Record, error) {
		return r, fmt.Errorf("%w: %s", ledger.ErrRecord, fmt.Sprintf(format, args...))
	}
	if len(headers) > maxHeaders {
		return refuse("it has %d headers; at most %d are looked at", len(headers), maxHeaders)
	}
	var kind, id, typ []byte
	for _, h := range headers {
		var to *[]byte
		switch h.Key {
		case headerKind:
			to = &kind
		case headerID:
			to = &id
		case headerType:
			to = &typ
		default:
			continue // tracing and the like, of whoever stands between
		}
		if *to != nil {
			return refuse("it has the header %s twice", h.Key)
		}
		if len(h.Value) == 0 || len(h.Value) > 100 {
			return refuse("its header %s has %d bytes; 1 to 100 are allowed", h.Key, len(h.Value))
		}
		*to = h.Value
	}
	for _, h := range []struct {
		name  string
		value []byte
	}{{headerKind, kind}, {headerID, id}, {headerType, typ}} {
		if h.value == nil {
			return refuse("it has no header %s", h.name)
		}
	}
	r.Kind = ledger.Kind(kind)
	if r.Kind != ledger.KindEnvelope && r.Kind != ledger.KindEvent {
		return refuse("its kind is %.40q", kind)
	}
	if want := contentType(r.Kind); string(typ) != want {
		return refuse("its content-type is %.60q, which for kind %s is %q", typ, kind, want)
	}
	var err error
	// One spelling: the id in the header is compared with the id in the value.
	if r.ID, err = ulid.ParseStrict(string(id)); err != nil || r.ID.String() != string(id) {
		return refuse("its id %.40q is no ULID", id)
	}
	if len(key) == 0 || len(key) > ledger.MaxNode {
		return refuse("its key, the node's id, has %d bytes; 1 to %d are allowed", len(key), ledger.MaxNode)
	}
	if len(value) > ledger.MaxValue {
		return refuse("its value has %d bytes; at most %d are allowed", len(value), ledger.MaxValue)
	}
	return r, r.Check()
}
