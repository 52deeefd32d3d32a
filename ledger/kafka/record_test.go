package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
)

func goodHeaders() []kgo.RecordHeader {
	return []kgo.RecordHeader{
		{Key: headerKind, Value: []byte("event")},
		{Key: headerID, Value: []byte("01ARZ3NDEKTSV4RRFFQ69G5FAV")},
		{Key: headerType, Value: []byte("application/json")},
	}
}

func TestDecodeRecord(t *testing.T) {
	r, err := decodeRecord([]byte("n"), []byte("{}"), append(goodHeaders(), kgo.RecordHeader{Key: "traceparent", Value: nil}))
	if err != nil || r.Kind != ledger.KindEvent || r.Node != "n" || string(r.Value) != "{}" || r.ID != ulid.MustParse("01ARZ3NDEKTSV4RRFFQ69G5FAV") {
		t.Fatalf("%+v, %v", r, err)
	}
	set := func(key, value string) func([]kgo.RecordHeader) []kgo.RecordHeader {
		return func(h []kgo.RecordHeader) []kgo.RecordHeader {
			for i := range h {
				if h[i].Key == key {
					h[i].Value = []byte(value)
				}
			}
			return h
		}
	}
	without := func(key string) func([]kgo.RecordHeader) []kgo.RecordHeader {
		return func(h []kgo.RecordHeader) []kgo.RecordHeader {
			var out []kgo.RecordHeader
			for _, x := range h {
				if x.Key != key {
					out = append(out, x)
				}
			}
			return out
		}
	}
	for _, tc := range []struct {
		name       string
		bend       func([]kgo.RecordHeader) []kgo.RecordHeader
		key, value string
		says       string
	}{
		{"no kind", without(headerKind), "n", "{}", "no header assay-kind"},
		{"no id", without(headerID), "n", "{}", "no header assay-id"},
		{"no type", without(headerType), "n", "{}", "no header content-type"},
		{"none", func([]kgo.RecordHeader) []kgo.RecordHeader { return nil }, "n", "{}", "no header"},
		{"kind twice", func(h []kgo.RecordHeader) []kgo.RecordHeader { return append(h, h[0]) }, "n", "{}", "assay-kind twice"},
		{"id twice", func(h []kgo.RecordHeader) []kgo.RecordHeader { return append(h, h[1]) }, "n", "{}", "assay-id twice"},
		{"type twice", func(h []kgo.RecordHeader) []kgo.RecordHeader { return append(h, h[2]) }, "n", "{}", "content-type twice"},
		{"another kind", set(headerKind, "order"), "n", "{}", `kind is "order"`},
		{"kind in capitals", set(headerKind, "Event"), "n", "{}", `kind is "Event"`},
		{"an empty kind", set(headerKind, ""), "n", "{}", "has 0 bytes"},
		{"a long kind", set(headerKind, strings.Repeat("x", 101)), "n", "{}", "has 101 bytes"},
		{"another kind's type", set(headerType, "application/vnd.dsse.envelope.v1+json"), "n", "{}", "content-type is"},
		{"no ULID", set(headerID, "01ARZ3NDEKTSV4RRFFQ69G5FA"), "n", "{}", "no ULID"},
		{"an id in small letters", set(headerID, "01arz3ndektsv4rrffq69g5fav"), "n", "{}", "no ULID"},
		{"an id with a wrong letter", set(headerID, "01ARZ3NDEKTSV4RRFFQ69G5FAU"), "n", "{}", "no ULID"},
		{"the empty id", set(headerID, "00000000000000000000000000"), "n", "{}", "no id"},
		{"many headers", func(h []kgo.RecordHeader) []kgo.RecordHeader { return append(h, make([]kgo.RecordHeader, 32)...) }, "n", "{}", "35 headers"},
		{"no key", nil, "", "{}", "has 0 bytes"},
		{"a long key", nil, strings.Repeat("n", 201), "{}", "has 201 bytes"},
		{"no value", nil, "n", "", "0 bytes"},
		{"a long value", nil, "n", strings.Repeat("v", ledger.MaxValue+1), "64001 bytes"},
	} {
		h := goodHeaders()
		if tc.bend != nil {
			h = tc.bend(h)
		}
		r, err := decodeRecord([]byte(tc.key), []byte(tc.value), h)
		if !errors.Is(err, ledger.ErrRecord) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if len(r.Value) > ledger.MaxValue || len(r.Node) > ledger.MaxNode {
			t.Errorf("%s: too much is kept", tc.name)
		}
	}
}

func TestDecodeMarksOfTransactionsAndTimes(t *testing.T) {
	in := &kgo.Record{Key: []byte("n"), Value: []byte("{}"), Headers: goodHeaders(), Timestamp: time.Unix(5, 0)}
	if r := decode(in); r.Refused != nil || !r.ByProducer {
		t.Errorf("%+v", r)
	}
	in.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	if r := decode(in); r.Refused != nil || r.ByProducer {
		t.Errorf("%+v", r)
	}
	in.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1, Control: true})
	if r := decode(in); !errors.Is(r.Refused, ledger.ErrRecord) {
		t.Errorf("%+v", r)
	}
}

func TestTakeFindsGaps(t *testing.T) {
	fetch := func(offsets ...int64) kgo.Fetches {
		var rs []*kgo.Record
		for _, o := range offsets {
			rs = append(rs, &kgo.Record{Topic: "t", Partition: 1, Offset: o, Key: []byte("n"), Value: []byte("{}"), Headers: goodHeaders()})
		}
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "t", Partitions: []kgo.FetchPartition{{Partition: 1, Records: rs}}}}}}
	}
	next := map[int32]int64{1: 7}
	got, err := take(fetch(5, 6, 7, 8), next)
	if err != nil || len(got) != 2 || got[0].Offset != 7 || next[1] != 9 {
		t.Errorf("%v, %v, next %d", got, err, next[1])
	}
	got, err = take(fetch(9, 11), next)
	var oe *OffsetError
	if !errors.Is(err, ErrDeleted) || !errors.As(err, &oe) || oe.Want.Offset != 10 || len(got) != 1 || next[1] != 10 {
		t.Errorf("%v, %v, next %d", got, err, next[1])
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte("n"), []byte("{}"), headerKind, []byte("event"), headerID, []byte("01ARZ3NDEKTSV4RRFFQ69G5FAV"), headerType, []byte("application/json"))
	f.Add([]byte("n"), []byte("{}"), headerKind, []byte("envelope"), headerKind, []byte("event"), "", []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte, k1 string, v1 []byte, k2 string, v2 []byte, k3 string, v3 []byte) {
		r, err := decodeRecord(key, value, []kgo.RecordHeader{{Key: k1, Value: v1}, {Key: k2, Value: v2}, {Key: k3, Value: v3}})
		if err != nil {
			if !errors.Is(err, ledger.ErrRecord) || len(err.Error()) > 500 {
				t.Fatalf("%v", err)
			}
			return
		}
		if r.Check() != nil || r.Node != string(key) || string(r.Value) != string(value) {
			t.Fatalf("%+v", r)
		}
		_, _ = ledger.ParseEvent(r)
	})
}
