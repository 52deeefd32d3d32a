package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// patient delivers batches one after another, each again until it is
// acknowledged, as an outbox does. It gives what was acknowledged.
func patient(ctx context.Context, s *Sink, batches <-chan []ledger.Record) (accepted []ledger.Record, failures int) {
	for batch := range batches {
		for {
			_, err := s.Deliver(ctx, batch)
			if err == nil {
				accepted = append(accepted, batch...)
				break
			}
			if ctx.Err() != nil {
				return accepted, failures
			}
			failures++
			time.Sleep(100 * time.Millisecond)
		}
	}
	return accepted, failures
}

func TestRealBrokerKilledWhileDelivering(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	c := config(cluster)
	c.Timeout = 3 * time.Second
	ensure(t, c, 3)
	s := newSink(t, c)
	batches := make(chan []ledger.Record)
	go func() {
		defer close(batches)
		var away sync.WaitGroup
		for i := range 60 {
			if i == 10 || i == 35 {
				// In the middle of what is being sent, and away for longer than the
				// time limit of a delivery. Nobody waits for it here: the sender may
				// still be busy with the batch before.
				away.Wait()
				away.Go(func() {
					time.Sleep(2 * time.Millisecond)
					cluster.Kill(1)
					time.Sleep(4 * time.Second)
					cluster.Restart(1)
				})
			}
			batches <- records(fmt.Sprintf("node-%d", i%3), i*500, 500, 2500)
		}
		away.Wait()
	}()
	accepted, failures := patient(t.Context(), s, batches)
	if len(accepted) != 60*500 || failures == 0 {
		t.Fatalf("%d were accepted, %d deliveries failed", len(accepted), failures)
	}
	got := all(t, Config{Brokers: c.Brokers})
	again := inOrder(t, got, accepted)
	t.Logf("%d records, %d deliveries failed, %d records are there again", len(accepted), failures, again)
}

func TestRealThreeBrokers(t *testing.T) {
	cluster := kafkatest.Start(t, 3)
	c := config(cluster)
	c.Timeout = 5 * time.Second
	ensure(t, c, 3)
	conn, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	topics, err := conn.Topics(t.Context(), c.topic())
	if err != nil || topics[0].Replication != 3 || topics[0].Check() != nil {
		t.Fatalf("%+v, %v", topics, err)
	}
	for _, s := range topics[0].Settings {
		if s.Name == "min.insync.replicas" && s.Value != "2" {
			t.Fatalf("%+v", s)
		}
	}

	// One is killed while records are under way: nothing that was accepted is lost.
	s := newSink(t, c)
	batches := make(chan []ledger.Record)
	go func() {
		defer close(batches)
		for i := range 40 {
			if i == 10 {
				time.AfterFunc(2*time.Millisecond, func() { cluster.Kill(1) })
			}
			batches <- records(fmt.Sprintf("node-%d", i%3), i*500, 500, 1000)
		}
	}()
	accepted, failures := patient(t.Context(), s, batches)
	again := inOrder(t, all(t, Config{Brokers: c.Brokers}), accepted)
	t.Logf("one of three killed: %d records, %d deliveries failed, %d records are there again", len(accepted), failures, again)

	// Two are away: nothing is acknowledged that only one has.
	cluster.Kill(2)
	began := time.Now()
	lost := records("node-0", 20_000, 10, 100)
	if _, err := s.Deliver(t.Context(), lost); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("two of three killed: %v", err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("that took %s", d)
	}

	// They are back: what was not acknowledged comes again, behind the rest.
	cluster.Restart(1)
	cluster.Restart(2)
	batches = make(chan []ledger.Record, 1)
	batches <- lost
	close(batches)
	more, _ := patient(t.Context(), s, batches)
	inOrder(t, all(t, Config{Brokers: c.Brokers}), append(accepted, more...))
}

func TestRealConnectionCut(t *testing.T) {
	cluster := kafkatest.StartWith(t, kafkatest.Options{Proxied: true})
	c := config(cluster)
	c.Timeout = 3 * time.Second
	ensure(t, c, 1)
	s := newSink(t, c)
	var want []ledger.Record
	deliver := func(n int) {
		t.Helper()
		batches := make(chan []ledger.Record, 1)
		batches <- records("n", len(want), n, 500)
		close(batches)
		got, _ := patient(t.Context(), s, batches)
		want = append(want, got...)
	}
	deliver(1000)
	for _, fault := range []struct {
		name string
		do   func()
	}{{"hangs", cluster.Proxy.Hang}, {"is cut", cluster.Proxy.Cut}} {
		fault.do()
		began := time.Now()
		if _, err := s.Deliver(t.Context(), records("other", 0, 10, 500)); !errors.Is(err, ErrUnreachable) {
			t.Errorf("the network %s: %v", fault.name, err)
		}
		if d := time.Since(began); d > 2*c.Timeout {
			t.Errorf("the network %s: that took %s", fault.name, d)
		}
		// A person who interrupts does not wait for a broker.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		began = time.Now()
		if _, err := s.Deliver(ctx, records("other", 10, 10, 500)); !errors.Is(err, context.Canceled) {
			t.Errorf("the network %s, interrupted: %v", fault.name, err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("the network %s, interrupted: that took %s", fault.name, d)
		}
		if _, err := Dial(t.Context(), c); !errors.Is(err, ErrUnreachable) {
			t.Errorf("the network %s: %v", fault.name, err)
		}
		r := newReader(t, c)
		for _, err := range r.Read(t.Context(), map[int32]int64{0: 0}) {
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("the network %s: %v", fault.name, err)
			}
		}
		cluster.Proxy.Restore()
		deliver(1000)
	}
	var got []Record
	for _, r := range all(t, Config{Brokers: c.Brokers}) {
		if r.Node == "n" {
			got = append(got, r)
		}
	}
	t.Logf("%d records are there again", inOrder(t, got, want))
}

// A reader that is reading while the broker goes says so, and a new one goes on
// where it was.
func TestRealReaderOutlivesBroker(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	c := config(cluster)
	c.Timeout = 2 * time.Second
	ensure(t, c, 1)
	s := newSink(t, c)
	want := records("n", 0, 200, 100)
	if _, err := s.Deliver(t.Context(), want[:100]); err != nil {
		t.Fatal(err)
	}
	r := newReader(t, c)
	next := map[int32]int64{0: 0}
	var got []Record
	killed := false
	for len(got) < 200 {
		for batch, err := range r.Read(t.Context(), next) {
			if err != nil {
				if !errors.Is(err, ErrUnreachable) {
					t.Fatal(err)
				}
				t.Log(err)
				cluster.Restart(1)
				if _, err := s.Deliver(t.Context(), want[100:]); err != nil {
					t.Fatal(err)
				}
				break
			}
			got = append(got, batch...)
			next[0] += int64(len(batch))
			if !killed && len(got) == 100 {
				killed = true
				cluster.Kill(1)
			}
			if len(got) == 200 {
				break
			}
		}
	}
	if again := inOrder(t, got, want); again != 0 || !killed {
		t.Errorf("%d again", again)
	}
}
