package acceptance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// fault is something that happens when a share of the statements was accepted.
type fault struct {
	at   float64
	what string
	do   func()
}

// Must show 1: whatever is killed or cut, every record that was accepted is in
// the log exactly once.
func TestRealLedgerExactlyOnce(t *testing.T) {
	// patience is how long a kill waits for the notary to write: after a start it
	// may read its log first.
	count, rate, patience := 100_000, 1000.0, 8*time.Second
	if strict() {
		count, rate, patience = 1_000_000, 0, time.Minute
	}
	if n, err := strconv.Atoi(os.Getenv("ASSAY_STATEMENTS")); err == nil {
		count = n // for somebody who works on this test
	}
	k := kafkatest.StartWith(t, kafkatest.Options{Brokers: 1, Proxied: true})
	command(t, 0, "ledger", "topics", "--create", "--kafka", strings.Join(k.Brokers, ","))
	n := makeNodes(t, k.Brokers, count, rate, "-timeout", "4s")
	o := openOffice(t, k.Brokers, n.trust())
	began := time.Now()
	n.start()
	o.startNotary()

	faults := []fault{}
	lived, logged, writing := time.Now(), int64(0), 0
	// The notary dies twenty times: half of them while it writes, the others at any
	// moment of its life.
	for i := range 20 {
		faults = append(faults, fault{(float64(i) + 0.2 + 0.6*rand.Float64()) / 21, "notary killed", func() {
			end := lived.Add(time.Duration(100+rand.IntN(1900)) * time.Millisecond)
			if i%2 == 0 {
				for end = time.Now().Add(patience); o.logged() == logged && time.Now().Before(end); {
					o.tend()
					time.Sleep(time.Millisecond)
				}
				end = time.Now().Add(time.Duration(rand.IntN(150)) * time.Millisecond)
			}
			time.Sleep(time.Until(end))
			o.notary.kill()
			if o.logged() > logged {
				writing++
			}
			lived, logged = time.Now(), o.logged()
			o.startNotary()
		}})
	}
	for i := range 5 {
		faults = append(faults, fault{(float64(i) + 0.5) / 5.5, "nodes killed", func() {
			n.d.kill()
			n.start()
		}})
	}
	for _, at := range []float64{0.3, 0.7} {
		faults = append(faults, fault{at, "broker killed", func() {
			k.Kill(1)
			time.Sleep(time.Second)
			k.Restart(1)
		}})
	}
	// Connections that end, and ones that hang for longer than the nodes wait for an
	// answer: what they then send again may be there twice.
	for i, cut := range []func(){k.Proxy.Cut, k.Proxy.Hang, k.Proxy.Cut} {
		faults = append(faults, fault{0.15 + 0.35*float64(i), "network cut", func() {
			cut()
			time.Sleep(5 * time.Second)
			k.Proxy.Restore()
		}})
	}
	slices.SortFunc(faults, func(a, b fault) int { return int(1e6 * (a.at - b.at)) })
	for _, f := range faults {
		until(t, f.what, 10*time.Minute, func() (bool, string) {
			if n.d.ended() && n.accepted() < count {
				t.Fatalf("the nodes ended: %s", n.d.said())
			}
			o.tend()
			return float64(n.accepted()) >= f.at*float64(count), fmt.Sprint(n.accepted(), " accepted")
		})
		t.Logf("%6.1f s: %s, %d accepted, checkpoint %d", time.Since(began).Seconds(), f.what, n.accepted(), o.size())
		f.do()
	}
	n.finish(10 * time.Minute)
	flushed := time.Since(began)
	if writing < 3 {
		t.Errorf("only %d of 20 kills came while the notary wrote: this test shows too little", writing)
	}
	once(t, k.Brokers, n, o, 10*time.Minute, func(size int64) {
		took := time.Since(began)
		say(t, "%d statements accepted and acknowledged after %.1f s, under a checkpoint after %.1f s: %.0f a second, with 20 kills of the notary (%d while it wrote), 5 of the nodes, 2 of the broker and 3 cuts of the network",
			n.accepted(), flushed.Seconds(), took.Seconds(), float64(size)/took.Seconds(), writing)
	})
}

