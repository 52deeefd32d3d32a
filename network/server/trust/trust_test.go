package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/ask"
	"github.com/assay-bench/assay/network/server/egress"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
	"github.com/assay-bench/assay/telemetry"
)

// beat is how often the agents of tests tell their counters.
const beat = 600 * time.Millisecond

// network is a registry in memory with agents that read real counters.
type network struct {
	*testing.T
	mu       sync.Mutex
	routes   []store.Route
	counts   map[string]store.Count // by node
	points   map[string]store.Point
	findings map[string]store.Finding // by node and check: the last
	kinds    map[string]string
	told     map[string]int // by node
	policy   control.Policy
	lost     bool // the lease
}

func newNetwork(t *testing.T) *network {
	n := &network{T: t, counts: map[string]store.Count{}, points: map[string]store.Point{}, findings: map[string]store.Finding{}, kinds: map[string]string{}, told: map[string]int{}, policy: control.Default()}
	// Tests run on machines that others use: twice as slow is not yet slow.
	n.policy.Trust.Slower = 1
	return n
}

func (n *network) Routes(context.Context) ([]store.Route, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]store.Route(nil), n.routes...), nil
}

func (n *network) Counts(_ context.Context, nodes []string) (out []store.Count, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range nodes {
		if c, ok := n.counts[node]; ok {
			out = append(out, c)
		}
	}
	return out, nil
}

func (n *network) Points(_ context.Context, _ store.Scope, node string, _ time.Time) (out []store.Point, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := n.points[node]; ok {
		out = append(out, p)
	}
	return out, nil
}

func (n *network) Acquire(context.Context, string, string, time.Duration) (store.Lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost {
		return store.Lease{}, store.ErrLease
	}
	return store.Lease{}, nil
}

func (n *network) Policy(context.Context) (control.Policy, error) { return n.policy, nil }

func (n *network) Found(_ context.Context, f store.Finding, kind string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	f.At = time.Now()
	n.findings[f.Node+" "+f.Check], n.kinds[f.Check] = f, kind
	if n.told[f.Node]++; f.Check != CheckSpeed && f.Verdict == control.ProofPass {
		return nil
	}
	for i := range n.routes { // the session is over
		if n.routes[i].Node == f.Node {
			n.routes[i].Proofs = control.Proofs{control.CheckReach: {Verdict: f.Verdict, At: f.At, URL: f.ServingURL}, CheckAddress: {Verdict: control.ProofPass}}
		}
	}
	return nil
}

// member is a node: an engine, a URL that it says it serves at, and an agent.
type member struct {
	id, engine, url string
	claim           trend.Level
	// tell makes of what the engine counted what the agent says; nil: that.
	tell func(int64) int64
}

// level is what an engine with these times says of itself.
func level(ttft, itl time.Duration) trend.Level {
	return trend.Level{Streams: 64, Requests: 1, Tokens: 1e6, Values: map[string]float64{"ttft_p50": float64(ttft) / 1e6, "tpot_p50": float64(itl) / 1e6}}
}

// join takes a node in, and has its agent tell what its engine counts.
func (n *network) join(m member) {
	n.Helper()
	levels, err := json.Marshal([]trend.Level{m.claim})
	if err != nil {
		n.Fatal(err)
	}
	facts := store.Facts{Admission: "admitted", Intent: "serve", Contact: "seen"}
	n.mu.Lock()
	n.routes = append(n.routes, store.Route{ID: "replica of " + m.id, Node: m.id, Replica: "default", Model: "sim", ServingURL: m.url, NodeFacts: facts, ReplicaFacts: facts, Proofs: control.Proofs{}})
	n.points[m.id] = store.Point{Node: m.id, Model: "sim", Levels: levels}
	n.mu.Unlock()
	var source *telemetry.Engine
	if m.engine != "" {
		if source, err = telemetry.NewEngine(n.Context(), telemetry.EngineOptions{URL: m.engine, Timeout: 10 * time.Second}); err != nil {
			n.Fatal(err)
		}
	}
	tell := m.tell
	if tell == nil {
		tell = func(v int64) int64 { return v }
	}
	go func() {
		for n.Context().Err() == nil {
			at, tokens := time.Now(), int64(-1)
			if source != nil {
				tokens = counter(m.engine)
			}
			if tokens >= 0 || source == nil {
				n.mu.Lock()
				n.counts[m.id] = store.Count{Node: m.id, Replica: "default", Seen: at, At: at, Tokens: tell(tokens), Running: 0}
				n.mu.Unlock()
			}
			time.Sleep(beat)
		}
	}()
}

