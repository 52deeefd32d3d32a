package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay/network/api"
)

// options say how many agents there are and what they do.
type options struct {
	server, token     string
	agents            int
	length            time.Duration
	heartbeat, report time.Duration
	// spread is over which time agents come back after a failure; 0: the usual.
	spread time.Duration
	// enough ends it before its time; nil: nothing does.
	enough <-chan struct{}
	// enrolled is told when all agents are logged in; nil: nobody.
	enrolled func()
}

const (
	enrolling = 32          // agents that are taken in at once
	pooled    = 128         // connections at least that all requests but the polls share
	timeout   = time.Minute // of a request
	usual     = time.Minute // over which agents come back after a failure
	rest      = 90 * time.Second
)

// swarm is what all agents share.
type swarm struct {
	options
	base   *url.URL
	admin  *api.Client
	shared *http.Client // for everything that is answered at once
	waits  *http.Client // for polls, which hold a connection for long
	run    *recorded
	meter  *meter

	mu        sync.Mutex
	delivered []string
	confirmed int
	waiting   int
}

// gather makes a swarm without agents; end removes what it leaves.
func gather(ctx context.Context, o options) (s *swarm, end func(), err error) {
	scratch, err := os.MkdirTemp("", "swarm-")
	if err != nil {
		return nil, nil, err
	}
	if o.spread == 0 {
		o.spread = usual
	}
	s = &swarm{options: o, meter: newMeter(),
		// A heart-beat holds one for up to a second, until its batch is written.
		shared: &http.Client{Transport: &http.Transport{MaxConnsPerHost: max(pooled, o.agents/8), MaxIdleConnsPerHost: max(pooled, o.agents/8)}},
		waits:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.agents}},
	}
	end = func() {
		s.shared.CloseIdleConnections()
		s.waits.CloseIdleConnections()
		os.RemoveAll(scratch)
	}
	if s.base, err = url.Parse(o.server); err == nil {
		s.admin, err = api.NewClient(o.server, api.WithHTTPClient(s.shared), api.WithRequestEditorFn(bearer(o.token)))
	}
	if err == nil {
		s.run, err = record(ctx, scratch)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return s, end, nil
}

// run plays the agents.
func run(ctx context.Context, o options) (result, error) {
	s, end, err := gather(ctx, o)
	if err != nil {
		return result{}, err
	}
	defer end()
	began := time.Now()
	agents, err := s.enrolAll(ctx)
	if err != nil {
		return result{}, err
	}
	took := time.Since(began).Seconds()
	if o.enrolled != nil {
		o.enrolled()
	}
	s.play(ctx, agents)
	r := s.meter.result()
	r.Agents, r.Enrolled = len(agents), took
	r.Reports, r.Waiting, r.Delivered = s.confirmed, s.waiting, s.delivered
	return r, nil
}

// enrolAll takes all agents in.
func (s *swarm) enrolAll(ctx context.Context) ([]*agent, error) {
	agents := make([]*agent, s.agents)
	errs := make([]error, enrolling)
	var group sync.WaitGroup
	for w := range enrolling {
		group.Go(func() {
			for i := w; i < len(agents) && errs[w] == nil; i += enrolling {
				agents[i], errs[w] = s.enrol(ctx)
			}
		})
	}
	group.Wait()
	return agents, errors.Join(errs...)
}

// play has all agents at work until the time is over, and then lets those that
// still hold a report deliver it.
func (s *swarm) play(ctx context.Context, agents []*agent) {
	work, stop := context.WithTimeout(ctx, s.length)
	defer stop()
	late, end := context.WithTimeout(ctx, s.length+rest)
	defer end()
	go func() {
		select {
		case <-s.enough:
			stop()
		case <-work.Done():
		}
	}()
	var group sync.WaitGroup
	for _, a := range agents {
		group.Go(func() { a.beats(work) })
		group.Go(func() { a.polls(work) })
		if s.report > 0 {
			group.Go(func() { a.reports(work, late) })
		}
	}
	group.Wait()
}

// took notes a report.
func (s *swarm) took(confirmed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if confirmed {
		s.confirmed++
	} else {
		s.waiting++
	}
}

// deliveredAs notes statements that the server has.
func (s *swarm) deliveredAs(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if !slices.Contains(s.delivered[max(0, len(s.delivered)-8):], id) {
			s.delivered = append(s.delivered, id)
		}
	}
}

// pause waits; false: the time is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// jitter is d, by chance up to a tenth shorter or longer.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
	after  time.Duration // Retry-After
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }
