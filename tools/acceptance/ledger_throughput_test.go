package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// Must show 2: statements a second from the outbox's Add to a checkpoint that a
// witness signed, with the nodes, Kafka, the notary and the witness on this
// machine. It is the slope while all of them work, so a start does not count, and
// neither does the wait for the last checkpoint.
func TestRealLedgerThroughput(t *testing.T) {
	count, least := 30_000, 500.0
	if strict() {
		count, least = 200_000, 1000
	}
	best(t, "end to end", func() (err error) {
		t.Run("try", func(t *testing.T) { // which takes its brokers with it
			var rate float64
			if rate, err = endToEnd(t, count); err == nil && !(rate >= least) {
				err = fmt.Errorf("%.0f statements a second; at least %.0f are wanted", rate, least)
			}
		})
		return err
	})
}

// endToEnd gives the statements a second.
func endToEnd(t *testing.T, count int) (float64, error) {
	t.Helper()
	k := kafkatest.Start(t, 1)
	command(t, 0, "ledger", "topics", "--create", "--kafka", strings.Join(k.Brokers, ","))
	n := makeNodes(t, k.Brokers, count, 0)
	o := openOffice(t, k.Brokers, n.trust())
	o.startNotary()
	until(t, "the notary answers", 30*time.Second, func() (bool, string) {
		_, err := get(o.url + "/metrics")
		return err == nil, fmt.Sprint(err, o.notary.said())
	})
	began := time.Now()
	n.start()
	var from, to checkpointAt
	for to.size < int64(count) {
		if time.Since(began) > 10*time.Minute || o.notary.ended() {
			return 0, fmt.Errorf("the checkpoint has %d of %d after %s\n%s", to.size, count, time.Since(began), o.notary.said())
		}
		if at := (checkpointAt{o.size(), time.Now()}); at.size > to.size {
			if to = at; from.size == 0 && at.size >= int64(count)/10 {
				from = at
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	n.finish(time.Minute)
	slope := float64(to.size-from.size) / to.at.Sub(from.at).Seconds()
	say(t, "%.0f statements a second from Add to a cosigned checkpoint (%d in %.1f s; %.0f with start and end)",
		slope, to.size-from.size, to.at.Sub(from.at).Seconds(), float64(to.size)/to.at.Sub(began).Seconds())
	if code := o.notary.stop(time.Minute); code != 0 {
		t.Errorf("the notary exits %d: %s", code, o.notary.said())
	}
	return slope, nil
}

type checkpointAt struct {
	size int64
	at   time.Time
}
