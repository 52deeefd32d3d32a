package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/ask"
	"github.com/assay-bench/assay/network/server/egress"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
	judge "github.com/assay-bench/assay/network/trust"
)

// session is one look at one replica.
type session struct {
	*Prober
	route   store.Route
	policy  control.Policy
	way     ask.Way
	target  ask.Target
	rng     *rand.Rand
	streams int

	windows []judge.Window
	seen    []judge.Seen
	failed  error // the last probe that failed
}

// look looks at a replica, and tells what was found.
func (p *Prober) look(ctx context.Context, r store.Route, policy control.Policy) {
	s := &session{
		Prober: p, route: r, policy: policy, way: p.o.Way, rng: p.random(),
		target: ask.Target{Replica: r.ID, ServingURL: r.ServingURL, Model: r.Model},
	}
	p.mu.Lock()
	s.streams = max(1, p.streams[r.ID])
	p.mu.Unlock()
	trusted, _ := control.Trusted(policy, r.Proofs, r.ServingURL, time.Now())
	if !admitted(r) {
		s.way.APIKey = "" // no customer has shown it his either, and anybody can name an address
	}
	if !admitted(r) || !trusted {
		s.way.Router = "" // no router sends it anything
	}
	reach := s.reach(ctx)
	if ctx.Err() != nil {
		return
	}
	s.tell(ctx, control.CheckReach, kindReach, reach)
	if reach.Verdict != assay.Pass {
		return
	}
	unknown := s.probe(ctx)
	if ctx.Err() != nil {
		return
	}
	claims, capacity, err := s.claims(ctx)
	if err != nil {
		p.log.Warn("what a node says of itself could not be read", "node", r.Node, "error", err)
	}
	address := judge.Address(s.windows, judge.AddressOptions{Capacity: capacity})
	if unknown != "" && address.Verdict == assay.Unknown {
		address.Text = unknown
	}
	s.adapt(address)
	s.tell(ctx, CheckAddress, kindAddress, address)
	s.tell(ctx, CheckSpeed, kindSpeed, judge.Speed(s.seen, claims, policy.Trust.Slower))
}

// admitted says whether routers may send it requests, but for what was proved.
func admitted(r store.Route) bool {
	facts := func(f store.Facts) control.Facts {
		return control.Facts{Admission: control.Admission(f.Admission), Intent: control.Intent(f.Intent), Contact: control.Contact(f.Contact)}
	}
	replica := facts(r.ReplicaFacts)
	replica.Contact = control.Contact(r.NodeFacts.Contact)
	ok, _ := control.RoutableReplica(facts(r.NodeFacts), replica)
	return ok
}

// tell hands on what was found.
func (s *session) tell(ctx context.Context, check, kind string, r judge.Result) {
	s.counts.found(check, r.Verdict)
	err := s.o.Decider.Found(ctx, store.Finding{
		Node: s.route.Node, Replica: s.route.Replica, ServingURL: s.route.ServingURL, Check: check,
		Verdict: r.Verdict.String(), Text: r.Text, Figures: r.Figures,
	}, kind)
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) { // its node has taken it away meanwhile
		s.log.Error("a finding could not be kept; the next look finds it again", "node", s.route.Node, "check", check, "error", err)
	}
}

// adapt asks for more where other traffic hid the probes, and for less again.
func (s *session) adapt(r judge.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Verdict == assay.Unknown && len(s.windows) == judge.Windows:
		s.Prober.streams[s.route.ID] = min(maxStreams, 2*s.streams)
	case s.streams > 1 && r.Verdict == assay.Pass:
		s.Prober.streams[s.route.ID] = s.streams / 2
	}
}

// reachTries is how often one that does not answer is tried.
const reachTries = 3

// reach says whether the replica answers where customers are sent.
func (s *session) reach(ctx context.Context) judge.Result {
	by := "at its serving URL"
	if s.way.Router != "" {
		by = "through the router"
	}
	var err error
	for try := range reachTries {
		if try > 0 && !sleep(ctx, s.o.Heartbeat/3) {
			break
		}
		if _, err = s.small(ctx, min(10*time.Second, max(time.Second, s.o.Heartbeat))); err == nil {
			s.note(true)
			return judge.Result{Verdict: assay.Pass, Text: "it answers " + by}
		}
		if errors.Is(err, egress.ErrRefused) {
			return judge.Result{Text: foreign.Line(err.Error(), 300)}
		}
	}
	text := fmt.Sprintf("it does not answer %s: %s", by, foreign.Line(fmt.Sprint(err), 300))
	if !s.note(false) {
		return judge.Result{Text: "many nodes do not answer at once, so it may be us who are cut off: " + text}
	}
	return judge.Result{Verdict: assay.Fail, Text: text}
}

// note keeps whether a node was reached, and says whether it can be its own fault that
// it was not. It is more likely ours where many that answered before are away at once,
// and where nobody has answered at all. A node counts once, however many replicas it
// names, and one that never answered says nothing about us: a few behind a router that
// lets nobody in must not excuse all others.
func (s *session) note(reached bool) (own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.route.Node
	if _, known := s.reached[node]; known || reached || s.route.Proofs[control.CheckReach].Answered() {
		s.reached[node] = reached
		delete(s.never, node)
	} else {
		s.never[node] = true
	}
	away := 0
	for _, ok := range s.reached {
		if !ok {
			away++
		}
	}
	if away == len(s.reached) && away+len(s.never) > 1 {
		return false // nobody answers
	}
	return away <= max(1, int(s.policy.Silence.Share*float64(len(s.reached))))
}

