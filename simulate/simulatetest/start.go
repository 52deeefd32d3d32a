// Package simulatetest serves simulated engines to tests.
package simulatetest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/assay-bench/assay/simulate"
)

// Engine is an engine that is being served in this process.
type Engine struct {
	URL string
	// Stop ends it, as a crash does: connections are closed. It may be called more
	// than once, and is at the end of the test.
	Stop func()
}

// Start serves an engine on a free port of this machine.
func Start(tb testing.TB, c simulate.Config) Engine {
	tb.Helper()
	e, err := simulate.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, ln) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			tb.Errorf("the simulated engine: %v", err)
		}
		e.Close()
	})
	tb.Cleanup(stop)
	return Engine{"http://" + ln.Addr().String(), stop}
}
