package decide

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/egress"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

// topic is a sink that remembers, fails, and dies after it has sent.
type topic struct {
	mu      sync.Mutex
	records []ledger.Record
	fail    error
	after   func() // has sent
}

func (s *topic) Deliver(_ context.Context, records []ledger.Record) ([]outbox.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	s.records = append(s.records, records...)
	if s.after != nil {
		s.after()
	}
	return outbox.AllTaken(len(records)), nil
}

// TestPublish: what waits leaves in each node's order with its own bytes; a
// publisher that dies between sending and marking sends again, and no more.
func TestPublish(t *testing.T) {
	sink := &topic{}
	n := newNetwork(t, func(o *Options) { o.Sink = sink })
	m := n.approved()
	other := n.approved()
	for _, x := range []*node{m, other} {
		x.measured(measurement{slow: 1})
	}
	lease, err := n.store.Acquire(t.Context(), leasePublish, n.d.o.Holder, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sink.fail = errors.New("no broker")
	if _, err := n.d.publishTurn(t.Context(), lease); err == nil {
		t.Fatal("nobody noticed")
	}
	waiting, err := n.store.Unpublished(t.Context(), store.TopicLedger, 1000)
	if err != nil || waiting == 0 {
		t.Fatal(waiting, err)
	}
	// It dies between sending and marking.
	dying, die := context.WithCancel(t.Context())
	sink.fail, sink.after = nil, die
	if _, err := n.d.publishTurn(dying, lease); err == nil {
		t.Fatal("it did not die")
	}
	sink.after = nil
	if got, err := n.store.Unpublished(t.Context(), store.TopicLedger, 1000); err != nil || got != waiting {
		t.Fatalf("%d wait, %d did before: %v", got, waiting, err)
	}
	if _, err := n.d.publishTurn(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if got, err := n.store.Unpublished(t.Context(), store.TopicLedger, 1000); err != nil || got != 0 {
		t.Fatalf("%d wait: %v", got, err)
	}
	if len(sink.records) != 2*waiting {
		t.Fatalf("%d records were sent for %d", len(sink.records), waiting)
	}
	for i, r := range sink.records[:waiting] {
		again := sink.records[waiting+i]
		rec, err := n.store.Statement(t.Context(), everybody, r.Node, r.ID.String())
		if err != nil || again.ID != r.ID || !bytes.Equal(r.Value, rec.Bytes) || !bytes.Equal(again.Value, rec.Bytes) {
			t.Fatalf("record %s: %v", r.ID, err)
		}
	}
	// Each node's transitions are in the order in which they were made.
	for _, x := range []*node{m, other} {
		var want, got []string
		for _, tr := range n.provable(x.id) {
			want = append(want, tr.ID.String())
		}
		for _, r := range sink.records[:waiting] {
			if slices.Contains(want, r.ID.String()) {
				got = append(got, r.ID.String())
			}
		}
		if !slices.Equal(want, got) {
			t.Errorf("sent %q, made %q", got, want)
		}
	}
	// Who stood still past its lease gets nothing to send.
	if err := n.store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if _, err := n.store.Acquire(t.Context(), leasePublish, "another", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := n.d.publishTurn(t.Context(), lease); !errors.Is(err, store.ErrLease) {
		t.Errorf("%v", err)
	}
}

// receiver is somebody's webhook.
type receiver struct {
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request)
	got    []string // ids
	bodies [][]byte
}

func (x *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answer != nil {
		x.answer(w, r)
		return
	}
	x.got, x.bodies = append(x.got, r.Header.Get("webhook-id")), append(x.bodies, b)
}

// TestWebhooks: a receiver that fails, redirects or hangs gets its message when it
// is back; one at a private address that is not allowed never does.
func TestWebhooks(t *testing.T) {
	page, elsewhere := &receiver{}, &receiver{}
	here, there := httptest.NewServer(page), httptest.NewServer(elsewhere)
	defer here.Close()
	defer there.Close()
	secret, err := webhook.ParseSecret(bytes.Repeat([]byte("s"), 32))
	if err != nil {
		t.Fatal(err)
	}
	loopback := &egress.Dialer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	n := newNetwork(t, func(o *Options) {
		o.Webhooks, o.Secret = webhook.Targets{"page": here.URL, "transition": here.URL}, secret
		o.Client = egress.Client(&egress.Dialer{}, 5*time.Second) // nothing private
	})
	m := n.approved()
	n.approved()
	for range 2 {
		m.measured(measurement{slow: 10})
	}
	m.is(control.Quarantined)
	send := func() {
		t.Helper()
		for {
			more, err := n.d.sendWebhooks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				return
			}
		}
	}
	soon := func() { // the table's clock is the database's: what waits is due now
		t.Helper()
		if err := n.db.Tx(t.Context(), func(q database.Query) error {
			_, err := q.ExecContext(t.Context(), "UPDATE outbox SET next_attempt = 0, claimed_until = 0 WHERE topic = 'webhook'")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func() int {
		t.Helper()
		w, err := n.store.Unpublished(t.Context(), store.TopicWebhook, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	all := waiting()
	if all < 5 {
		t.Fatalf("%d webhooks wait", all)
	}
	send()
	if len(page.got) != 0 || waiting() != all {
		t.Fatalf("a private address was reached: %q", page.got)
	}
	problems := n.problems()
	if len(problems) == 0 || !strings.Contains(problems[0], "not in a network") {
		t.Errorf("problems %q", problems)
	}
	n.d.o.Client = egress.Client(loopback, time.Second)
	send() // not due yet
	if len(page.got) != 0 {
		t.Error("it was not postponed")
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"fails": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, there.URL, http.StatusPermanentRedirect)
		},
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		page.mu.Lock()
		page.answer = answer
		page.mu.Unlock()
		soon()
		if name == "hangs" { // one of them is enough to see it
			n.d.o.Client = egress.Client(loopback, 200*time.Millisecond)
		}
		send()
		if waiting() != all {
			t.Errorf("%s: %d of %d wait", name, waiting(), all)
		}
	}
	page.mu.Lock()
	page.answer = nil
	page.mu.Unlock()
	n.d.o.Client = egress.Client(loopback, 5*time.Second)
	soon()
	send()
	slices.Sort(page.got)
	if got := slices.Compact(slices.Clone(page.got)); waiting() != 0 || len(got) != all || len(page.got) != all {
		t.Errorf("%d wait, %d came, %d of them once", waiting(), len(page.got), len(got))
	}
	if len(elsewhere.got) != 0 {
		t.Error("a redirect was followed")
	}
	if text := string(bytes.Join(page.bodies, nil)); !strings.Contains(text, `"to":"quarantined"`) || !strings.Contains(text, origin) {
		t.Errorf("%s", text)
	}
}

// problems are those of webhooks that wait.
func (n *network) problems() (out []string) {
	n.Helper()
	if err := n.db.View(n.Context(), func(q database.Query) error {
		rows, err := q.QueryContext(n.Context(), "SELECT problem FROM outbox WHERE topic = 'webhook' AND problem <> ''")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p string
			if err := rows.Scan(&p); err != nil {
				return err
			}
			out = append(out, p)
		}
		return rows.Err()
	}); err != nil {
		n.Fatal(err)
	}
	return out
}
