package decide

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// standing still is a sink of pauses: it stops whoever asks, at random.
func standStill() { time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) }

// TestThreeDeciders: three on one database, killed and paused at random, make the
// decisions that one makes, each once.
func TestThreeDeciders(t *testing.T) {
	alone := decisionsOf(t, func(n *network, run func(context.Context, *Decider)) {
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { run(ctx, n.decider(quick)) })
		n.settled()
		cancel()
		wait.Wait()
	})
	together := decisionsOf(t, func(n *network, run func(context.Context, *Decider)) {
		all, end := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				// Each dies now and then, and another takes its place, who lives a little
				// longer: on a slow machine one report takes longer than the first ones live.
				for turn := 1; all.Err() == nil; turn++ {
					ctx, cancel := context.WithTimeout(all, time.Duration(turn*(100+rand.IntN(900)))*time.Millisecond)
					run(ctx, n.decider(quick))
					cancel()
				}
			})
		}
		n.settled()
		end()
		wait.Wait()
	})
	for id, moves := range alone {
		if got := together[id]; len(got) != len(moves) {
			t.Errorf("node %d: alone %q, together %q", id, moves, got)
		} else {
			for i := range moves {
				if got[i] != moves[i] {
					t.Errorf("node %d: alone %q, together %q", id, moves, got)
					break
				}
			}
		}
	}
}

// quick lets leases end soon, so that they change hands.
func quick(o *Options) { o.Lease, o.Every = 100*time.Millisecond, 10*time.Millisecond }

// settled waits until every report is scored.
func (n *network) settled() {
	n.Helper()
	for end := time.Now().Add(8 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		left, err := n.store.Unscored(n.Context(), time.Now().Add(-time.Hour), 100)
		if err != nil && !errors.Is(err, context.Canceled) {
			n.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			n.Fatalf("%d reports are left", len(left))
		}
	}
}

// decisionsOf has nodes of a network measure, some slow, and gives the moves of
// each, by its place.
func decisionsOf(t *testing.T, judge func(*network, func(context.Context, *Decider))) map[int][]string {
	n := newNetwork(t, nil)
	var nodes []*node
	for range 3 {
		nodes = append(nodes, n.approved())
	}
	for round := range 2 {
		n.clock.pass(time.Minute)
		for i, m := range nodes {
			slow := 1.0
			if i == 0 {
				slow = 10
			}
			dir := m.run(measurement{slow: slow, began: n.clock.now().Add(time.Duration(round) * time.Second)})
			n.clock.pass(time.Second)
			m.report(dir, nil)
		}
	}
	judge(n, func(ctx context.Context, d *Decider) {
		standStill()
		d.Run(ctx)
	})
	out := map[int][]string{}
	for i, m := range nodes {
		for _, tr := range n.provable(m.id) {
			if tr.Fact == string(control.FactAdmission) {
				out[i] = append(out[i], tr.From+"→"+tr.To)
			}
		}
		all, err := n.store.Reports(t.Context(), everybody, m.id, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Scored.IsZero() {
				t.Errorf("report %s is not scored", r.ID)
			}
		}
	}
	t.Log(out)
	return out
}
