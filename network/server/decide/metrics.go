package decide

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// maxWaiting bounds the count of what waits: beyond it nobody needs to know.
const maxWaiting = 100_000

// What became of an event. A decision that changes counts and no fact is kept.
const (
	outcomeRefused = "refused"
	outcomeNothing = "nothing"
	outcomeKept    = "kept"
	outcomeMoved   = "moved"
)

// What became of an attempt to send a webhook.
const (
	hookDelivered = "delivered"
	hookPostponed = "postponed"
	hookGivenUp   = "given_up"
)

// metrics are the counts of this process. Their labels are words of ours, so nobody
// can grow them from outside.
type metrics struct {
	mu          sync.Mutex
	decisions   map[[2]string]int64 // by subject and outcome
	transitions map[[3]string]int64 // by subject, fact and what it became
	webhooks    map[string]int64    // by outcome
	models      map[string]int64    // by outcome
}

func newMetrics() *metrics {
	m := &metrics{decisions: map[[2]string]int64{}, transitions: map[[3]string]int64{}, webhooks: map[string]int64{}, models: map[string]int64{}}
	for _, of := range []string{"node", "replica"} { // a rate needs its zero
		for _, o := range []string{outcomeRefused, outcomeNothing, outcomeKept, outcomeMoved} {
			m.decisions[[2]string{of, o}] = 0
		}
	}
	for _, o := range []string{hookDelivered, hookPostponed, hookGivenUp} {
		m.webhooks[o] = 0
	}
	for _, o := range []string{modelSame, modelDiffers, modelUnproven, modelUnreachable} {
		m.models[o] = 0
	}
	return m
}

// decided counts an event that was decided on.
func (m *metrics) decided(h Happening, before control.Node, out control.Outcome) {
	of := "node"
	if h.Replica != "" {
		of = "replica"
	}
	outcome := outcomeNothing
	switch {
	case out.Refused:
		outcome = outcomeRefused
	case len(out.Transitions) > 0:
		outcome = outcomeMoved
	case out.Changed(before):
		outcome = outcomeKept
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decisions[[2]string{of, outcome}]++
	if out.Refused {
		return
	}
	for _, t := range out.Transitions {
		m.transitions[[3]string{of, string(t.Fact), t.To}]++
	}
}

func (m *metrics) sent(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.webhooks[outcome]++
}

// compared counts a check of a replica's model.
func (m *metrics) compared(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.models[outcome]++
}

// Metrics writes what was decided and sent by this process, and what waits and where
// the breakers stand in the database.
func (d *Decider) Metrics(ctx context.Context, p *promtext.Page) error {
	d.metrics.page(p)
	d.mu.Lock()
	held := d.held
	d.mu.Unlock()
	p.Gauge("assay_server_leases", "Kinds of work that this process holds the lease of.", float64(held))
	now := d.now()
	for _, topic := range []string{store.TopicLedger, store.TopicWebhook} {
		w, err := d.store.Waiting(ctx, topic, maxWaiting)
		if err != nil {
			return err
		}
		age := time.Duration(0)
		if !w.Oldest.IsZero() {
			age = max(0, now.Sub(w.Oldest))
		}
		p.Gauge("assay_server_unpublished", "Records that wait to leave, counted up to 100000.", float64(w.Records), "topic", topic)
		p.Gauge("assay_server_unpublished_oldest_seconds", "Age of the oldest of them; 0: none waits.", age.Seconds(), "topic", topic)
	}
	return d.breakerMetrics(ctx, p, now)
}

func (d *Decider) breakerMetrics(ctx context.Context, p *promtext.Page, now time.Time) error {
	policy, err := d.inForce(ctx)
	if err != nil {
		return err
	}
	both, _, err := d.breakers(ctx)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		name    string
		replica bool
	}{{"nodes", false}, {"replicas", true}} {
		b := both.For(of.replica)
		open := 0.0
		if holds, _ := b.Holds(policy, now); holds || b.Tripped {
			open = 1
		}
		p.Gauge("assay_server_breaker_open", "Whether the breaker holds: 1 or 0.", open, "of", of.name)
		p.Gauge("assay_server_breaker_members", "Those that were admitted once and are not retired.", float64(b.Members), "of", of.name)
		p.Gauge("assay_server_breaker_out", "Those of them that are quarantined or re-verifying.", float64(b.Out), "of", of.name)
		p.Gauge("assay_server_breaker_allowed", "How many may be out without a person.", float64(b.Limit(policy)), "of", of.name)
	}
	return nil
}

func (m *metrics) page(p *promtext.Page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(m.decisions), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		p.Counter("assay_server_decisions_total", "Events that this process decided on, by what became of them.", float64(m.decisions[k]), "subject", k[0], "outcome", k[1])
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.transitions), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		p.Counter("assay_server_transitions_total", "Facts that changed by decisions of this process.", float64(m.transitions[k]), "subject", k[0], "fact", k[1], "to", k[2])
	}
	for _, k := range slices.Sorted(maps.Keys(m.webhooks)) {
		p.Counter("assay_server_webhooks_total", "Attempts to send a webhook, by what became of them.", float64(m.webhooks[k]), "outcome", k)
	}
	for _, k := range slices.Sorted(maps.Keys(m.models)) {
		p.Counter("assay_server_model_checks_total", "Comparisons of a replica's model with its reference, by what they came to.", float64(m.models[k]), "outcome", k)
	}
}
