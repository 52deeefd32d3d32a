package haproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/api"
)

// router is a real HAProxy, and the agent that its slots ask.
type router struct {
	*testing.T
	dir, serve string
	keeper     *Keeper

	mu      sync.Mutex
	routes  []api.Route
	away    error
	answers map[string]string
	asked   map[string]int
}

// start runs an HAProxy by the example in deploy, with other addresses and an agent
// that answers what the test says.
func start(t *testing.T, slots int, inter string) *router {
	t.Helper()
	return startWith(t, slots, inter, (*router).agent)
}

// startWith is start with another agent.
func startWith(t *testing.T, slots int, inter string, agent func(*router, net.Listener)) *router {
	t.Helper()
	parttest.Install(t, "haproxy")
	dir, err := os.MkdirTemp("", "assay-haproxy") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	r := &router{T: t, dir: dir, serve: filepath.Join(parttest.Scripts(t), "haproxy-serve"), answers: map[string]string{}, asked: map[string]int{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go agent(r, ln)
	example, err := os.ReadFile(filepath.Join("..", "..", "deploy", "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	cfg := strings.NewReplacer(
		"/run/haproxy/admin.sock", r.socket(), "/var/lib/haproxy/server-state", r.state(), "/var/lib/haproxy/pins.map", filepath.Join(dir, "pins.map"), "bind :8080", "bind unix@"+filepath.Join(dir, "front.sock"),
		"agent-addr 192.0.2.10 agent-port 8701", "agent-addr 127.0.0.1 agent-port "+port, "agent-inter 10s", "agent-inter "+inter, "slot 1-100", fmt.Sprintf("slot 1-%d", slots),
	).Replace(string(example))
	if err := os.WriteFile(filepath.Join(dir, "haproxy.cfg"), []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pins.map"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	parttest.StopAtEnd(t, r.serve, dir)
	parttest.Run(t, nil, r.serve, "start", dir)
	r.keep()
	return r
}

func (r *router) socket() string { return filepath.Join(r.dir, "admin.sock") }
func (r *router) state() string  { return filepath.Join(r.dir, "state") }

// keep makes a keeper that knows what is in files only.
func (r *router) keep() {
	r.Helper()
	var err error
	r.keeper, err = New(Options{
		Socket: r.socket(), Backend: "llm", StateFile: r.state(), Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Log: slog.New(slog.NewTextHandler(&parttest.Buffer{}, nil)),
		Routes: func(context.Context) ([]api.Route, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.routes), r.away
		},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return nil, errors.New("nobody knows that name")
		},
	})
	if err != nil {
		r.Fatal(err)
	}
}

// agent answers as the server does: by what the slot sends.
func (r *router) agent(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			b := make([]byte, len(nobody))
			n, _ := c.Read(b)
			r.mu.Lock()
			answer := r.answers[string(b[:n])]
			r.asked[string(b[:n])]++
			r.mu.Unlock()
			if answer != "" {
				_, _ = c.Write([]byte(answer + "\n"))
			}
		}()
	}
}

