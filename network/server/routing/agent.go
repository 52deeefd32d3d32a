package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/internal/promtext"
)

// IDLength is how long what a router sends is: a replica's id, a ULID. HAProxy's
// runtime API cannot send a line's end, so the length says where it is.
const IDLength = 26

// Nobody is what the slots of a router send that have no replica: nothing is
// answered, and they stay as they are.
const Nobody = "00000000000000000000000000"

// Bounds of the listener: whoever reaches it has little to say.
const (
	agentDeadline = 2 * time.Second
	maxAgents     = 1024
)

// Agent answers HAProxy's agent checks. The protocol is plain text without any
// proof of who asks, so only some addresses are answered.
type Agent struct {
	Table *Table
	Allow []netip.Prefix
	Log   *slog.Logger // nil: nothing is logged

	ready, drain, down, silent, refused, busy, garbled atomic.Int64
}

// Serve answers until ctx ends. It closes the listener.
func (a *Agent) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	defer ln.Close()
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, maxAgents)
	for {
		c, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("answer agent checks: %w", err)
		case err != nil: // no descriptors, or a connection that was gone at once
			a.warn("an agent check could not be accepted", err)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		case !a.allowed(c.RemoteAddr()):
			a.refused.Add(1)
			c.Close()
			continue
		}
		select {
		case slots <- struct{}{}:
			all.Go(func() {
				defer func() { <-slots }()
				a.answer(c)
			})
		default:
			a.busy.Add(1)
			c.Close()
		}
	}
}

func (a *Agent) warn(what string, err error) {
	if a.Log != nil {
		a.Log.Warn(what, "error", err)
	}
}

func (a *Agent) allowed(from net.Addr) bool {
	t, ok := from.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip, ok := netip.AddrFromSlice(t.IP)
	if !ok {
		return false
	}
	for _, p := range a.Allow {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

// answer reads an id and says what is known of it. Without an answer HAProxy keeps
// the state that it has.
func (a *Agent) answer(c net.Conn) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(agentDeadline)); err != nil {
		return
	}
	var id [IDLength]byte
	if _, err := io.ReadFull(c, id[:]); err != nil {
		a.garbled.Add(1)
		return
	}
	line, ok := "", false
	if string(id[:]) != Nobody {
		line, ok = a.Table.Answer(string(id[:]))
	}
	switch {
	case !ok:
		a.silent.Add(1)
		return
	case line == answerDrain:
		a.drain.Add(1)
	case line == answerDown:
		a.down.Add(1)
	default:
		a.ready.Add(1)
	}
	_, _ = io.WriteString(c, line) // who is gone does not hear it
}

// Metrics adds what was answered to a page.
func (a *Agent) Metrics(p *promtext.Page) {
	f := p.Family("assay_server_agent_checks_total", promtext.Counter, "Agent checks of routers by what was answered; none: nothing was known, or the slot is nobody's.")
	for _, c := range []struct {
		answer string
		n      *atomic.Int64
	}{{"ready", &a.ready}, {"drain", &a.drain}, {"down", &a.down}, {"none", &a.silent}, {"refused", &a.refused}, {"busy", &a.busy}, {"garbled", &a.garbled}} {
		f.Add(float64(c.n.Load()), "answer", c.answer)
	}
}