// Must show 1: with three brokers, one of them can be lost.
func TestRealLedgerBrokerLoss(t *testing.T) {
	const count = 10_000
	k := kafkatest.Start(t, 3)
	command(t, 0, "ledger", "topics", "--create", "--kafka", strings.Join(k.Brokers, ","))
	n := makeNodes(t, k.Brokers, count, 400)
	o := openOffice(t, k.Brokers, n.trust())
	o.startNotary()
	n.start()
	at := func(share float64) {
		t.Helper()
		until(t, "statements are accepted", 3*time.Minute, func() (bool, string) {
			return float64(n.accepted()) >= share*count, fmt.Sprint(n.accepted(), n.d.said())
		})
	}
	inSync := func() {
		t.Helper()
		until(t, "all brokers in sync", time.Minute, func() (bool, string) {
			c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Brokers})
			if err != nil {
				return false, err.Error()
			}
			defer c.Close()
			topics, err := c.Topics(t.Context(), ledger.Topic)
			return err == nil && topics[0].InSync == 3, fmt.Sprint(topics, err)
		})
	}
	for i, share := range []float64{0.2, 0.6} {
		at(share)
		k.Kill(i + 1)
		// What waits with a broker down is delivered while it is down.
		before := n.accepted()
		until(t, "the log grows without broker "+strconv.Itoa(i+1), time.Minute, func() (bool, string) {
			return o.size() >= int64(before), fmt.Sprintf("checkpoint %d, accepted %d\n%s\n%s", o.size(), n.accepted(), n.d.said(), o.notary.said())
		})
		k.Restart(i + 1)
		inSync()
	}
	n.finish(5 * time.Minute)
	once(t, k.Brokers, n, o, 3*time.Minute, func(size int64) {
		say(t, "%d statements, two of three brokers killed one after the other while they were sent", size)
	})
}

// once holds Kafka, the log and what was accepted against each other.
func once(t *testing.T, brokers []string, n *nodes, o *office, wait time.Duration, covered func(size int64)) {
	t.Helper()
	topic := readTopic(t, brokers, hashed)
	o.covers(int64(len(topic.ids)), wait)
	covered(int64(len(topic.ids)))
	missing := n.ids()
	accepted := len(missing)
	ids, places := map[string]int64{}, map[topicRecord]int64{}
	seen := independently(t, o, func(e readEntry) {
		at := topicRecord{e.partition, e.offset}
		if other, ok := ids[e.id]; ok {
			t.Errorf("%s is in the log twice: %d, %d", e.id, other, e.index)
		}
		if other, ok := places[at]; ok || e.topic != ledger.Topic {
			t.Errorf("%s %v is in the log twice: %d, %d", e.topic, at, other, e.index)
		}
		ids[e.id], places[at] = e.index, e.index
		delete(missing, e.id)
		if !bytes.Equal(topic.values[at], hashed(e.envelope)) {
			t.Errorf("entry %d is not what Kafka has at %v", e.index, at)
		}
	})
	if len(missing) > 0 {
		t.Errorf("%d of %d accepted records are not in the log", len(missing), accepted)
	}
	if b, err := os.ReadFile(filepath.Join(o.dir, "notary", "refused.jsonl")); err != nil || len(b) > 0 {
		t.Errorf("records were refused: %v\n%.1000s", err, b)
	}
	if code := o.notary.stop(time.Minute); code != 0 {
		t.Errorf("the notary, asked to end, exits %d:\n%s", code, o.notary.said())
	}
	out := command(t, 0, "ledger", "fsck", o.notaryDir(), "--policy", o.policy, "--trust", o.trust)
	say(t, "accepted %d, in Kafka %d records of %d ids (%d duplicates, which the notary passed over), in the log %d: %d statements, %d keys; %d were accepted without having been written down",
		accepted, topic.records, len(topic.ids), topic.duplicates(), seen.size, seen.statement, seen.keys, seen.statement-(accepted-len(missing)))
	say(t, "fsck: %s", strings.Join(strings.Fields(out), " "))
}
