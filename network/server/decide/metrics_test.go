package decide

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

func (n *network) page() string {
	n.Helper()
	var p promtext.Page
	if err := n.d.Metrics(n.Context(), &p); err != nil {
		n.Fatal(err)
	}
	return string(p.Bytes())
}

func (n *network) has(lines ...string) {
	n.Helper()
	page := n.page()
	for _, line := range lines {
		if !strings.Contains(page, line+"\n") {
			n.Errorf("the page has no %s:\n%s", line, page)
		}
	}
}

// TestMetrics: what was decided, what waits and since when, where the breakers stand,
// and what became of webhooks, also of one that was given up.
func TestMetrics(t *testing.T) {
	secret, err := webhook.ParseSecret([]byte(strings.Repeat("s", 32)))
	if err != nil {
		t.Fatal(err)
	}
	answer := http.StatusServiceUnavailable
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer) }))
	defer hook.Close()
	n := newNetwork(t, func(o *Options) {
		o.Client, o.Secret, o.Webhooks = hook.Client(), secret, webhook.Targets{"transition": hook.URL}
	})
	n.has(`assay_server_decisions_total{subject="node",outcome="moved"} 0`, `assay_server_unpublished{topic="webhook"} 0`, `assay_server_unpublished_oldest_seconds{topic="ledger"} 0`)
	m := n.enrol()
	m.serves("default")
	m.measured(measurement{slow: 1, replica: "default"})
	m.approve()
	if out := m.act(control.Event{Kind: control.EventUndrain}); !out.Refused {
		t.Fatal(out.Why)
	}
	n.has(
		`assay_server_decisions_total{subject="node",outcome="moved"} 2`, `assay_server_decisions_total{subject="node",outcome="kept"} 1`,
		`assay_server_decisions_total{subject="node",outcome="refused"} 2`, `assay_server_decisions_total{subject="replica",outcome="moved"} 2`,
		`assay_server_transitions_total{subject="replica",fact="admission",to="admitted"} 1`,
		`assay_server_unpublished{topic="webhook"} 4`, `assay_server_webhooks_total{outcome="delivered"} 0`,
		`assay_server_breaker_members{of="nodes"} 1`, `assay_server_breaker_members{of="replicas"} 1`, `assay_server_breaker_out{of="nodes"} 0`,
		`assay_server_breaker_allowed{of="nodes"} 1`, `assay_server_breaker_open{of="replicas"} 0`,
	)
	if strings.Contains(n.page(), `assay_server_unpublished_oldest_seconds{topic="ledger"} 0`+"\n") {
		t.Error("what waits has no age")
	}
	send := func() {
		t.Helper()
		if _, err := n.d.sendWebhooks(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	send()
	n.has(`assay_server_webhooks_total{outcome="postponed"} 4`, `assay_server_unpublished{topic="webhook"} 4`)
	must := func(sql string, args ...any) {
		t.Helper()
		if err := n.db.Tx(t.Context(), func(q database.Query) error { _, err := q.ExecContext(t.Context(), sql, args...); return err }); err != nil {
			t.Fatal(err)
		}
	}
	must("UPDATE outbox SET attempts = $1, next_attempt = 0 WHERE topic = 'webhook'", webhook.MaxAttempts)
	send()
	n.has(`assay_server_webhooks_total{outcome="given_up"} 4`, `assay_server_unpublished{topic="webhook"} 0`)
	answer = http.StatusOK
	m.act(control.Event{Kind: control.EventQuarantine, Reason: "a test"})
	send()
	n.has(`assay_server_webhooks_total{outcome="delivered"} 1`, `assay_server_breaker_out{of="nodes"} 1`, `assay_server_breaker_open{of="nodes"} 1`)
}

// TestReadyLooksAtLeases: a database that can be read and not written to makes a
// server unready once a lease would have ended; one whose leases others have is well.
func TestReadyLooksAtLeases(t *testing.T) {
	n := newNetwork(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	if _, err := n.store.Acquire(t.Context(), leaseJudge, "somebody else", time.Hour); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(done); n.d.Run(ctx) }()
	until := func(what string, ready bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); (n.d.Ready(t.Context()) == nil) != ready; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, n.d.Ready(t.Context()))
			}
		}
	}
	until("at first", true)
	exec := func(sql string) {
		t.Helper()
		if err := n.db.Tx(t.Context(), func(q database.Query) error { _, err := q.ExecContext(t.Context(), sql); return err }); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TRIGGER full BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		n.d.mu.Lock()
		failing := len(n.d.failing)
		n.d.mu.Unlock()
		if failing > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no lease fails")
		}
	}
	if err := n.d.Ready(t.Context()); err != nil {
		t.Errorf("it is said before a lease would have ended: %v", err)
	}
	n.clock.pass(20 * time.Second)
	if err := n.d.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "lease") || errors.Is(err, store.ErrLease) {
		t.Errorf("ready: %v", err)
	}
	exec("DROP TRIGGER full")
	until("afterwards", true)
}