func id(n int) string { return fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G%04d", n) }

// named sets what the server says: ids with their addresses.
func (r *router) named(routes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes = nil
	for i := 0; i+1 < len(routes); i += 2 {
		r.routes = append(r.routes, api.Route{Id: routes[i], ServingUrl: routes[i+1]})
	}
}

func (r *router) answer(pairs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i+1 < len(pairs); i += 2 {
		r.answers[pairs[i]] = pairs[i+1]
	}
}

func (r *router) pass() {
	r.Helper()
	if err := r.keeper.Pass(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// shown is the address, the state and the weight of each slot.
func (r *router) shown() string {
	r.Helper()
	text, err := r.keeper.runtime.ask(r.Context(), "show servers state llm")
	if err != nil {
		return err.Error()
	}
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 19 || f[0] == "#" {
			continue
		}
		state := "admin " + f[6]
		switch f[6] {
		case "0", "4":
			state = map[string]string{"0": "down", "2": "up"}[f[5]]
		case "1", "5":
			state = "off"
		case "8", "12":
			state = "drain"
		}
		out = append(out, fmt.Sprintf("%s:%s %s %s", f[4], f[18], state, f[7]))
	}
	return strings.Join(out, "; ")
}

// until waits for what the slots should be.
func (r *router) until(want string) {
	r.Helper()
	end := time.Now().Add(20 * time.Second)
	for got := r.shown(); got != want; got = r.shown() {
		if time.Now().After(end) {
			r.Fatalf("the slots are %s\nand not %s", got, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const unused = "192.0.2.1:1 off 100"

// A slot's whole life at a real HAProxy: reloads and restarts, with the server there
// and away, and slots that change hands.
func TestRealNetworkHAProxySlots(t *testing.T) {
	r := start(t, 3, "100ms")
	r.named(id(1), "http://127.0.0.1:9001", id(2), "http://127.0.0.1:9002/v1")
	r.answer(id(1), "ready up 75%", id(2), "drain")
	r.until(unused + "; " + unused + "; " + unused)
	r.pass()
	both := "127.0.0.1:9001 up 75; 127.0.0.1:9002 drain 100; " + unused
	r.until(both)
	r.answer(id(2), "ready up 40%")
	r.until("127.0.0.1:9001 up 75; 127.0.0.1:9002 up 40; " + unused)
	r.answer(id(2), "down")
	r.until("127.0.0.1:9001 up 75; 127.0.0.1:9002 down 40; " + unused)
	r.answer(id(2), "drain")
	r.until("127.0.0.1:9001 up 75; 127.0.0.1:9002 drain 40; " + unused) // and down
	r.answer(id(2), "ready up 40%")
	up := "127.0.0.1:9001 up 75; 127.0.0.1:9002 up 40; " + unused
	r.until(up)

	// Without an answer everything stays; also after a reload and after a restart, by
	// the state file, while neither server nor keeper is there.
	r.answer(id(1), "", id(2), "")
	r.pass()
	for _, how := range []string{"reload", "restart"} {
		before, _, err := r.keeper.runtime.observe(t.Context(), "llm")
		if err != nil {
			t.Fatal(err)
		}
		parttest.Run(t, nil, r.serve, how, r.dir)
		for now := before; now == before; time.Sleep(20 * time.Millisecond) {
			if p, _, err := r.keeper.runtime.observe(t.Context(), "llm"); err == nil {
				now = p
			}
		}
		time.Sleep(500 * time.Millisecond) // several checks
		r.until(up)
	}

	// A new keeper, and the server is away: what the file has is told to the new HAProxy.
	r.keep()
	r.away = errors.New("away")
	r.answer(id(1), "ready up 20%", id(2), "ready up 30%")
	if err := r.keeper.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("the server is away, and the pass says %v", err)
	}
	up = "127.0.0.1:9001 up 20; 127.0.0.1:9002 up 30; " + unused
	r.until(up)
	r.away = nil

	// Who is not named any more gets nothing, and its slot is another's next; that one
	// gets nothing before it is ready.
	r.answer(id(1), "", id(2), "ready up 30%", id(3), "")
	r.named(id(2), "http://127.0.0.1:9002", id(3), "http://127.0.0.1:9001")
	r.pass()
	r.until("127.0.0.1:9001 off 20; 127.0.0.1:9002 up 30; " + unused)
	r.answer(id(3), "ready up 10%")
	r.until("127.0.0.1:9001 up 10; 127.0.0.1:9002 up 30; " + unused)

	// Nothing that a node says becomes a command.
	hostile := []string{id(2), "http://127.0.0.1:9002", id(3), "http://127.0.0.1:9001"}
	for i, url := range []string{
		"http://127.0.0.1;shutdown frontend llm:80", "http://127.0.0.1\nset server llm/slot2 state maint", "http://127.0.0.1%0adisable server llm/slot2:80", "http://a b", "http://169.254.169.254", "http://10.0.0.1:80",
		"https://127.0.0.1:9009", "http://unknown.example",
	} {
		hostile = append(hostile, id(50+i), url)
	}
	hostile = append(hostile, "x;disable server llm/slot2", "http://127.0.0.1:9010", nobody, "http://127.0.0.1:9011")
	r.named(hostile...)
	if err := r.keeper.Pass(t.Context()); err == nil {
		t.Error("addresses that cannot be used were taken")
	}
	time.Sleep(300 * time.Millisecond)
	r.until("127.0.0.1:9001 up 10; 127.0.0.1:9002 up 30; " + unused)

	// More replicas than slots: those that have one keep it.
	r.named(id(9), "http://127.0.0.1:9109", id(8), "http://127.0.0.1:9108", id(2), "http://127.0.0.1:9002", id(3), "http://127.0.0.1:9001")
	r.answer(id(9), "ready up 100%")
	if err := r.keeper.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "1 replicas have no slot") {
		t.Errorf("a replica without a slot: %v", err)
	}
	r.until("127.0.0.1:9001 up 10; 127.0.0.1:9002 up 30; 127.0.0.1:9109 up 100")

	// A pass that finds everything as it should be says nothing to HAProxy.
	_, slots, err := r.keeper.runtime.observe(t.Context(), "llm")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slots {
		if commands, _ := r.keeper.commands(s); len(commands) > 0 {
			t.Errorf("%s is told again: %v", s.name, commands)
		}
	}
}