// counter reads an engine's page; -1: it did not answer.
func counter(engine string) int64 {
	r, err := http.Get(engine + "/metrics")
	if err != nil {
		return -1
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	for line := range strings.Lines(string(b)) {
		var v float64
		if name, value, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(name, "vllm:generation_tokens_total{") {
			if _, err := fmt.Sscan(value, &v); err == nil {
				return int64(v)
			}
		}
	}
	return -1
}

// look runs a prober until each node was told of so often.
func (n *network) look(way ask.Way, times int) *Prober {
	n.Helper()
	if way.Client == nil {
		way.Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	p, err := New(Options{Store: n, Decider: n, Way: way, Holder: "test", Heartbeat: beat, Requests: 128})
	if err != nil {
		n.Fatal(err)
	}
	ctx, stop := context.WithTimeout(n.Context(), 5*time.Minute)
	defer stop()
	p.next = map[string]time.Time{}
	for _, r := range n.routes { // at once
		p.next[r.ID+" "+r.ServingURL+" "+time.Time{}.String()] = time.Now()
	}
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	for ctx.Err() == nil && !n.allTold(times) {
		time.Sleep(50 * time.Millisecond)
	}
	if ctx.Err() != nil {
		n.Errorf("after five minutes: %v", n.told)
	}
	stop()
	<-done
	return p
}

func (n *network) allTold(times int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.routes {
		if n.told[r.Node] < times && n.findings[r.Node+" "+control.CheckReach].Verdict != control.ProofFail && n.findings[r.Node+" "+control.CheckReach].Verdict != control.ProofUnknown {
			return false
		}
	}
	return true
}

func (n *network) is(node, check, verdict string) store.Finding {
	n.Helper()
	f := n.findings[node+" "+check]
	if f.Verdict != verdict {
		n.Errorf("%s: the check %s is %q, and not %s: %s %v", node, check, f.Verdict, verdict, f.Text, f.Figures)
	}
	return f
}

func engine(t testing.TB, ttft, itl time.Duration) string {
	return simulatetest.Start(t, simulate.Config{Model: "sim", TTFT: ttft, ITL: itl}).URL
}

// serve serves a handler on a free port.
func serve(t testing.TB, h http.Handler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close() })
	return "http://" + ln.Addr().String()
}

// relay sends on what comes to it, after a wait.
func relay(t testing.TB, to string, wait func(*http.Request)) string {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval = -1
	p.ErrorLog = nil
	p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait(r)
		p.ServeHTTP(w, r)
	}))
}

func at(time.Duration) func(*http.Request) { return func(*http.Request) {} }

