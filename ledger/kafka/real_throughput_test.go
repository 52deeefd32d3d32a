package kafka_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
	"github.com/assay-bench/assay/ledger/outbox"
)

// envelopes have values as signed envelopes are: base64 of JSON with a hash and some
// words for each file.
func envelopes(n, size int) []ledger.Record {
	out := make([]ledger.Record, n)
	for i := range out {
		var h [32]byte
		rand.Read(h[:])
		var payload []byte
		for j := 0; len(payload) < size*3/4-60; j++ {
			payload = fmt.Appendf(payload, `{"name":"requests-%d.jsonl","digest":{"sha256":"%x"},"value":%d.%d},`, j, h, i, j)
			rand.Read(h[:])
		}
		v := fmt.Appendf(nil, `{"payloadType":"application/vnd.in-toto+json","payload":"%s"}`, base64.StdEncoding.EncodeToString(payload))
		out[i] = ledger.Record{ID: ulid.Make(), Kind: ledger.KindEnvelope, Node: fmt.Sprintf("node-%d", i%8), Value: v}
	}
	return out
}

// TestRealThroughput holds outbox and sink against a bare producer with the same
// settings, in one run on one broker. The rates are of this machine, with the
// broker beside; the ratio is what counts.
func TestRealThroughput(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	c := kafka.Config{Brokers: cluster.Brokers}
	conn, err := kafka.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.EnsureTopic(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	// A short run is half a second long, of which starting takes a part.
	limit, more := 0.4, 1
	if os.Getenv("ASSAY_LONG") == "1" {
		limit, more = 0.7, 4
	}
	for _, tc := range []struct{ size, n int }{{300, more * 150_000}, {2500, more * 30_000}} {
		records := envelopes(tc.n, tc.size)
		var bytes int
		for _, r := range records {
			bytes += len(r.Value)
		}
		best := map[string]float64{}
		for range 3 { // in turns, so that whatever else the machine does meets both
			for name, run := range map[string]func(*testing.T, kafka.Config, []ledger.Record){"bare producer": bare, "outbox and sink": through} {
				began := time.Now()
				run(t, c, records)
				best[name] = max(best[name], float64(tc.n)/time.Since(began).Seconds())
			}
		}
		ratio := best["outbox and sink"] / best["bare producer"]
		parttest.Figure(t, "kafka, records of %d bytes: bare producer %.0f/s, outbox and sink %.0f/s, ratio %.2f", bytes/tc.n, best["bare producer"], best["outbox and sink"], ratio)
		if !(ratio >= limit) {
			t.Errorf("records of %d bytes: %.2f of a bare producer; at least %.2f is wanted", tc.size, ratio, limit)
		}
	}
}

// bare is a producer of franz-go with the sink's settings and nothing around it.
func bare(t *testing.T, c kafka.Config, records []ledger.Record) {
	t.Helper()
	opts := append(kafka.ProducerOptions(), kgo.SeedBrokers(c.Brokers...), kgo.DefaultProduceTopic(ledger.Topic))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var once sync.Once
	for _, r := range records {
		cl.Produce(t.Context(), &kgo.Record{Key: []byte(r.Node), Value: r.Value, Headers: []kgo.RecordHeader{
			{Key: "assay-kind", Value: []byte(r.Kind)},
			{Key: "assay-id", Value: []byte(r.ID.String())},
			{Key: "content-type", Value: []byte("application/vnd.dsse.envelope.v1+json")},
		}}, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { t.Error(err) })
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// through adds the records to an outbox from several goroutines, as the parts of
// a node do, and waits until all are acknowledged.
func through(t *testing.T, c kafka.Config, records []ledger.Record) {
	t.Helper()
	box, err := outbox.Open(outbox.Options{Dir: t.TempDir(), MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	sink, err := kafka.NewSink(c)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- box.Run(ctx, sink, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
	const adders, at = 8, 200
	var wg sync.WaitGroup
	for a := range adders {
		wg.Go(func() {
			for i := a * at; i < len(records); i += adders * at {
				if err := box.Add(ctx, records[i:min(i+at, len(records))]...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := box.Flush(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
