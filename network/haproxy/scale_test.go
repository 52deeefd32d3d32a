package haproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/routing"
	"github.com/assay-bench/assay/network/store"
)

const manySlots = 1000

// registry is a network of many nodes in memory.
type registry []store.Route

func (r registry) Routes(context.Context) ([]store.Route, error) { return r, nil }
func (r registry) Summaries(context.Context, []string) (map[string]json.RawMessage, error) {
	return nil, nil
}
func (r registry) PolicyVersion(context.Context) (int64, error) { return 0, nil }
func (r registry) Policy(context.Context, int64) (store.Policy, error) {
	return store.Policy{}, nil
}

// What a thousand slots cost: HAProxy and the server's listener, asked ten times as
// often as in deploy/haproxy.cfg, so that little time shows much.
func TestRealNetworkScaleSlots(t *testing.T) {
	state, err := json.Marshal(control.Node{Facts: control.Facts{Admission: control.Admitted, Intent: control.Serve, Contact: control.Seen}, Member: true, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	facts := store.Facts{Admission: "admitted", Intent: "serve", Contact: "seen", Version: 1, State: state}
	var rows registry
	var routes []api.Route
	for i := range manySlots {
		url := fmt.Sprintf("http://127.0.%d.%d:8000", 1+i/250, 1+i%250)
		rows = append(rows, store.Route{
			ID: id(i), Node: id(i), Replica: "default", Owner: "o", Model: "m", ServingURL: url,
			NodeFacts: facts, ReplicaFacts: facts,
		})
		routes = append(routes, api.Route{Id: id(i), ServingUrl: url})
	}
	table := routing.NewTable(rows, routing.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go table.Run(ctx)
	agent := &routing.Agent{Table: table, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	r := startWith(t, manySlots, "1s", func(_ *router, ln net.Listener) { _ = agent.Serve(ctx, ln) })
	r.routes = routes

	began := time.Now()
	r.pass()
	first := time.Since(began)
	for end := time.Now().Add(time.Minute); strings.Count(r.shown(), " up ") < manySlots; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d slots are up", strings.Count(r.shown(), " up "), manySlots)
		}
	}
	began = time.Now()
	r.pass() // nothing is to be said
	again := time.Since(began)

	const span = 10 * time.Second
	ours, theirs := cpu(t, 0), r.workers()
	asked := answered(t, agent)
	began = time.Now()
	time.Sleep(span)
	took := time.Since(began)
	checks := answered(t, agent) - asked
	ours, theirs = cpu(t, 0)-ours, r.workers()-theirs
	if rate := checks / took.Seconds(); rate < manySlots/4 {
		t.Errorf("%.0f checks a second of %d slots that ask every second", rate, manySlots)
	}
	text := fmt.Sprintf("%d slots, %.0f checks a second: %.0f µs of a core a check here, %.0f in HAProxy; the first pass took %s, one without a change %s\n",
		manySlots, checks/took.Seconds(), 1e6*ours.Seconds()/checks, 1e6*theirs.Seconds()/checks, first.Round(time.Millisecond), again.Round(time.Millisecond))
	t.Log(text)
	if name := os.Getenv("FIGURES"); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString("routing: " + text)
		f.Close()
	}
}

// answered counts the checks that were told "ready".
func answered(t *testing.T, a *routing.Agent) float64 {
	t.Helper()
	var p promtext.Page
	a.Metrics(&p)
	_, rest, _ := strings.Cut(string(p.Bytes()), `answer="ready"} `)
	n, err := strconv.ParseFloat(strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// workers is the processor time of HAProxy's processes.
func (r *router) workers() time.Duration {
	r.Helper()
	p, _, err := r.keeper.runtime.observe(r.Context(), "llm")
	if err != nil {
		r.Fatal(err)
	}
	pid, _ := strconv.Atoi(p.pid)
	return cpu(r.T, pid)
}

// cpu is the processor time of a process; of this one for 0.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	if pid == 0 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		parttest.Need(t, "no /proc")
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // of a hundredth, as Linux shows it
}
