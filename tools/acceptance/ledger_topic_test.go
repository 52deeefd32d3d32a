package acceptance

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
)

// topicRecord is where a record lies in Kafka.
type topicRecord struct {
	partition int32
	offset    int64
}

// topicContent is what Kafka holds, read with nothing but its client.
type topicContent struct {
	values  map[topicRecord][]byte
	ids     map[string]int // how often each id is there
	records int
}

// duplicates is how many records are there again.
func (c topicContent) duplicates() int { return c.records - len(c.ids) }

func whole(value []byte) []byte { return value }

func hashed(value []byte) []byte {
	sum := sha256.Sum256(value)
	return sum[:]
}

// readTopic reads the whole topic as it is now, and keeps of each value what keep
// makes of it.
func readTopic(t *testing.T, brokers []string, keep func([]byte) []byte) topicContent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(ledger.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(16<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, ledger.Topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	out := topicContent{values: map[topicRecord][]byte{}, ids: map[string]int{}}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			out.values[topicRecord{r.Partition, r.Offset}] = keep(r.Value)
			out.records++
			for _, h := range r.Headers {
				if h.Key == "assay-id" {
					out.ids[string(h.Value)]++
				}
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}
