package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

func TestParseBegin(t *testing.T) {
	now := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	for in, want := range map[string]begin{
		"":                     {offset: -1},
		"beginning":            {start: true, offset: -1},
		"1200":                 {offset: 1200},
		"0":                    {offset: 0},
		"1h":                   {at: now.Add(-time.Hour), offset: -1},
		"2026-11-15T08:00:00Z": {at: now.Add(-time.Hour), offset: -1},
		"2026-11-15 08:00:00":  {at: now.Add(-time.Hour), offset: -1},
		"2026-11-15":           {at: now.Add(-9 * time.Hour), offset: -1},
	} {
		got, err := parseBegin(in, now)
		if err != nil || got.start != want.start || got.offset != want.offset || !got.at.Equal(want.at) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"-1", "-1h", "yesterday", "end", "1.5"} {
		if _, err := parseBegin(in, now); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

// A record's every word is its sender's, and none of them steers a terminal.
func TestRecordsSteerNoTerminal(t *testing.T) {
	const evil = "a\x1b[2J\x1b]0;owned\a\u009b31m\u202eevil\u2028\xff\x9b\r\nfake line"
	for _, l := range []recordLine{
		{Key: evil, Refused: evil},
		{Key: evil, Kind: evil, Problem: evil},
		{Event: &ledger.Event{Node: evil, Action: evil, Component: evil, Details: evil}},
		{Envelope: &envelopeOut{Predicate: evil, Node: evil, Keys: []string{evil, evil + evil}}},
	} {
		if l.Kind == evil {
			l.Kind = "event" // ours: one that is not known is refused
		}
		if text := l.text(); !foreign.Plain(text) || !strings.Contains(text, "evil") {
			t.Errorf("%q", text)
		}
		var b strings.Builder
		if err := cli.WriteJSONLine(&b, l); err != nil || !foreign.Plain(strings.TrimSuffix(b.String(), "\n")) {
			t.Errorf("%v: %q", err, b.String())
		}
	}
}

// call runs a command, and gives what it printed and its error.
func call(ctx context.Context, cmd *cobra.Command, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestRealLedgerKafkaCommands(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	at := "--kafka=" + strings.Join(cluster.Brokers, ",")
	if _, err := call(t.Context(), newLedgerTopics(), at); !errors.Is(err, kafka.ErrNoTopic) {
		t.Fatalf("no topic: %v", err)
	}
	if _, err := call(t.Context(), newLedgerTail(), at, "--from-beginning"); !errors.Is(err, kafka.ErrNoTopic) {
		t.Fatalf("no topic: %v", err)
	}
	out, err := call(t.Context(), newLedgerTopics(), at, "--create", "--partitions", "2")
	if err != nil || !strings.Contains(out, "gpu-monitor") || !strings.Contains(out, "LogAppendTime") || strings.Contains(out, "WRONG") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log("\n" + out)
	if out, err := call(t.Context(), newLedgerTail(), at, "--from-beginning"); err != nil || out != "" {
		t.Fatalf("an empty topic: %v\n%s", err, out)
	}

	sink, err := kafka.NewSink(kafka.Config{Brokers: cluster.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	event := func(node, action, details string) ledger.Record {
		t.Helper()
		r, err := ledger.EncodeEvent(ledger.OperationEvent(ulid.Make(), node, assay.Operation{
			At: time.Now().UnixNano(), Action: action, Component: "gpu_monitor", Details: details, Operation: "matrix_multiply", Seconds: 0.1,
		}))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	id := ulid.Make()
	statement, err := json.Marshal(ledger.Statement{
		Type: ledger.StatementType, PredicateType: ledger.GPUBenchmark,
		Subject:   []ledger.ResourceDescriptor{{Name: "run.json", Digest: map[string]string{"sha256": strings.Repeat("0", 64)}}},
		Predicate: json.RawMessage(`{"id":"` + id.String() + `","node":"node-1","nonce":"00","time":"2026-11-15T08:00:00Z"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	env := ledger.Envelope{Payload: statement, PayloadType: ledger.PayloadType, Signatures: []ledger.Signature{{KeyID: strings.Repeat("a", 64), Sig: []byte("x")}}}
	if _, err := sink.Deliver(t.Context(), []ledger.Record{
		event("node-1", "gpu_operation", "Operation: matrix_multiply\x1b[31m, Time: 123ms"),
		{ID: id, Kind: ledger.KindEnvelope, Node: "node-1", Value: env.Encode()},
		event("node-2", "warning", "slow"),
		{ID: ulid.Make(), Kind: ledger.KindEvent, Node: "node-2", Value: []byte("not an event")},
	}); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: ledger.Topic, Key: []byte("stranger"), Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name  string
		cmd   *cobra.Command
		args  []string
		lines int
		has   []string
		not   []string
	}{
		{"all", newLedgerTail(), []string{"--from-beginning"}, 5, []string{
			`event gpu_operation gpu_monitor Operation: matrix_multiply�[31m, Time: 123ms`, "node-1 envelope " + id.String() + " gpu-benchmark/v1 of node node-1, 1 subjects, key aaaaaaaaaaaaaaaa",
			"UNREADABLE", "stranger REFUSED", "Z ",
		}, []string{"\x1b"}},
		{"an hour", newLedgerTail(), []string{"--from", "1h"}, 5, nil, nil},
		{"tomorrow", newLedgerTail(), []string{"--from", time.Now().Add(24 * time.Hour).Format(time.RFC3339)}, 0, nil, nil},
		{"envelopes", newLedgerTail(), []string{"--from", "beginning", "--kind", "envelope"}, 1, []string{"envelope"}, nil},
		{"a node", newLedgerTail(), []string{"--from-beginning", "--node", "node-2"}, 2, []string{"node-2"}, []string{"node-1"}},
		{"two", newLedgerTail(), []string{"--from-beginning", "--max-messages", "2"}, 2, nil, nil},
		{"bare", newLedgerTail(), []string{"--from-beginning", "--node", "node-1", "--keys=false", "--timestamps=false", "--kind=event"}, 1, []string{"event gpu_operation"}, []string{"node-1", "Z "}},
		{"events", newLedgerEvents(), nil, 3, []string{"warning gpu_monitor slow", "UNREADABLE"}, []string{"envelope", "REFUSED"}},
		{"an action", newLedgerEvents(), []string{"--from", "beginning", "--action", "warning"}, 1, []string{"slow"}, nil},
		{"a component", newLedgerEvents(), []string{"--component", "other"}, 0, nil, nil},
		{"events of a node", newLedgerEvents(), []string{"--node", "node-1", "--format", "json"}, 1, []string{`"action":"gpu_operation"`, `"seconds":0.1`}, nil},
		{"json", newLedgerTail(), []string{"--from-beginning", "--format", "json"}, 5, []string{`"predicate":"` + ledger.GPUBenchmark + `"`, `"time_by":"broker"`, `"refused":`}, nil},
	} {
		out, err := call(t.Context(), tc.cmd, append([]string{at}, tc.args...)...)
		if err != nil || strings.Count(out, "\n") != tc.lines {
			t.Errorf("%s: %v\n%s", tc.name, err, out)
		}
		for _, s := range tc.has {
			if !strings.Contains(out, s) {
				t.Errorf("%s: has not %q\n%s", tc.name, s, out)
			}
		}
		for _, s := range tc.not {
			if strings.Contains(out, s) {
				t.Errorf("%s: has %q\n%s", tc.name, s, out)
			}
		}
		if strings.HasPrefix(tc.name, "json") {
			for line := range strings.Lines(out) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		}
	}

	// Only new ones, as they come, until the person has seen enough.
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := sink.Deliver(ctx, []ledger.Record{event("node-3", "new", "one")}); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	out, err = call(t.Context(), newLedgerTail(), at, "--max-messages", "2")
	cancel()
	wg.Wait()
	if err != nil || strings.Count(out, "node-3 event new") != 2 || strings.Contains(out, "node-1") {
		t.Errorf("new ones: %v\n%s", err, out)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := call(ctx, newLedgerTail(), at, "--node", "nobody"); err != nil {
		t.Errorf("interrupted: %v", err)
	}

	// Used wrongly; and a broker that is gone.
	for _, args := range [][]string{{"--kind", "x"}, {"--format", "x"}, {"--from", "x"}, {"--from", "3"}, {"--partition", "9"}, {"--from", "1h", "--from-beginning"}} {
		if _, err := call(t.Context(), newLedgerTail(), append([]string{at}, args...)...); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	if _, err := call(t.Context(), newLedgerTail(), at, "--partition", "0", "--from", "1000"); !errors.Is(err, kafka.ErrTruncated) {
		t.Errorf("beyond the end: %v", err)
	}
	cluster.Kill(1)
	for _, cmd := range []*cobra.Command{newLedgerTopics(), newLedgerTail(), newLedgerEvents()} {
		began := time.Now()
		_, err := call(t.Context(), cmd, at)
		if !errors.Is(err, kafka.ErrUnreachable) || time.Since(began) > 12*time.Second {
			t.Errorf("%s: %v after %s", cmd.Name(), err, time.Since(began))
		}
		t.Logf("%s: %v after %s", cmd.Name(), err, time.Since(began))
	}
}
