package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

const (
	pollWait    = 30 * time.Second // the longest that the server holds a poll
	pollTimeout = pollWait + 20*time.Second
	// rememberFor is how long a command is known after its expiry; the server does
	// not give it again by then.
	rememberFor = 24 * time.Hour
	maxCommands = 1000
)

// carried is what became of a command. It is on the disk before the command is
// carried out, so that none is carried out twice: one that was begun and has no
// end was interrupted by our own.
type carried struct {
	Kind    string                     `json:"kind"`
	Expires time.Time                  `json:"expires"`
	Outcome api.AcknowledgementOutcome `json:"outcome"`
	Detail  string                     `json:"detail,omitempty"`
	Run     string                     `json:"run,omitempty"`
	Told    bool                       `json:"told"` // the server knows this outcome
}

// commands fetches what the server wants, once each.
type commands struct {
	state   *state
	session *session
	log     *slog.Logger
	// do carries a command out, and calls end when it is over; it does not wait.
	do func(ctx context.Context, c api.Command, end func(api.AcknowledgementOutcome, string, string))

	mu    sync.Mutex
	known map[string]carried
	news  chan struct{} // an outcome is to be told
}

func openCommands(s *state, x *session, log *slog.Logger) (*commands, error) {
	c := &commands{state: s, session: x, log: log, known: map[string]carried{}, news: make(chan struct{}, 1)}
	if _, err := s.read(commandsFile, &c.known); err != nil {
		return nil, err
	}
	for id, k := range c.known {
		if k.Outcome == api.AcknowledgementOutcomeStarted {
			k.Outcome, k.Detail, k.Told = api.AcknowledgementOutcomeFailed, "the agent ended before the command did", false
			c.known[id] = k
		}
	}
	return c, nil
}

// remember puts a command's outcome on the disk.
func (c *commands) remember(id string, k carried) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, was := c.known[id]
	c.known[id] = k
	now := time.Now()
	maps.DeleteFunc(c.known, func(_ string, k carried) bool { return k.Told && now.After(k.Expires.Add(rememberFor)) })
	if len(c.known) > maxCommands && !was {
		delete(c.known, id)
		return fmt.Errorf("%d commands are remembered already", maxCommands)
	}
	if err := c.state.write(commandsFile, c.known); err != nil {
		if c.known[id] = before; !was {
			delete(c.known, id)
		}
		return err
	}
	return nil
}

// poll asks once for commands and takes each that is new.
func (c *commands) poll(ctx context.Context) error {
	began := time.Now()
	seconds := int(pollWait / time.Second)
	list, err := as[[]api.Command](ctx, c.session, "poll for commands", pollTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		return c.session.link.client.ListCommands(ctx, node, &api.ListCommandsParams{Wait: &seconds}, auth)
	})
	if err != nil {
		return err
	}
	if len(list) > 100 {
		list = list[:100]
	}
	for _, cmd := range list {
		c.take(ctx, cmd)
	}
	// A server that does not hold polls, or repeats itself, is not asked without
	// end.
	if least := c.session.link.spread / 60; time.Since(began) < least {
		sleep(ctx, least)
	}
	return nil
}

func (c *commands) take(ctx context.Context, cmd api.Command) {
	if _, err := ulid.ParseStrict(cmd.Id); err != nil {
		return // it cannot be answered either
	}
	c.mu.Lock()
	k, known := c.known[cmd.Id]
	c.mu.Unlock()
	if known {
		k.Told = false // the server does not know, or it would not ask
		c.settle(cmd.Id, k)
		return
	}
	k = carried{Kind: foreign.Line(string(cmd.Kind), 40), Expires: cmd.Expires, Outcome: api.AcknowledgementOutcomeStarted}
	// By the server's clock: ours may be off.
	if now := time.Now().Add(c.session.link.clock.now().Offset); !now.Before(cmd.Expires) {
		k.Outcome, k.Detail = api.AcknowledgementOutcomeExpired, "it came after its expiry"
		c.settle(cmd.Id, k)
		return
	}
	if err := c.remember(cmd.Id, k); err != nil {
		c.log.Error("a command is not carried out: that it was begun could not be written down", "command", cmd.Id, "error", err)
		return // it comes again until it expires
	}
	c.wake()
	c.log.Info("the server asks", "command", cmd.Id, "kind", k.Kind, "reason", foreign.Line(value(cmd.Reason), 200))
	c.do(ctx, cmd, func(outcome api.AcknowledgementOutcome, detail, run string) {
		k.Outcome, k.Detail, k.Run, k.Told = outcome, foreign.Line(detail, maxProblem), foreign.Line(run, 100), false
		c.settle(cmd.Id, k)
	})
}

// settle notes an outcome and has it told.
func (c *commands) settle(id string, k carried) {
	if err := c.remember(id, k); err != nil {
		c.log.Error("a command's outcome could not be written down", "command", id, "error", err)
		c.mu.Lock()
		c.known[id] = k // it can still be told
		c.mu.Unlock()
	}
	c.wake()
}

func (c *commands) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// tell acknowledges what the server does not know yet.
func (c *commands) tell(ctx context.Context) error {
	c.mu.Lock()
	ids := slices.Sorted(maps.Keys(c.known))
	c.mu.Unlock()
	var errs []error
	for _, id := range ids {
		c.mu.Lock()
		k, ok := c.known[id]
		c.mu.Unlock()
		if !ok || k.Told {
			continue
		}
		err := c.acknowledge(ctx, id, k)
		if s := status(err); s == http.StatusNotFound || s == http.StatusConflict || s == http.StatusGone || s == http.StatusBadRequest {
			err = nil // it is not waited for any more
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.mu.Lock()
		now, ok := c.known[id]
		c.mu.Unlock()
		if ok && now == k { // unless it went on meanwhile
			k.Told = true
			errs = append(errs, c.remember(id, k))
		}
	}
	return errors.Join(errs...)
}

func (c *commands) acknowledge(ctx context.Context, id string, k carried) error {
	a := api.Acknowledgement{Outcome: k.Outcome}
	if k.Detail != "" {
		a.Detail = &k.Detail
	}
	if k.Run != "" {
		a.Run = &k.Run
	}
	_, err := as[struct{}](ctx, c.session, "acknowledge a command", callTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		return c.session.link.client.AcknowledgeCommand(ctx, node, id, a, auth)
	})
	return err
}