// Nodes that cheat are found, each by what it does; those beside them are not.
func TestCheatsAreFound(t *testing.T) {
	t.Parallel() // it waits
	n := newNetwork(t)
	fast, slow := 20*time.Millisecond, 2*time.Millisecond
	big, small := engine(t, fast, slow), engine(t, fast, slow)
	honest := engine(t, fast, slow)
	n.join(member{id: "honest", engine: honest, url: honest, claim: level(fast, slow)})
	n.join(member{id: "big", engine: big, url: big, claim: level(fast, slow)})
	// Its serving URL is another node's.
	n.join(member{id: "another's", engine: small, url: honest, claim: level(fast, slow)})
	// It relays to a bigger machine.
	n.join(member{id: "relay", engine: small, url: relay(t, big, at(0)), claim: level(fast, slow)})
	// Its counters are made up: they stand still, or move by themselves.
	own1, own2 := engine(t, fast, slow), engine(t, fast, slow)
	n.join(member{id: "constant", engine: own1, url: own1, claim: level(fast, slow), tell: func(int64) int64 { return 12345 }})
	var made atomic.Int64
	n.join(member{id: "moving", engine: own2, url: own2, claim: level(fast, slow), tell: func(int64) int64 { return made.Add(500) }})
	// It answers what is not a completion at once, and customers late: it cannot tell
	// probes from them.
	late := engine(t, fast, slow)
	n.join(member{id: "late", engine: late, claim: level(fast, slow), url: relay(t, late, func(r *http.Request) {
		if r.Method == http.MethodPost {
			time.Sleep(120 * time.Millisecond)
		}
	})})
	// It says that it is faster than it is.
	boast := engine(t, fast, 4*slow)
	n.join(member{id: "boast", engine: boast, url: boast, claim: level(fast, slow)})
	// It cannot be reached.
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	n.join(member{id: "gone", engine: honest, url: "http://" + gone.Addr().String(), claim: level(fast, slow)})
	// Its engine counts nothing.
	n.join(member{id: "silent", url: honest, claim: level(fast, slow)})

	p := n.look(ask.Way{}, 3)
	for _, node := range []string{"another's", "relay", "constant", "moving"} {
		n.is(node, CheckAddress, control.ProofFail)
	}
	for _, node := range []string{"big", "late", "boast"} {
		if f := n.findings[node+" "+CheckAddress]; f.Verdict == control.ProofFail {
			t.Errorf("%s: %s", node, f.Text)
		}
	}
	for _, node := range []string{"late", "boast"} {
		if f := n.is(node, CheckSpeed, control.ProofFail); !strings.Contains(f.Text, "slower from outside") {
			t.Errorf("%s: %s", node, f.Text)
		}
	}
	if f := n.findings["honest "+CheckAddress]; f.Verdict == control.ProofFail { // "another's" probes are in its counter too
		t.Errorf("the honest one is accused: %s", f.Text)
	}
	n.is("gone", control.CheckReach, control.ProofFail)
	if f := n.is("silent", CheckAddress, control.ProofUnknown); !strings.Contains(f.Text, "does not say") {
		t.Error(f.Text)
	}
	for check, kind := range map[string]string{CheckAddress: "address_false", CheckSpeed: "slower_outside", control.CheckReach: "unreachable"} {
		if n.kinds[check] != kind {
			t.Errorf("a failed %s is the anomaly %s", check, n.kinds[check])
		}
	}
	if *p.counts.tokens == 0 || p.counts.checks[[2]string{CheckAddress, "fail"}] != 4 {
		t.Errorf("counted %v", p.counts.checks)
	}
}

// Fifty honest nodes, some slow, some behind a bad network, some busy, some whose
// engine starts anew: none is accused of anything.
func TestFiftyHonestNodesAreNotAccused(t *testing.T) {
	t.Parallel() // it waits
	n := newNetwork(t)
	r := rand.New(rand.NewPCG(46, 50))
	for i := range 50 {
		ttft, itl := time.Duration(20+r.IntN(30))*time.Millisecond, time.Duration(2+r.IntN(4))*time.Millisecond
		kind := []string{"plain", "slow", "far", "busy", "restarts"}[i%5]
		if kind == "slow" {
			ttft, itl = 3*ttft, 4*itl
		}
		e := engine(t, ttft, itl)
		m := member{id: fmt.Sprintf("%s %d", kind, i), engine: e, url: e, claim: level(ttft, itl)}
		switch kind {
		case "far":
			delay := time.Duration(20+r.IntN(60)) * time.Millisecond
			m.url = relay(t, e, func(*http.Request) { time.Sleep(delay + time.Duration(rand.Int64N(int64(delay)))) })
		case "busy":
			go traffic(t.Context(), e, 1+i%3)
		case "restarts":
			var looks, base atomic.Int64
			m.tell = func(v int64) int64 {
				if looks.Add(1)%40 == 20 {
					base.Store(v)
				}
				return v - base.Load()
			}
		}
		n.join(m)
	}
	n.look(ask.Way{}, 3)
	verdicts := map[string]int{}
	for key, f := range n.findings {
		verdicts[f.Check+" "+f.Verdict]++
		if f.Verdict == control.ProofFail {
			t.Errorf("%s: %s %v", key, f.Text, f.Figures)
		}
	}
	if verdicts["reach pass"] != 50 || verdicts["address pass"] == 0 {
		t.Errorf("of fifty: %v", verdicts)
	}
	t.Logf("of fifty: %v", verdicts)
}

// traffic is what customers of an engine ask for.
func traffic(ctx context.Context, engine string, streams int) {
	w := ask.Way{Client: &http.Client{}}
	for range streams {
		go func() {
			for ctx.Err() == nil {
				_, _ = w.Complete(ctx, ask.Target{ServingURL: engine, Model: "sim"}, ask.Completion{Prompt: "x", MaxTokens: 1 + rand.IntN(40)})
				time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			}
		}()
	}
}

// Where nearly everybody is away at once it is us; and what is in no network that we
// may connect to is not known.
func TestCutOffAccusesNobody(t *testing.T) {
	t.Parallel() // it waits
	n := newNetwork(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	for i := range 5 {
		n.join(member{id: fmt.Sprint(i), url: "http://" + ln.Addr().String()})
	}
	n.look(ask.Way{}, 1)
	counts := map[string]int{}
	for _, f := range n.findings {
		counts[f.Verdict]++
	}
	if counts[control.ProofFail] > 1 || counts[control.ProofUnknown] < 4 {
		t.Errorf("%v", counts)
	}
	n = newNetwork(t)
	n.join(member{id: "private", url: "http://" + ln.Addr().String()})
	n.look(ask.Way{Client: egress.Client(&egress.Dialer{}, time.Second)}, 1)
	if f := n.is("private", control.CheckReach, control.ProofUnknown); !strings.Contains(f.Text, "--allow-network") {
		t.Error(f.Text)
	}
}

// The key of customers is not shown to who was only taken in: anybody names any address.
func TestKeyIsForAdmitted(t *testing.T) {
	n := newNetwork(t)
	p, err := New(Options{Store: n, Decider: n, Way: ask.Way{Client: http.DefaultClient, APIKey: "customers"}, Holder: "h", Heartbeat: 50 * time.Millisecond, Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, admission := range []string{"pending", "verifying", "quarantined", "re-verifying", "admitted", "degraded"} {
		var keys atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				keys.Add(1)
			}
		}))
		facts := store.Facts{Admission: admission, Intent: "serve", Contact: "seen"}
		p.look(t.Context(), store.Route{ID: admission, Node: admission, Replica: "default", ServingURL: s.URL, NodeFacts: facts, ReplicaFacts: store.Facts{Admission: "admitted", Intent: "serve", Contact: "seen"}}, n.policy)
		s.Close()
		if got, want := keys.Load() > 0, admission == "admitted" || admission == "degraded"; got != want {
			t.Errorf("%s: the key was sent: %v", admission, got)
		}
	}
}

// Nodes that were taken away, or that never answered, do not excuse one that is away;
// nor does a node with many replicas.
func TestAwayIsNotExcused(t *testing.T) {
	n := newNetwork(t)
	p, err := New(Options{Store: n, Decider: n, Way: ask.Way{Client: http.DefaultClient}, Holder: "h"})
	if err != nil {
		t.Fatal(err)
	}
	route := func(node string, replica int) store.Route {
		return store.Route{ID: fmt.Sprint(node, replica), Node: node, ServingURL: "http://10.0.0.1:80"}
	}
	note := func(r store.Route, reached bool) bool {
		return (&session{Prober: p, route: r, policy: n.policy}).note(reached)
	}
	var there []store.Route
	for i := range 10 {
		r := route(fmt.Sprint("good", i), 0)
		there = append(there, r)
		note(r, true)
	}
	for i := range 64 {
		if r := route("liar", i); !note(r, false) {
			t.Fatalf("the address %d of one node that never answered is taken for our fault", i)
		}
	}
	for i := range 20 {
		if r := route(fmt.Sprint("behind NAT ", i), 0); !note(r, false) {
			t.Fatalf("node %d that never answered is taken for our fault", i)
		}
	}
	for i := range 3 {
		r := route(fmt.Sprint("retired", i), 0)
		note(r, true)
		note(r, false)
	}
	p.forget(there)
	if !note(there[0], false) || !note(there[1], false) || !note(there[2], false) {
		t.Error("nodes that were taken away excuse others")
	}
	if note(there[3], false) {
		t.Error("four of ten away at once, and it is not our fault")
	}
	for _, r := range there {
		note(r, false)
	}
	if note(route("new", 0), false) {
		t.Error("nobody answers, and a newcomer is accused")
	}
}

