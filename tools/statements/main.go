// Statements plays many nodes that publish: each has a key that one authority
// certified, an outbox of its own and a connection of its own to Kafka, and signs
// statements as fast as it is told to.
//
// What it promises: an id is in the file "accepted" of its directory only after
// the outbox took the record, so every id there must end up in the log, however
// this program ends. It is made to be killed: started again with the same
// directory it goes on until the given number was accepted in total, and then
// waits until everything is acknowledged.
//
//	statements -dir DIR -keys                  make the keys and DIR/authority.pub, and end
//	statements -dir DIR -brokers HOST:PORT -count 100000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/ledger/kafka"
)

// config is what the flags say.
type config struct {
	dir     string
	brokers string
	topic   string
	nodes   int
	workers int
	count   int
	rate    float64
	timeout time.Duration
	flush   time.Duration
	keys    bool
}

func main() {
	var c config
	flag.StringVar(&c.dir, "dir", "", "`directory` of keys, outboxes and accepted ids")
	flag.StringVar(&c.brokers, "brokers", "", "Kafka's brokers, HOST:PORT,…")
	flag.StringVar(&c.topic, "topic", "", "default gpu-monitor")
	flag.IntVar(&c.nodes, "nodes", 8, "how many nodes; the same at each start")
	flag.IntVar(&c.workers, "workers", 32, "goroutines a node: they share fsyncs")
	flag.IntVar(&c.count, "count", 1000, "how many statements are to be accepted in total, over all starts")
	flag.Float64Var(&c.rate, "rate", 0, "statements a second over all nodes; 0: as many as it can")
	flag.DurationVar(&c.timeout, "timeout", 10*time.Second, "of one delivery")
	flag.DurationVar(&c.flush, "flush", 5*time.Minute, "how long to wait at the end until all is acknowledged")
	flag.BoolVar(&c.keys, "keys", false, "only make the keys")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
}

// played is what is printed at the end, as one line of JSON.
type played struct {
	Accepted int     `json:"accepted"` // in total
	Now      int     `json:"now"`      // since this start
	Refused  int     `json:"refused"`  // Adds that found no room and were tried again
	Adding   float64 `json:"adding_seconds"`
	Total    float64 `json:"total_seconds"` // until all was acknowledged
	Bytes    int     `json:"envelope_bytes"`
}

func play(ctx context.Context, c config) error {
	if c.dir == "" || c.nodes < 1 || c.workers < 1 || c.count < 0 {
		return errors.New("give -dir, and positive -nodes and -workers")
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	keys, err := openKeys(ctx, c.dir, c.nodes)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if c.keys {
		return nil
	}
	list, err := openAccepted(filepath.Join(c.dir, "accepted"))
	if err != nil {
		return fmt.Errorf("accepted ids: %w", err)
	}
	began := time.Now()
	f := newField(c, keys, list)
	conf := kafka.Config{Brokers: strings.Split(c.brokers, ","), Topic: c.topic, Timeout: c.timeout}
	if err := f.open(conf, filepath.Join(c.dir, "outbox")); err != nil {
		return errors.Join(err, f.close())
	}
	err = f.add(ctx)
	adding := time.Since(began)
	if err == nil {
		err = f.flush(ctx, c.flush)
	}
	total := time.Since(began)
	err = errors.Join(err, f.close(), list.close())
	out := played{
		Accepted: list.total(), Now: list.total() - list.before, Refused: int(f.refused.Load()),
		Adding: adding.Seconds(), Total: total.Seconds(), Bytes: int(f.size.Load()),
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(out))
}
