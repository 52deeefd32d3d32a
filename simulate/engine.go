package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Engine is a running simulator. Close it when done.
type Engine struct {
	cfg     Config
	shapes  [2]*shape // of chat and of completions
	odd     [2]bool   // they have habits
	dice    dice
	pacer   *pacer
	gauges  gauges
	stats   stats
	truth   *truth
	prefix  *prefixes
	created time.Time
	count   atomic.Uint64 // generation requests so far
	cold    atomic.Bool   // the first request is still to come

	quit chan struct{}
	work sync.WaitGroup // pacer, connections, their writers

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	kept   [][]byte // the leak

	out []byte // the pacer's, for one write
}

// New starts an engine. It listens to nobody until Serve or Handler is used.
func New(c Config) (*Engine, error) {
	c, err := c.resolve()
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	b, err := newBell()
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	e := &Engine{
		cfg:     c,
		dice:    newDice(c.Seed, c.Faults),
		created: time.Now(),
		quit:    make(chan struct{}),
		conns:   map[net.Conn]struct{}{},
		stats:   newStats(),
	}
	for i, h := range e.habits() {
		both, err := dialectOf(h.Dialect)
		if err != nil {
			return nil, fmt.Errorf("simulate: %w", err)
		}
		e.shapes[i], e.odd[i] = &both[i], !h.none() || c.Reasoning > 0 || c.ToolCall
	}
	e.cold.Store(c.Faults.ColdStart > 0)
	if c.Truth != nil {
		e.truth = newTruth(c.Truth)
	}
	if c.PrefixCache {
		e.prefix = newPrefixes()
	}
	e.pacer = &pacer{start: e.created, bell: b, give: e.give, gone: e.cancelled, flush: e.flushDue}
	if c.Law == LawBatching {
		e.pacer.law = newLoop(c, &e.gauges)
	} else {
		e.pacer.law = newFixed(c, &e.gauges)
	}
	if f := c.Faults; f.StallFor > 0 {
		e.pacer.plan(window{int64(f.StallAt), int64(f.StallAt + f.StallFor)})
	}
	e.work.Go(e.pacer.run)
	return e, nil
}

// habits are those of chat and of completions.
func (e *Engine) habits() [2]*Habits { return [2]*Habits{&e.cfg.Habits, e.cfg.CompletionsHabits} }

// Serve answers connections of ln until ctx ends or the engine is closed,
// then closes ln and its connections and returns nil. Streams under way are
// cut off.
func (e *Engine) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	served := make(chan struct{})
	defer close(served)
	go func() {
		select {
		case <-e.quit:
			ln.Close()
		case <-served:
		}
	}()
	var own sync.WaitGroup
	each, cancel := context.WithCancel(ctx)
	defer own.Wait()
	defer cancel()
	for {
		nc, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || e.isClosed() {
				ln.Close()
				return nil
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
				time.Sleep(5 * time.Millisecond) // out of descriptors for now: others go on
				continue
			}
			ln.Close()
			return fmt.Errorf("simulate: accept: %w", err)
		}
		own.Go(func() {
			stop := context.AfterFunc(each, func() { nc.Close() })
			defer stop()
			e.serve(newConn(e, nc, nil), nil, nil)
		})
	}
}

// Handler is the same engine behind any HTTP/1.1 server, for tests. It takes
// every connection over at its first request.
func (e *Engine) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		hj, ok := w.(http.Hijacker)
		if !ok {
			http.Error(w, "the simulator needs an HTTP/1.1 connection of its own", http.StatusHTTPVersionNotSupported)
			return
		}
		c := &conn{}
		body, err := c.readBody(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		nc, rw, err := hj.Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = nc.SetDeadline(time.Time{})
		e.serve(newConn(e, nc, rw.Reader), req, body)
	})
}

// serve runs one connection to its end, in the caller's goroutine. A request
// that was read before the connection came here is answered first.
func (e *Engine) serve(c *conn, first *http.Request, body []byte) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		c.nc.Close()
		return
	}
	e.conns[c.nc] = struct{}{}
	e.work.Add(1)
	e.mu.Unlock()
	defer func() {
		c.leave()
		e.mu.Lock()
		delete(e.conns, c.nc)
		e.mu.Unlock()
		e.work.Done()
	}()
	if first != nil && !c.respond(first, body) {
		return
	}
	c.serve()
}

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// Close ends all connections and the pacer, and completes the truth.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.quit)
	for nc := range e.conns {
		nc.Close()
	}
	e.mu.Unlock()
	e.pacer.close()
	e.work.Wait()
	err := e.pacer.bell.close()
	if e.truth != nil {
		if terr := e.truth.close(); terr != nil {
			err = fmt.Errorf("simulate: write the truth: %w", terr)
		}
	}
	return err
}

// leak keeps n bytes for good, and touches them so that they are resident.
func (e *Engine) leak(n int) {
	if n == 0 {
		return
	}
	b := make([]byte, n)
	for i := 0; i < n; i += 1024 {
		b[i] = byte(rand.Uint32() | 1)
	}
	e.mu.Lock()
	e.kept = append(e.kept, b)
	e.mu.Unlock()
}
