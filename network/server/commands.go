package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// maxCommands is how many commands one poll gives; the rest comes with the next.
const maxCommands = 100

const defaultWait = 30

// ListCommands gives a node its commands, or waits until there is one.
func (s *Server) ListCommands(ctx context.Context, r api.ListCommandsRequestObject) (api.ListCommandsResponseObject, error) {
	seconds := defaultWait
	if r.Params.Wait != nil {
		seconds = *r.Params.Wait
	}
	found, err := s.polls.wait(ctx, s.ended, r.Node, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	out := api.ListCommands200JSONResponse{}
	for i, c := range found {
		if i == maxCommands {
			break
		}
		one := api.Command{Id: c.ID, Kind: api.CommandKind(c.Kind), Created: c.Created, Expires: c.Expires}
		if c.Reason != "" {
			one.Reason = &c.Reason
		}
		var params CommandParams
		if json.Unmarshal(c.Params, &params) == nil {
			one.Measure, one.Stops = params.Measure, params.Stops
		}
		out = append(out, one)
	}
	return out, nil
}

// CommandParams are what a command says besides its kind, as they are stored.
type CommandParams struct {
	Measure *api.MeasureOrder `json:"measure,omitempty"`
	Stops   *string           `json:"stops,omitempty"` // only the check that this command asked for
}

// waitingCommands is the one query that serves all polls.
func (s *Server) waitingCommands(ctx context.Context, nodes []string) (map[string][]store.Command, error) {
	s.metrics.add(countPollQueries, 1)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all, err := s.store.WaitingCommands(ctx, nodes, s.now())
	if err != nil {
		return nil, err
	}
	out := map[string][]store.Command{}
	for _, c := range all {
		out[c.Node] = append(out[c.Node], c)
	}
	return out, nil
}

// AcknowledgeCommand notes what became of a command.
func (s *Server) AcknowledgeCommand(ctx context.Context, r api.AcknowledgeCommandRequestObject) (api.AcknowledgeCommandResponseObject, error) {
	c := store.Command{
		ID: r.Command, Node: r.Node, Outcome: string(r.Body.Outcome), Detail: foreign.Line(deref(r.Body.Detail), maxReason), Run: foreign.Line(deref(r.Body.Run), 100),
	}
	err := s.store.AckCommand(ctx, c, r.Body.Outcome != api.AcknowledgementOutcomeStarted, s.now())
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil, refuse(http.StatusConflict, "the command has ended otherwise already")
	case err != nil:
		return nil, missing(err, "command")
	}
	if s.o.Decider != nil {
		if err := s.o.Decider.Acknowledged(ctx, r.Node, r.Command, string(r.Body.Outcome)); err != nil {
			return nil, err
		}
	}
	return api.AcknowledgeCommand204Response{}, nil
}

// maxPolls is how many polls may wait in one process: a connection each.
const maxPolls = 50_000

// polls lets many nodes wait for commands with one query a second for all of
// them, and with none while nobody waits. A poll sees at least one query that
// began after it came.
type polls[C any] struct {
	every time.Duration
	// waiting gives the commands that wait now, by node, for these nodes.
	waiting func(ctx context.Context, nodes []string) (map[string][]C, error)

	mu    sync.Mutex
	nodes map[string]map[*poll[C]]bool
	count int
	wake  chan struct{}
}

// poll is one that waits.
type poll[C any] struct {
	came  chan []C
	asked bool // a query has begun since it came, and it knows
}

func newPolls[C any](every time.Duration, waiting func(context.Context, []string) (map[string][]C, error)) *polls[C] {
	return &polls[C]{every: every, waiting: waiting, nodes: map[string]map[*poll[C]]bool{}, wake: make(chan struct{}, 1)}
}

// wait gives a node's commands once there are any. It gives none when ctx or the
// wait ends, or when the server does.
func (p *polls[C]) wait(ctx context.Context, stop <-chan struct{}, node string, atMost time.Duration) ([]C, error) {
	one, ok := p.enter(node)
	if !ok {
		return nil, refuseFor(http.StatusServiceUnavailable, 10*time.Second, "%d polls wait already", maxPolls)
	}
	defer p.leave(node, one)
	over := time.Now().Add(atMost)
	timer := time.NewTimer(max(atMost, 2*p.every)) // the first query after it came is waited for
	defer timer.Stop()
	for {
		select {
		case c := <-one.came:
			if len(c) > 0 || !time.Now().Before(over) {
				return c, nil
			}
			timer.Reset(time.Until(over))
		case <-timer.C:
			return nil, nil
		case <-stop:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *polls[C]) enter(node string) (*poll[C], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= maxPolls {
		return nil, false
	}
	one := &poll[C]{came: make(chan []C, 1)}
	if p.nodes[node] == nil {
		p.nodes[node] = map[*poll[C]]bool{}
	}
	p.nodes[node][one] = true
	p.count++
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return one, true
}

func (p *polls[C]) leave(node string, one *poll[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes[node], one)
	p.count--
	if len(p.nodes[node]) == 0 {
		delete(p.nodes, node)
	}
}

// run asks until ctx ends: at most once in Every, and only while somebody waits.
func (p *polls[C]) run(ctx context.Context, failed func(error)) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		for p.anybody() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(last.Add(p.every))):
			}
			last = time.Now()
			p.ask(ctx, failed)
		}
	}
}

func (p *polls[C]) anybody() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 0
}

// ask serves everybody who waits by one query.
func (p *polls[C]) ask(ctx context.Context, failed func(error)) {
	p.mu.Lock()
	asked := make(map[string][]*poll[C], len(p.nodes))
	nodes := make([]string, 0, len(p.nodes))
	for node, waiters := range p.nodes {
		nodes = append(nodes, node)
		for one := range waiters {
			asked[node] = append(asked[node], one)
		}
	}
	p.mu.Unlock()
	if len(nodes) == 0 {
		return
	}
	found, err := p.waiting(ctx, nodes)
	if err != nil {
		failed(err) // they wait on: the next query may be answered
		return
	}
	for node, waiters := range asked {
		for _, one := range waiters {
			if len(found[node]) == 0 && one.asked {
				continue // ten thousand are not woken for nothing
			}
			one.asked = true // only this goroutine looks at it
			select {
			case one.came <- found[node]:
			default: // it has not read the last answer yet, and stays
			}
		}
	}
}

// waitingNow is how many polls wait.
func (p *polls[C]) waitingNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}
