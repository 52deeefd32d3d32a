package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
)

// MaxEventWord bounds an event's action and component, which are words to
// filter by.
const MaxEventWord = 100

// Event is an operation as people and dashboards see it. Nobody signs it and no
// log keeps it: what must be proven is a statement.
type Event struct {
	ID        ulid.ULID      `json:"id"`
	Time      time.Time      `json:"time"` // by the node's clock
	Node      string         `json:"node"`
	Action    string         `json:"action"`    // gpu_operation
	Component string         `json:"component"` // gpu_monitor
	Details   string         `json:"details"`   // in words
	Fields    map[string]any `json:"fields"`    // the same by name; null: not known
}

// ErrEvent marks bytes that are no event of ours.
var ErrEvent = errors.New("not an event")

// EncodeEvent makes the record of an event. One that does not fit into a record
// is refused, never cut: shorten its details or its fields.
func EncodeEvent(e Event) (Record, error) {
	e.Time = e.Time.UTC()
	if e.Fields == nil {
		e.Fields = map[string]any{}
	}
	if err := e.check(); err != nil {
		return Record{}, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	r := Record{ID: e.ID, Kind: KindEvent, Node: e.Node, Value: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
	return r, r.Check()
}

// ParseEvent reads the event of a record that anybody may have written. What the
// value says of itself must be what the record says of it.
func ParseEvent(r Record) (Event, error) {
	if err := r.Check(); err != nil {
		return Event{}, err
	}
	if r.Kind != KindEvent {
		return Event{}, fmt.Errorf("%w: the record is of kind %q", ErrEvent, r.Kind)
	}
	var e Event
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if err := e.check(); err != nil {
		return Event{}, err
	}
	if e.ID != r.ID {
		return Event{}, fmt.Errorf("%w: its id is %s, and its record's %s", ErrEvent, e.ID, r.ID)
	}
	if e.Node != r.Node {
		return Event{}, fmt.Errorf("%w: its node is %.60q, and its record's key %.60q", ErrEvent, e.Node, r.Node)
	}
	return e, nil
}

func (e Event) check() error {
	switch {
	case e.ID == ulid.ULID{}:
		return fmt.Errorf("%w: it has no id", ErrEvent)
	case e.Time.IsZero():
		return fmt.Errorf("%w: it has no time", ErrEvent)
	case e.Node == "" || len(e.Node) > MaxNode || !utf8.ValidString(e.Node):
		return fmt.Errorf("%w: its node's id has %d bytes; 1 to %d bytes of UTF-8 are allowed", ErrEvent, len(e.Node), MaxNode)
	case e.Action == "" || len(e.Action) > MaxEventWord:
		return fmt.Errorf("%w: its action has %d bytes; 1 to %d are allowed", ErrEvent, len(e.Action), MaxEventWord)
	case len(e.Component) > MaxEventWord:
		return fmt.Errorf("%w: its component has %d bytes; at most %d are allowed", ErrEvent, len(e.Component), MaxEventWord)
	}
	return nil
}

// OperationEvent is the event of an operation on a GPU.
func OperationEvent(id ulid.ULID, node string, o assay.Operation) Event {
	f := map[string]any{"operation": o.Operation, "shape": o.Shape, "seconds": figure(o.Seconds), "device": o.Device}
	if o.Error != "" {
		f["error"] = o.Error
	}
	return Event{id, time.Unix(0, o.At).UTC(), node, o.Action, o.Component, o.Details, f}
}

// CheckEvent is the event of a check and what it found.
func CheckEvent(id ulid.ULID, node string, c assay.Check) Event {
	f := map[string]any{"check": c.Name, "verdict": c.Verdict}
	if c.Device != "" {
		f["device"] = c.Device
	}
	if len(c.Values) > 0 {
		values := map[string]any{}
		for k, v := range c.Values {
			values[k] = figure(v)
		}
		f["values"] = values
	}
	if len(c.Facts) > 0 {
		f["facts"] = c.Facts
	}
	return Event{id, time.Unix(0, c.At).UTC(), node, "check", "verify", fmt.Sprintf("%s: %s: %s", c.Name, c.Verdict, c.Evidence), f}
}

// figure is a number as JSON has them; others are not known.
func figure(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}
