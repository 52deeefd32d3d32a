package routing

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// serve starts a listener and gives its address and its end.
func serve(t *testing.T, a *Agent) (address string, end func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, ln) }()
	return ln.Addr().String(), func() error { cancel(); return <-done }
}

// ask sends words and gives what comes back until the connection ends.
func ask(t *testing.T, address, words string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, words)
	b, _ := io.ReadAll(c) // a reset is an end too
	return string(b)
}

func table(t *testing.T, routes ...store.Route) *Table {
	t.Helper()
	table := NewTable(&registry{routes: routes}, Options{})
	if err := table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func TestAgent(t *testing.T) {
	defer goleak.VerifyNone(t)
	a := &Agent{Table: table(t, route(1, facts(control.Admitted)), route(2, facts(control.Quarantined))), Allow: loopback}
	address, end := serve(t, a)
	t.Run("answers", func(t *testing.T) { answers(t, address) })
	var p promtext.Page
	a.Metrics(&p)
	if page := string(p.Bytes()); !strings.Contains(page, `answer="drain"} 1`) || !strings.Contains(page, `answer="garbled"} 2`) {
		t.Error(page)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func answers(t *testing.T, address string) {
	for words, want := range map[string]string{
		id(1):                     "ready up 100%\n",
		id(1) + "\n":              "ready up 100%\n",
		id(2):                     "drain\n",
		id(3):                     "down\n",
		Nobody:                    "",
		strings.Repeat("x", 26):   "down\n",
		id(1) + " " + id(2):       "ready up 100%\n",
		"short":                   "", // and waits for the deadline
		strings.Repeat("\x00", 9): "",
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			if got := ask(t, address, words); got != want && !(got == "" && len(words) > IDLength+1) { // what was not read resets the connection
				t.Errorf("%q was answered with %q, and not %q", words, got, want)
			}
		})
	}
}

func TestAgentAnswersSomeAddresses(t *testing.T) {
	a := &Agent{Table: table(t, route(1, facts(control.Admitted))), Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	address, end := serve(t, a)
	if got := ask(t, address, id(1)); got != "" {
		t.Errorf("a stranger was answered with %q", got)
	}
	if err := end(); err != nil || a.refused.Load() != 1 {
		t.Errorf("%v, %d refused", err, a.refused.Load())
	}
}

// Who says nothing holds a connection for a moment only, and the others are answered.
func TestAgentIsNotHeldUp(t *testing.T) {
	a := &Agent{Table: table(t, route(1, facts(control.Admitted))), Allow: loopback}
	address, end := serve(t, a)
	var held []net.Conn
	for range maxAgents {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for a.busy.Load() == 0 { // one too many is closed at once
		if ask(t, address, id(1)) != "" {
			time.Sleep(10 * time.Millisecond)
		}
		if a.garbled.Load() > 0 {
			break // the first of them have gone already
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for ask(t, address, id(1)) == "" {
		if time.Now().After(deadline) {
			t.Fatal("nobody is answered any more")
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, c := range held {
		c.Close()
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