// small sends a small request and says what it took.
func (s *session) small(ctx context.Context, within time.Duration) (time.Duration, error) {
	if !s.enter(ctx) {
		return 0, ctx.Err()
	}
	defer s.leave()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	r, err := s.way.Do(ctx, s.target, "/v1/models", nil)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	took := time.Since(began)
	b, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if r.StatusCode >= http.StatusInternalServerError {
		return 0, &ask.StatusError{Status: r.StatusCode, Text: foreign.Line(string(b), 100)}
	}
	return took, err
}

func (s *session) enter(ctx context.Context) bool {
	select {
	case s.requests <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *session) leave() { <-s.requests }

// window is how long a window is at least: a little less than a heart-beat, so that
// the next reading but rarely the one after it ends it.
func (s *session) window() time.Duration { return s.o.Heartbeat * 3 / 4 }

// maxBeats is how many heart-beats a reading is waited for.
const maxBeats = 5

// probe goes through the windows of a plan. It says why there is nothing to judge;
// empty: there may be.
func (s *session) probe(ctx context.Context) (unknown string) {
	last, ok := s.reading(ctx, time.Now())
	switch {
	case !ok:
		return "no heart-beat told what the engine counted"
	case last.Tokens < 0:
		return "its engine does not say how many tokens it made"
	}
	for _, step := range judge.Plan(s.rng) {
		began := time.Now()
		var w judge.Window
		var seen judge.Seen
		if w.Probed = step.Probe; step.Probe {
			w.Received, seen = s.send(ctx, step, began)
		}
		next, ok := s.reading(ctx, began.Add(s.window()))
		if !ok {
			return "the heart-beats stopped"
		}
		w.Counted, w.Seconds = next.Tokens-last.Tokens, next.At.Sub(last.At).Seconds()
		switch {
		case last.Checking || next.Checking:
			w.Void = "the agent measured its engine itself"
		case next.Tokens < 0 || last.Tokens < 0 || w.Counted < 0:
			w.Void = "the engine began to count anew"
		}
		if running := max(last.Running, next.Running); step.Probe && w.Void == "" && last.Running >= 0 && next.Running >= 0 {
			seen.Streams = running + s.streams
			s.seen = append(s.seen, seen)
		}
		s.windows = append(s.windows, w)
		last = next
	}
	if s.failed != nil {
		return "probes failed: " + foreign.Line(s.failed.Error(), 300)
	}
	return ""
}

// reading waits for what the engine has counted at a time or later.
func (s *session) reading(ctx context.Context, after time.Time) (store.Count, bool) {
	end := time.Now().Add(time.Until(after) + maxBeats*s.o.Heartbeat)
	for time.Now().Before(end) {
		all, err := s.o.Store.Counts(ctx, []string{s.route.Node})
		if err == nil {
			for _, c := range all {
				if c.Replica == s.route.Replica && !c.At.Before(after) {
					return c, true
				}
			}
		}
		if !sleep(ctx, s.o.Poll) {
			break
		}
	}
	return store.Count{}, false
}

// send sends a window's probe: a small request, by which is known what the way takes,
// and the completions. What has not come in three quarters of the window is given up:
// the rest is for the counter to be read surely after it.
func (s *session) send(ctx context.Context, step judge.Step, began time.Time) (received int, seen judge.Seen) {
	ctx, cancel := context.WithDeadline(ctx, began.Add(s.window()*3/4))
	defer cancel()
	if !sleep(ctx, time.Duration(step.Delay*float64(s.window())/4)) {
		return 0, seen
	}
	seen.Way, _ = s.small(ctx, s.window()) // unknown where it fails
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range s.streams {
		c := ask.Completion{Prompt: ask.Prompt(s.rng), MaxTokens: step.Tokens}
		all.Go(func() {
			if !s.enter(ctx) {
				return
			}
			defer s.leave()
			a, err := s.way.Complete(ctx, s.target, c)
			mu.Lock()
			defer mu.Unlock()
			received += a.Chunks
			if err != nil && a.Chunks == 0 {
				s.failed = err
			}
			if i == 0 {
				seen.TTFT, _ = a.TTFT()
				seen.TPOT, _ = a.TPOT()
			}
		})
	}
	all.Wait()
	s.counts.sent(received)
	if seen.TTFT < 0 {
		seen.TTFT = 0 // nothing came
	}
	return received, seen
}

// claims are what the node says of itself at each load, and the most that it did.
func (s *session) claims(ctx context.Context) (out []judge.Claim, capacity float64, err error) {
	points, err := s.o.Store.Points(ctx, store.Scope{All: true}, s.route.Node, time.Now().Add(-7*24*time.Hour))
	for _, p := range points {
		if p.Model != s.route.Model {
			continue
		}
		var levels []trend.Level
		if err := json.Unmarshal(p.Levels, &levels); err != nil {
			return nil, 0, err
		}
		for _, l := range levels {
			c := judge.Claim{Streams: l.Streams, TTFT: millis(l.Values["ttft_p50"]), TPOT: millis(l.Values["tpot_p50"])}
			capacity = max(capacity, l.Tokens)
			out = append(out, c)
		}
		return out, capacity, nil // the newest
	}
	return nil, 0, err
}

func millis(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
