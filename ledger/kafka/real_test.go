package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// records makes n records of one node, whose values say which they are.
func records(node string, first, n, size int) []ledger.Record {
	out := make([]ledger.Record, n)
	for i := range out {
		v := fmt.Appendf(make([]byte, 0, size), `{"n":%d,"node":%q}`, first+i, node)
		for len(v) < size {
			v = append(v, ' ')
		}
		out[i] = ledger.Record{ID: ulid.Make(), Kind: ledger.KindEvent, Node: node, Value: v}
	}
	return out
}

func config(c *kafkatest.Cluster) Config { return Config{Brokers: c.Brokers} }

func ensure(t *testing.T, c Config, partitions int) {
	t.Helper()
	conn, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if made, err := conn.EnsureTopic(t.Context(), partitions); err != nil || !made {
		t.Fatalf("made %v, error %v", made, err)
	}
}

func newSink(t *testing.T, c Config) *Sink {
	t.Helper()
	s, err := NewSink(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newReader(t *testing.T, c Config) *Reader {
	t.Helper()
	r, err := NewReader(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// all reads the topic as it is now.
func all(t *testing.T, c Config) []Record {
	t.Helper()
	r := newReader(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	parts, err := r.Partitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	from, left := map[int32]int64{}, int64(0)
	for p, g := range parts {
		from[p] = g.Start
		left += g.End - g.Start
	}
	var out []Record
	if left == 0 {
		return nil
	}
	for batch, err := range r.Read(ctx, from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, batch...)
		if left -= int64(len(batch)); left <= 0 {
			break
		}
	}
	return out
}

// inOrder checks that the topic has every one of these, and that each node's come
// first in the order in which they were sent; it counts those that are there more
// than once.
func inOrder(t *testing.T, got []Record, want []ledger.Record) (again int) {
	t.Helper()
	seen := map[ulid.ULID]bool{}
	first := map[string][]ulid.ULID{}
	for _, r := range got {
		if r.Refused != nil {
			t.Fatalf("%+v: %v", r.Position, r.Refused)
		}
		if seen[r.ID] {
			again++
			continue
		}
		seen[r.ID] = true
		first[r.Node] = append(first[r.Node], r.ID)
	}
	at := map[string]int{}
	for _, r := range want {
		if !seen[r.ID] {
			t.Fatalf("%s of %s is not there: %s", r.ID, r.Node, r.Value)
		}
		if i := at[r.Node]; first[r.Node][i] != r.ID {
			t.Fatalf("%s of %s is not the %dth of its node", r.ID, r.Node, i)
		}
		at[r.Node]++
	}
	return again
}

func TestRealTopic(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	c := config(cluster)
	r := newReader(t, c)
	if _, err := r.Partitions(t.Context()); !errors.Is(err, ErrNoTopic) {
		t.Fatalf("a topic that is not there: %v", err)
	}
	if _, err := newSink(t, c).Deliver(t.Context(), records("n", 0, 1, 20)); !errors.Is(err, ErrNoTopic) {
		t.Fatalf("a topic that is not there: %v", err)
	}
	ensure(t, c, 3)
	conn, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if made, err := conn.EnsureTopic(t.Context(), 3); made || err != nil {
		t.Fatalf("a second time: made %v, %v", made, err)
	}
	topics, err := conn.Topics(t.Context())
	if err != nil || len(topics) != 1 || topics[0].Partitions != 3 || topics[0].Replication != 1 || topics[0].Check() != nil {
		t.Fatalf("%+v, %v", topics, err)
	}
	// Another's topic, as a broker makes it by default: shown, and not altered.
	other := c
	other.Topic = "other"
	if _, err := conn.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("1000")}, "other"); err != nil {
		t.Fatal(err)
	}
	o, err := Dial(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	_, err = o.EnsureTopic(t.Context(), 1)
	if !errors.Is(err, ErrTopic) {
		t.Fatal(err)
	}
	t.Log(err)
	topics, err = o.Topics(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	wrong := map[string]string{}
	for _, s := range topics[0].Wrong() {
		wrong[s.Name] = s.Value
	}
	if len(wrong) != 2 || wrong["retention.ms"] != "1000" || wrong["message.timestamp.type"] != "CreateTime" {
		t.Fatalf("%v", wrong)
	}
}

func TestRealSinkAndReader(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	c := config(cluster)
	ensure(t, c, 3)
	s := newSink(t, c)
	var want []ledger.Record
	for i := range 5 {
		for n := range 4 {
			batch := records(fmt.Sprintf("node-%d", n), i*1000, 1000, 300)
			if _, err := s.Deliver(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			want = append(want, batch...)
		}
	}
	before := time.Now().Add(time.Second) // of the broker, on the same clock
	got := all(t, c)
	if again := inOrder(t, got, want); again != 0 || len(got) != len(want) {
		t.Fatalf("%d are there, %d of them again; %d were sent", len(got), again, len(want))
	}
	for _, r := range got[:10] {
		if r.ByProducer || r.Time.After(before) || before.Sub(r.Time) > time.Minute {
			t.Fatalf("time %s, by the producer: %v", r.Time, r.ByProducer)
		}
	}

	// What anybody may write is refused, and stops nothing.
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := newReader(t, c)
	parts, err := r.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hostile := []*kgo.Record{
		{Topic: c.topic(), Value: []byte("no key, no header")},
		{Topic: c.topic(), Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: headerKind, Value: []byte("event")}, {Key: headerKind, Value: []byte("envelope")}}},
		{Topic: c.topic(), Key: make([]byte, 5000), Value: make([]byte, 900_000)},
		{Topic: c.topic(), Key: []byte("k")},
	}
	if err := cl.ProduceSync(t.Context(), hostile...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for batch, err := range r.Read(t.Context(), map[int32]int64{0: parts[0].End}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range batch {
			if !errors.Is(r.Refused, ledger.ErrRecord) {
				t.Fatalf("%+v", r)
			}
			n++
		}
		if n == len(hostile) {
			break
		}
	}

	// By time: everything is later than an hour ago, nothing later than tomorrow.
	for _, tc := range []struct {
		at  time.Time
		end bool
	}{{time.Now().Add(-time.Hour), false}, {time.Now().Add(24 * time.Hour), true}} {
		offsets, err := r.At(t.Context(), tc.at)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := r.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for p, o := range offsets {
			if want := map[bool]int64{false: parts[p].Start, true: parts[p].End}[tc.end]; o != want {
				t.Errorf("partition %d at %s: %d, want %d", p, tc.at, o, want)
			}
		}
	}
}

func TestRealMissingRecords(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	c := config(cluster)
	ensure(t, c, 1)
	if _, err := newSink(t, c).Deliver(t.Context(), records("n", 0, 100, 100)); err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := newReader(t, c)
	first := func(from int64) error {
		for _, err := range r.Read(t.Context(), map[int32]int64{0: from}) {
			return err
		}
		return nil
	}
	var oe *OffsetError
	if err := first(101); !errors.Is(err, ErrTruncated) || !errors.As(err, &oe) || oe.Range != (Range{0, 100}) {
		t.Errorf("beyond the end: %v", err)
	}
	if err := first(99); err != nil {
		t.Errorf("the last: %v", err)
	}
	if _, err := conn.admin.DeleteRecords(t.Context(), kadm.Offsets{c.topic(): {0: {Topic: c.topic(), Partition: 0, At: 40}}}); err != nil {
		t.Fatal(err)
	}
	if err := first(39); !errors.Is(err, ErrDeleted) || !errors.As(err, &oe) || oe.Range.Start != 40 {
		t.Errorf("before the start: %v", err)
	}
	if err := first(40); err != nil {
		t.Errorf("the start: %v", err)
	}

	// Made anew while it is read: the reader stops, and does not begin again.
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	anew := false
	for _, err := range r.Read(ctx, map[int32]int64{0: 90}) {
		if err != nil {
			if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrNoTopic) {
				t.Errorf("made anew: %v", err)
			}
			t.Log(err)
			anew = true
			break
		}
		if _, err := conn.admin.DeleteTopic(t.Context(), c.topic()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		ensure(t, c, 1)
	}
	if !anew {
		t.Error("reading went on in a topic that was made anew")
	}
}
