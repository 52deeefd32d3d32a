package clitest

import (
	"context"
	"io"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// Server is a command that listens until it is stopped.
type Server struct {
	URL  string
	Said *parttest.Buffer // what it wrote so far
	// Stop tells the command to end, waits until it has, and gives its error. It
	// may be called more than once.
	Stop func() error
}

// address is what commands that listen print of it, for a person or in a log.
var address = regexp.MustCompile(`(?:listening on |url=)(https?://[^\s;"]+)[\s;"]`)

// listenWithin is how long a command may take until it listens.
const listenWithin = time.Minute

// Serve runs a command until it has printed where it listens. The command is
// stopped at the end of the test, if it is not before.
func Serve(t *testing.T, run func(ctx context.Context, out io.Writer) error) Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := Server{Said: new(parttest.Buffer)}
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = run(ctx, s.Said)
	}()
	s.Stop = sync.OnceValue(func() error {
		cancel()
		<-ended
		return err
	})
	t.Cleanup(func() { _ = s.Stop() }) // who wants to know has asked
	late := time.After(listenWithin)
	for s.URL == "" {
		if found := address.FindStringSubmatch(s.Said.String()); found != nil {
			s.URL = found[1]
			break
		}
		select {
		case <-ended:
			t.Fatalf("the command ended before it listened: %v\n%s", err, s.Said)
		case <-late:
			t.Fatalf("the command does not listen: %s", s.Said)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return s
}
