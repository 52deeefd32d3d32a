package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

func testDelivery(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, other, at := enrolled(t, s, "ada"), enrolled(t, s, "ada"), now()
	rec := func(n int) Record {
		return Record{ID: fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G5F%02d", n), Kind: "envelope", Bytes: []byte{0, 255, byte(n), '\n'}}
	}
	equal(t, "first", got[[]Outcome](t)(s.Deliver(ctx, node, []Record{rec(3), rec(1), rec(2)}, at)), []Outcome{Taken, Taken, Taken})
	forged := rec(1)
	forged.Bytes = []byte("other bytes")
	within := rec(4)
	within.Bytes = []byte("other bytes in one batch")
	equal(t, "again", got[[]Outcome](t)(s.Deliver(ctx, node, []Record{rec(1), forged, rec(4), rec(4), within}, at)), []Outcome{Duplicate, Refused, Taken, Duplicate, Refused})
	equal(t, "another's id", got[[]Outcome](t)(s.Deliver(ctx, other, []Record{rec(1), rec(5)}, at)), []Outcome{Refused, Taken})
	kept := got[Record](t)(s.Statement(ctx, everybody, node, rec(1).ID))
	equal(t, "bytes", kept.Bytes, rec(1).Bytes)
	want(t, second(s.Statement(ctx, Scope{Owners: []string{"bob"}}, node, rec(1).ID)), ErrNotFound)
	want(t, second(s.Statement(ctx, everybody, other, rec(1).ID)), ErrNotFound)
	equal(t, "waiting", got[int](t)(s.Unpublished(ctx, TopicLedger, 100)), 5)
	equal(t, "waiting, bounded", got[int](t)(s.Unpublished(ctx, TopicLedger, 2)), 2)
	_, err := s.Deliver(ctx, id(), []Record{rec(9)}, at)
	want(t, err, ErrNotFound)
	l := got[Lease](t)(s.Acquire(ctx, "publish", "p", time.Minute))
	var order []string
	for _, r := range got[[]Record](t)(s.NextToPublish(ctx, l, 100)) {
		order = append(order, r.ID)
	}
	equal(t, "order", order, []string{rec(3).ID, rec(1).ID, rec(2).ID, rec(4).ID, rec(5).ID})
}

// A node delivers to two servers at once while one publishes: all records leave,
// each once, and those of a node in the order of their places.
func testPublishing(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	two := b.open(t)
	nodes := []string{enrolled(t, s, "ada"), enrolled(t, s, "ada")}
	const batches, size = 10, 5
	var wg, publisher sync.WaitGroup
	done := make(chan struct{})
	var seen []Record
	publisher.Go(func() {
		l, err := two.Acquire(ctx, "publish", "p", time.Minute)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			last := false
			select {
			case <-done:
				last = true
			default:
			}
			rs, err := two.NextToPublish(ctx, l, 7)
			if err != nil {
				t.Error(err)
				return
			}
			var ids []string
			for _, r := range rs {
				ids, seen = append(ids, r.ID), append(seen, r)
			}
			if err := two.MarkPublished(ctx, ids, now()); err != nil {
				t.Error(err)
				return
			}
			if last && len(rs) == 0 {
				return
			}
		}
	})
	for _, node := range nodes {
		for _, server := range []*Store{s, two} {
			wg.Go(func() {
				for range batches {
					var rs []Record
					for range size {
						rs = append(rs, Record{ID: id(), Kind: "envelope", Bytes: []byte("b")})
					}
					if _, err := server.Deliver(ctx, node, rs, now()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	close(done)
	publisher.Wait()
	equal(t, "published", len(seen), batches*size*2*len(nodes))
	last, ids := map[string]int64{}, map[string]bool{}
	for _, r := range seen {
		if r.Seq <= last[r.Node] || ids[r.ID] {
			t.Errorf("record %s of node %s left at place %d after %d", r.ID, r.Node, r.Seq, last[r.Node])
		}
		last[r.Node], ids[r.ID] = r.Seq, true
	}
}

func testWebhooks(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	const n = 60
	var hooks []Record
	for range n {
		hooks = append(hooks, Record{ID: id(), Topic: TopicWebhook, Node: "n", Kind: "page", Target: "ops", Bytes: []byte("{}"), Received: now()})
	}
	must(t, s.AddAudit(ctx, Trail{Outbox: hooks}))
	want(t, s.AddAudit(ctx, Trail{Outbox: []Record{{ID: hooks[0].ID, Topic: TopicWebhook, Node: "n", Bytes: []byte("other"), Received: now()}}}), ErrTaken)
	must(t, s.AddAudit(ctx, Trail{Outbox: hooks[:1]}))

	claimed := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, server := range []*Store{s, b.open(t), s} {
		wg.Go(func() {
			for {
				rs, err := server.ClaimWebhooks(ctx, fmt.Sprint(i), time.Minute, 4)
				if err != nil {
					t.Error(err)
				}
				if len(rs) == 0 {
					return
				}
				mu.Lock()
				for _, r := range rs {
					claimed[r.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	equal(t, "claimed", len(claimed), n)
	for hook, times := range claimed {
		if times != 1 {
			t.Errorf("%s was claimed %d times", hook, times)
		}
	}
	// One that failed comes back when it is due, and not before; one that is
	// finished does not.
	var mine Record
	must(t, s.tx(ctx, "let go", func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE outbox SET claimed_until = 0, claimed_by = ''")
		return err
	}))
	all := got[[]Record](t)(s.ClaimWebhooks(ctx, "me", time.Minute, n))
	mine = all[0]
	want(t, s.PostponeWebhook(ctx, mine.ID, "you", now(), "no"), ErrLease)
	must(t, s.PostponeWebhook(ctx, mine.ID, "me", now().Add(time.Hour), "refused"))
	equal(t, "before it is due", len(got[[]Record](t)(s.ClaimWebhooks(ctx, "me", time.Minute, n))), 0)
	must(t, s.MarkPublished(ctx, []string{all[1].ID}, now()))
	want(t, s.PostponeWebhook(ctx, all[1].ID, "me", now(), "no"), ErrLease)
	must(t, s.PostponeWebhook(ctx, all[2].ID, "me", now().Add(-time.Hour), "refused"))
	again := got[[]Record](t)(s.ClaimWebhooks(ctx, "me", time.Minute, n))
	if len(again) != 1 || again[0].ID != all[2].ID || again[0].Attempts != 3 || again[0].Problem != "refused" {
		t.Errorf("claimed again: %+v", again)
	}
}

func testTimers(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	at := now()
	must(t, s.SetDue(ctx, Due{"verify", "a", at}, Due{"verify", "b", at.Add(time.Hour)}, Due{"drain", "a", at}, Due{"verify", "c", at}))
	must(t, s.SetDue(ctx, Due{Kind: "verify", Subject: "c"}))
	equal(t, "due", got[[]Due](t)(s.ClaimDue(ctx, "verify", "me", at, time.Minute, 10)), []Due{{"verify", "a", at}})
	equal(t, "due, claimed", len(got[[]Due](t)(s.ClaimDue(ctx, "verify", "you", at, time.Minute, 10))), 0)
	must(t, s.SetDue(ctx, Due{"verify", "a", at.Add(time.Second)}))
	must(t, s.DoneDue(ctx, Due{"verify", "a", at}, "me")) // was set anew: stays
	equal(t, "set anew", len(got[[]Due](t)(s.ClaimDue(ctx, "verify", "me", at.Add(time.Second), time.Minute, 10))), 1)
	must(t, s.DoneDue(ctx, Due{"verify", "a", at.Add(time.Second)}, "me"))
	equal(t, "later", got[[]Due](t)(s.ClaimDue(ctx, "verify", "me", at.Add(2*time.Hour), 0, 10)), []Due{{"verify", "b", at.Add(time.Hour)}})

	var many []Due
	for i := range 100 {
		many = append(many, Due{"race", fmt.Sprint(i), at})
	}
	must(t, s.SetDue(ctx, many...))
	var mu sync.Mutex
	var wg sync.WaitGroup
	var subjects []string
	for i, server := range []*Store{s, b.open(t), b.open(t)} {
		wg.Go(func() {
			for {
				due, err := server.ClaimDue(ctx, "race", fmt.Sprint(i), at, time.Minute, 3)
				if err != nil {
					t.Error(err)
				}
				if len(due) == 0 {
					return
				}
				mu.Lock()
				for _, d := range due {
					subjects = append(subjects, d.Subject)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(subjects)
	if len(subjects) != 100 || len(slices.Compact(subjects)) != 100 {
		t.Errorf("%d claims of 100 timers", len(subjects))
	}
}

func testLeases(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	other := b.open(t)
	l := got[Lease](t)(s.Acquire(ctx, "work", "a", time.Minute))
	want(t, second(other.Acquire(ctx, "work", "b", time.Minute)), ErrLease)
	again := got[Lease](t)(s.Acquire(ctx, "work", "a", time.Minute))
	equal(t, "prolonged", again.Fence, l.Fence)
	must(t, s.Release(ctx, again))
	taken := got[Lease](t)(other.Acquire(ctx, "work", "b", time.Minute))
	equal(t, "the next holder's fence", taken.Fence, l.Fence+1)
	want(t, second(s.NextToPublish(ctx, l, 1)), ErrLease) // a paused one
	must(t, s.Release(ctx, l))                            // not its own any more
	got[[]Record](t)(other.NextToPublish(ctx, taken, 1))
	// One that ran out is a new one even for who had it.
	short := got[Lease](t)(s.Acquire(ctx, "short", "a", 0))
	want(t, second(s.NextToPublish(ctx, short, 1)), ErrLease)
	equal(t, "after it ran out", got[Lease](t)(s.Acquire(ctx, "short", "a", time.Minute)).Fence, short.Fence+1)

	holders := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if _, err := []*Store{s, other}[i%2].Acquire(ctx, "race", fmt.Sprint(i), time.Minute); err == nil {
				mu.Lock()
				holders++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	equal(t, "holders at once", holders, 1)
	if d := time.Since(got[time.Time](t)(s.Now(ctx))); d.Abs() > time.Hour {
		t.Errorf("the database's time is %v away", d)
	}
}

func testCommands(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, at := enrolled(t, s, "ada"), now()
	c := Command{ID: id(), Node: node, Kind: "check", Reason: "why", Created: at, Expires: at.Add(time.Minute), Params: json.RawMessage("{}")}
	must(t, s.AddCommand(ctx, everybody, c, Trail{}))
	must(t, s.AddCommand(ctx, everybody, Command{ID: id(), Node: enrolled(t, s, "bob"), Kind: "stop", Created: at, Expires: at.Add(time.Minute)}, Trail{}))
	equal(t, "waiting", got[[]Command](t)(s.WaitingCommands(ctx, []string{node, "x"}, at)), []Command{c})
	equal(t, "waiting of nobody", len(got[[]Command](t)(s.WaitingCommands(ctx, nil, at))), 0)
	equal(t, "expired", len(got[[]Command](t)(s.WaitingCommands(ctx, []string{node}, c.Expires))), 0)
	c.Outcome = "started"
	want(t, s.AckCommand(ctx, Command{ID: c.ID, Node: "x"}, false, at), ErrNotFound)
	must(t, s.AckCommand(ctx, c, false, at))
	equal(t, "started", len(got[[]Command](t)(s.WaitingCommands(ctx, []string{node}, at))), 0)
	c.Outcome, c.Run = "done", "run"
	must(t, s.AckCommand(ctx, c, true, at.Add(time.Second)))
	must(t, s.AckCommand(ctx, c, true, at.Add(2*time.Second)))
	c.Outcome = "failed"
	want(t, s.AckCommand(ctx, c, true, at), ErrConflict)
	kept := got[Command](t)(s.Command(ctx, everybody, node, c.ID))
	equal(t, "kept", []any{kept.Outcome, kept.Run, kept.Acked, kept.Ended}, []any{"done", "run", at, at.Add(time.Second)})
}