// Sessions come at times that chance decides, sooner where something is not well, and
// not at all for those that are away.
func TestDue(t *testing.T) {
	n := newNetwork(t)
	p, err := New(Options{Store: n, Decider: n, Way: ask.Way{Client: http.DefaultClient}, Holder: "h"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	facts := store.Facts{Admission: "admitted", Intent: "serve", Contact: "seen"}
	const url = "http://10.0.0.1:80"
	route := func(i int, reach, address string) store.Route {
		r := store.Route{ID: fmt.Sprint(reach, address, i), Node: "n", ServingURL: url, NodeFacts: facts, ReplicaFacts: facts}
		if reach != "" {
			r.Proofs = control.Proofs{control.CheckReach: {Verdict: reach, At: now, URL: url}, CheckAddress: {Verdict: address, At: now, URL: url}}
		}
		return r
	}
	share := func(reach, address string, after time.Duration) float64 {
		due := 0
		for i := range 200 {
			r := route(i, reach, address)
			p.due(r, n.policy, now) // it is drawn
			if p.due(r, n.policy, now.Add(after)) {
				due++
			}
		}
		return float64(due) / 200
	}
	for _, c := range []struct {
		reach, address string
		after          time.Duration
		low, high      float64
	}{
		{"", "", 2 * time.Minute, 1, 1}, {"", "", 30 * time.Second, 0.2, 0.8},
		{"pass", "pass", 3*time.Hour - time.Minute, 0, 0}, {"pass", "pass", 6 * time.Hour, 1, 1}, {"pass", "pass", 270 * time.Minute, 0.3, 0.7},
		{"pass", "unknown", 90 * time.Minute, 1, 1}, {"fail", "", 4 * time.Minute, 0, 0}, {"fail", "", 5 * time.Minute, 1, 1},
	} {
		if got := share(c.reach, c.address, c.after); got < c.low || got > c.high {
			t.Errorf("reach %q, address %q: after %s %v are due", c.reach, c.address, c.after, got)
		}
	}
	for name, change := range map[string]func(*store.Route){
		"silent": func(r *store.Route) { r.NodeFacts.Contact = "silent" }, "its engine is down": func(r *store.Route) { r.EngineDown = true },
		"drained": func(r *store.Route) { r.NodeFacts.Intent = "drained" }, "no URL": func(r *store.Route) { r.ServingURL = "file:///x" },
	} {
		r := route(0, "", "")
		r.ID = name
		if change(&r); p.due(r, n.policy, now.Add(time.Hour)) {
			t.Errorf("%s: it is looked at", name)
		}
	}
	if admitted(store.Route{NodeFacts: facts, ReplicaFacts: store.Facts{Admission: "pending", Intent: "serve"}}) || !admitted(route(1, "pass", "pass")) {
		t.Error("who is in rotation")
	}
}

// What is looked at by a process that loses its lease is left to the next.
func TestLeaseLost(t *testing.T) {
	t.Parallel() // it waits
	n := newNetwork(t)
	e := engine(t, time.Millisecond, time.Millisecond)
	n.join(member{id: "a", engine: e, url: e, claim: level(1, 1)})
	p, err := New(Options{Store: n, Decider: n, Way: ask.Way{Client: http.DefaultClient}, Holder: "h", Heartbeat: beat})
	if err != nil {
		t.Fatal(err)
	}
	p.next[n.routes[0].ID+" "+e+" "+time.Time{}.String()] = time.Now()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	for len(p.sessions) == 0 {
		time.Sleep(time.Millisecond)
	}
	n.mu.Lock()
	n.lost = true
	n.mu.Unlock()
	for len(p.sessions) > 0 { // far sooner than the session would end
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if f, ok := n.findings["a "+CheckAddress]; ok {
		t.Errorf("found %+v", f)
	}
}

// A prober needs all of its parts.
func TestNewRefuses(t *testing.T) {
	n := newNetwork(t)
	good := Options{Store: n, Decider: n, Way: ask.Way{Client: http.DefaultClient}, Holder: "h"}
	for name, change := range map[string]func(*Options){
		"store": func(o *Options) { o.Store = nil }, "decider": func(o *Options) { o.Decider = nil }, "holder": func(o *Options) { o.Holder = "" },
		"client": func(o *Options) { o.Way.Client = nil }, "secret": func(o *Options) { o.Way.Router = "http://lb" },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("without %s it is made", name)
		}
	}
}
