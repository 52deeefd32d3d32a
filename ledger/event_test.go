package ledger

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
)

func someID(b byte) ulid.ULID {
	var id ulid.ULID
	id[15] = b
	return id
}

func TestEventKeepsTheLoggersKeys(t *testing.T) {
	at := time.Date(2026, 11, 15, 8, 0, 0, 5_000_000, time.UTC)
	e := OperationEvent(someID(1), "node-1", assay.Operation{
		At: at.UnixNano(), Action: "gpu_operation", Component: "gpu_monitor",
		Details:   "Operation: matrix_multiply, Input Shape: [2000, 2000], Time: 123ms, Device: Cuda(0)",
		Operation: "matrix_multiply", Shape: []int{2000, 2000}, Seconds: 0.123, Device: "Cuda(0)",
	})
	r, err := EncodeEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"00000000000000000000000001","time":"2026-11-15T08:00:00.005Z","node":"node-1","action":"gpu_operation","component":"gpu_monitor",` +
		`"details":"Operation: matrix_multiply, Input Shape: [2000, 2000], Time: 123ms, Device: Cuda(0)",` +
		`"fields":{"device":"Cuda(0)","operation":"matrix_multiply","seconds":0.123,"shape":[2000,2000]}}`
	if d := cmp.Diff(want, string(r.Value)); d != "" {
		t.Error(d)
	}
	got, err := ParseEvent(r)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != e.ID || !got.Time.Equal(at) || got.Details != e.Details || got.Fields["seconds"] != 0.123 {
		t.Errorf("%+v", got)
	}
}

func TestEventsOfChecks(t *testing.T) {
	r, err := EncodeEvent(CheckEvent(someID(2), "n", assay.Check{At: 1, Name: "compute.product", Verdict: assay.Pass, Evidence: "<equal>", Values: map[string]float64{"seconds": math.Inf(1)}, Facts: map[string]string{"a": "b"}}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseEvent(r)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Value)
	}
	if got.Fields["verdict"] != "pass" || got.Details != "compute.product: pass: <equal>" || !strings.Contains(string(r.Value), "<equal>") {
		t.Errorf("%s", r.Value)
	}
	values, _ := got.Fields["values"].(map[string]any)
	if v, ok := values["seconds"]; !ok || v != nil {
		t.Errorf("a figure that is not known is %v, want null", v)
	}
}

func TestParseEventRefuses(t *testing.T) {
	good := `{"id":"00000000000000000000000001","time":"2026-11-15T08:00:00Z","node":"n","action":"a","component":"c","details":"d","fields":{}}`
	record := func(value string) Record { return Record{someID(1), KindEvent, "n", []byte(value)} }
	if _, err := ParseEvent(record(good)); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Record{
		"not JSON":       record("{"),
		"another type":   record(`[]`),
		"no id":          record(strings.Replace(good, `"id":"00000000000000000000000001",`, "", 1)),
		"another id":     record(strings.Replace(good, "01", "02", 1)),
		"a wrong id":     record(strings.Replace(good, "0000000001", "u", 1)),
		"no time":        record(strings.Replace(good, `"time":"2026-11-15T08:00:00Z",`, "", 1)),
		"another node":   record(strings.Replace(good, `"node":"n"`, `"node":"m"`, 1)),
		"no node":        record(strings.Replace(good, `"node":"n"`, `"node":""`, 1)),
		"no action":      record(strings.Replace(good, `"action":"a"`, `"action":""`, 1)),
		"long action":    record(strings.Replace(good, `"action":"a"`, `"action":"`+strings.Repeat("a", 101)+`"`, 1)),
		"long component": record(strings.Replace(good, `"component":"c"`, `"component":"`+strings.Repeat("c", 101)+`"`, 1)),
		"deep":           record(strings.Replace(good, `{}`, strings.Repeat(`{"a":`, 10_000), 1)),
		"an envelope":    {someID(1), KindEnvelope, "n", []byte(good)},
		"too long":       record(strings.Replace(good, `"d"`, `"`+strings.Repeat("d", MaxValue)+`"`, 1)),
	} {
		if _, err := ParseEvent(r); !errors.Is(err, ErrEvent) && !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncodeEventRefusesWhatDoesNotFit(t *testing.T) {
	e := Event{ID: someID(1), Time: time.Unix(1, 0), Node: "n", Action: "a", Details: strings.Repeat("d", MaxValue)}
	if _, err := EncodeEvent(e); !errors.Is(err, ErrRecord) {
		t.Errorf("too long: %v", err)
	}
	e.Details, e.Fields = "", map[string]any{"x": math.NaN()}
	if _, err := EncodeEvent(e); !errors.Is(err, ErrEvent) {
		t.Errorf("NaN: %v", err)
	}
	e.Fields, e.Node = nil, ""
	if _, err := EncodeEvent(e); !errors.Is(err, ErrEvent) {
		t.Errorf("no node: %v", err)
	}
}

// What was parsed can be written, and says the same then.
func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"id":"00000000000000000000000001","time":"2026-11-15T08:00:00Z","node":"n","action":"a","component":"c","details":"d","fields":{"a":[1,{"b":null}]}}`))
	f.Add([]byte(`{"id":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEvent(Record{someID(1), KindEvent, "n", b})
		if err != nil {
			return
		}
		r, err := EncodeEvent(e)
		if errors.Is(err, ErrRecord) || e.Time.Year() > 9999 || e.Time.Year() < 0 {
			return // escapes made it longer, or JSON has no such year in UTC
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if _, err := ParseEvent(r); err != nil {
			t.Fatalf("%v\n%s\n%s", err, b, r.Value)
		}
	})
}
