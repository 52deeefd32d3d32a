package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// routed makes the default policy one by which a node goes and comes back in a
// minute, on a machine whose cores are shared.
var routed = strings.NewReplacer(
	"gpu: required", "gpu: none", "host: [host.client]", "host: []",
	"admit: 0.8", "admit: 0.5", "degrade: 0.7", "degrade: 0.4", "quarantine: 0.5", "quarantine: 0.35",
	"min_interval: 10m", "min_interval: 1s", "share: 0.1", "share: 0.5", "bad: 2", "bad: 1",
)

// routedAgent measures with as many streams while requests come as without, since
// figures of one load are compared.
const routedAgent = `
profile: short
scenario: short
workload_profiles:
  - {name: short, context_length: 64, expected_tokens: 8}
test_scenarios:
  - {name: short, pattern: parallel, duration: 13s, levels: [4]}
limits: {check_budget: 100%%, min_every: 1m}
schedule: {every: 6h, jitter: 1m, on_start: false}
check_budget: 100%%
busy: {concurrency: 4}
gpu: none
server: {spread: 1s}
engine: {base_url: "%[1]s", serving_url: "%[1]s/v1"%[2]s}
`

// front is an HAProxy in front of a network, with what keeps its slots.
type front struct {
	*life
	haproxy, serve string // directory and script
	url            string
	keeper         *exec.Cmd
	scraped        func() int // engines that Prometheus scrapes
}

// newFront starts a server that answers agent checks, an HAProxy by the example in
// deploy, and the keeper of its slots.
func newFront(t *testing.T) *front {
	t.Helper()
	parttest.Install(t, "haproxy")
	s := prepare(t)
	f := &front{life: &life{served: s}, serve: filepath.Join(parttest.Scripts(t), "haproxy-serve")}
	agent, at := freeAddress(t), freeAddress(t)
	s.args = []string{"--agent-check", agent, "--heartbeat", "1s"}
	s.start()
	t.Cleanup(func() { s.kill() })
	text := f.assay("server", "policy", "show")
	if err := os.WriteFile(f.path("policy.yaml"), []byte(routed.Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	f.assay("server", "policy", "apply", f.path("policy.yaml"))
	f.assay("server", "access", "create", "--name", "lb", "--role", "router", "--out", f.path("router"))

	var err error
	if f.haproxy, err = os.MkdirTemp("", "assay-haproxy"); err != nil { // a socket's path is short
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "deploy", "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(agent)
	cfg := strings.NewReplacer(
		"/run/haproxy/admin.sock", f.in("admin.sock"), "/var/lib/haproxy/server-state", f.in("state"), "/var/lib/haproxy/pins.map", f.in("pins.map"), "bind :8080", "bind "+at,
		"agent-addr 192.0.2.10 agent-port 8701", "agent-addr 127.0.0.1 agent-port "+port, "agent-inter 10s", "agent-inter 500ms",
		"slot 1-100", "slot 1-4", "balance leastconn", "balance roundrobin\n  http-response set-header X-Slot %s",
	).Replace(string(example))
	if err := os.WriteFile(f.in("haproxy.cfg"), []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.in("pins.map"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	parttest.StopAtEnd(t, f.serve, f.haproxy)
	f.url = "http://" + at
	f.control("start")
	f.keep()
	return f
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (f *front) in(name string) string { return filepath.Join(f.haproxy, name) }

// control starts, reloads or restarts HAProxy.
func (f *front) control(verb string) {
	f.t.Helper()
	parttest.Run(f.t, nil, f.serve, verb, f.haproxy)
}

// keep runs what keeps the slots, with a router's token.
func (f *front) keep() {
	f.t.Helper()
	f.keeper = f.program1("keeper.log", "server", "haproxy", "--socket", f.in("admin.sock"), "--backend", "llm", "--state-file", f.in("state"),
		"--server", f.served.url, "--token-file", f.path("router"), "--node-network", "127.0.0.0/8", "--every", "500ms")
}

// program1 starts the program until the test's end, and shows its log if that fails.
func (f *front) program1(log string, args ...string) *exec.Cmd {
	f.t.Helper()
	out, err := os.Create(f.path(log))
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(f.program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if f.t.Failed() {
			b, _ := os.ReadFile(f.path(log))
			f.t.Logf("%s:\n%s", log, b)
		}
	})
	return cmd
}

// node takes in a node with an engine at a URL, and waits until it can be approved.
func (f *front) nodeOf(engine, more string) {
	f.t.Helper()
	name := fmt.Sprintf("node%d", time.Now().UnixNano())
	f.assay("server", "token", "create", "--owner", "home", "--out", f.path(name+".enrol"))
	if err := os.WriteFile(f.path(name+".yaml"), fmt.Appendf(nil, routedAgent, engine, more), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.program1(name+".log", "agent", "--server", f.served.url, "--enrol-token-file", f.path(name+".enrol"), "--state", f.path(name), "--config", f.path(name+".yaml"))
}

// simulator starts an engine.
func (f *front) simulator() string {
	f.t.Helper()
	at := freeAddress(f.t)
	f.program1("engine"+strings.ReplaceAll(at, ":", "-")+".log", "simulate", "--listen", at, "--model", "simulated", "--itl", "10ms", "--ttft", "20ms")
	return "http://" + at
}

// routes is who gets requests, by serving URL.
func (f *front) routes() map[string]route {
	f.t.Helper()
	token, err := os.ReadFile(f.path("router"))
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), "GET", f.served.url+"/api/v1/route?all=true", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var all []route
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || resp.StatusCode != http.StatusOK {
		f.t.Fatalf("%s: %v", resp.Status, err)
	}
	out := map[string]route{}
	for _, r := range all {
		out[strings.TrimSuffix(r.URL, "/v1")] = r
	}
	return out
}

type route struct {
	ID, Node string
	URL      string `json:"serving_url"`
	Weight   int
	Rotation string
}

// slots is what HAProxy does with each address: up, down, drain or off, and its weight.
func (f *front) slots() map[string]string {
	f.t.Helper()
	c, err := net.Dial("unix", f.in("admin.sock"))
	if err != nil {
		return nil // it is being restarted
	}
	defer c.Close()
	_, _ = io.WriteString(c, "show servers state llm\n")
	out := map[string]string{}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		s := strings.Fields(lines.Text())
		if len(s) < 19 || s[0] == "#" {
			continue
		}
		state := map[string]string{"0": "down", "2": "up"}[s[5]]
		switch s[6] {
		case "1", "5":
			state = "off"
		case "8", "12":
			state = "drain"
		}
		out["http://"+s[4]+":"+s[18]] = state + " " + s[7]
	}
	return out
}

// becomes waits until HAProxy has a slot for an address in a state that begins so.
func (f *front) becomes(engine, want string) {
	f.t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for !strings.HasPrefix(f.slots()[engine], want) {
		if time.Now().After(end) {
			f.t.Fatalf("HAProxy has %s as %q, and not %q: %v", engine, f.slots()[engine], want, f.slots())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// traffic sends requests through HAProxy all the time, and knows what became of each.
type traffic struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	ok     []answered
	failed []failed
}

type answered struct {
	began time.Time
	slot  string
}

type failed struct {
	at  time.Time
	why string
}

func (f *front) traffic(model string, clients int) *traffic {
	ctx, stop := context.WithCancel(f.t.Context())
	tr := &traffic{stop: stop}
	body := fmt.Appendf(nil, `{"model":%q,"stream":true,"max_tokens":8,"messages":[{"role":"user","content":"one two three"}]}`, model)
	for range clients {
		tr.done.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				slot, err := send(ctx, f.url, body)
				if ctx.Err() != nil {
					return
				}
				tr.mu.Lock()
				if err != nil {
					tr.failed = append(tr.failed, failed{time.Now(), err.Error()})
				} else {
					tr.ok = append(tr.ok, answered{began, slot})
				}
				tr.mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	f.t.Cleanup(tr.end)
	return tr
}

func (tr *traffic) end() { tr.stop(); tr.done.Wait() }

// fresh makes a connection for each request, so that each meets HAProxy as it is.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send sends one request and reads its whole stream.
func send(ctx context.Context, url string, body []byte) (slot string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := fresh.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %.100s", resp.Status, b)
	case !bytes.Contains(b, []byte("data: [DONE]")):
		return "", fmt.Errorf("the stream ended early: %.100s", b)
	}
	return resp.Header.Get("X-Slot"), nil
}

// served counts those that began since then and were answered, by slot.
func (tr *traffic) served(since time.Time) (by map[string]int, all int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	by = map[string]int{}
	for _, a := range tr.ok {
		if a.began.After(since) {
			by[a.slot]++
			all++
		}
	}
	return by, all
}

// flows waits until n requests that begin from now on were answered, and counts them
// by slot.
func (tr *traffic) flows(t *testing.T, n int) map[string]int {
	t.Helper()
	since := time.Now()
	for end := since.Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		by, all := tr.served(since)
		if all >= n {
			return by
		}
		if time.Now().After(end) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			t.Fatalf("%d of %d requests were answered in a minute; %d failed, the last: %v", all, n, len(tr.failed), tr.failed[max(0, len(tr.failed)-1):])
		}
	}
}

// failures are those outside of times in which HAProxy was dead.
func (tr *traffic) failures(dead [][2]time.Time) (outside []failed, inside int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
next:
	for _, x := range tr.failed {
		for _, d := range dead {
			if !x.at.Before(d[0]) && !x.at.After(d[1]) {
				inside++
				continue next
			}
		}
		outside = append(outside, x)
	}
	return outside, inside
}

// slow tells a simulator how much slower it is from now on.
func (f *front) slow(engine string, by int) {
	f.t.Helper()
	resp, err := http.Post(fmt.Sprintf("%s/control/slow?by=%d", engine, by), "", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		f.t.Fatal(resp.Status)
	}
}

// A node whose engine slows down leaves HAProxy's rotation and comes back after a
// re-verification. Requests flow all the time, while HAProxy is reloaded, the server
// killed, and HAProxy restarted without it; only what was in HAProxy when that was
// killed is lost.
func TestRealNetworkHAProxyRotation(t *testing.T) {
	f := newFront(t)
	one, two := f.simulator(), f.simulator()
	f.nodeOf(one, "")
	f.nodeOf(two, "")
	f.approve(2)
	f.becomes(one, "up")
	f.becomes(two, "up")
	tr := f.traffic("simulated", 4)
	if by := tr.flows(t, 20); len(by) != 2 {
		t.Errorf("requests went to %v", by)
	}
	f.prometheus(2)

	// A reload loses nothing, and both stay in rotation.
	f.control("reload")
	f.becomes(one, "up")
	if by := tr.flows(t, 20); len(by) != 2 {
		t.Errorf("after a reload requests went to %v", by)
	}

	// The first gets ten times as slow as it was when it was let in, and is found out.
	first := f.routes()[one]
	f.slow(one, 10)
	f.assay("node", "check", first.Node, "--reason", "how is it now?")
	f.becomes(one, "drain")
	var dead [][2]time.Time
	onlySecond := func(when string) {
		t.Helper()
		if by := tr.flows(t, 20); len(by) != 1 {
			t.Errorf("%s requests went to %v", when, by)
		}
	}
	onlySecond("with one of two quarantined")

	// The server dies, and HAProxy is killed and started without it: it begins as it
	// ended.
	f.kill()
	began := time.Now()
	f.control("restart")
	dead = append(dead, [2]time.Time{began, time.Now().Add(100 * time.Millisecond)})
	f.becomes(one, "drain")
	f.becomes(two, "up")
	onlySecond("without a server")
	if n := f.scraped(); n != 2 {
		t.Errorf("without a server Prometheus scrapes %d engines: it should keep those it knows", n)
	}
	f.start()
	onlySecond("with the server back")

	// Repaired, it is verified again, and gets a part of what it had.
	f.slow(one, 1)
	f.assay("node", "readmit", first.Node, "--reason", "repaired")
	f.becomes(one, "up")
	if by := tr.flows(t, 40); len(by) != 2 {
		t.Errorf("after its return requests went to %v", by)
	}
	if r := f.routes()[one]; r.Weight < 1 || r.Weight > 20 || r.ID != first.ID {
		t.Errorf("after its return it is %+v: a first step of four is at most a fifth", r)
	}
	tr.end()
	outside, inside := tr.failures(dead)
	by, all := tr.served(time.Time{})
	t.Logf("%d requests answered, %v by slot; %d failed while HAProxy was dead, %d otherwise", all, by, inside, len(outside))
	for _, x := range outside {
		t.Errorf("a request failed at %s: %s", x.at.Format(time.TimeOnly), x.why)
	}
}

// approve approves so many nodes while their first check runs, so that what it
// measures is what they are compared with later.
func (f *front) approve(nodes int) {
	f.t.Helper()
	n := strconv.Itoa(nodes)
	f.assay("node", "list", "--state", "verifying", "--wait-for", n, "--timeout", "2m")
	ids := strings.Fields(f.assay("node", "list", "-q"))
	f.assay(append(append([]string{"node", "approve"}, ids...), "--reason", "the first of this network")...)
}

// A real vLLM behind HAProxy: it is admitted, answers through it, and a drain and
// its end at the server are HAProxy's too.
func TestRealNetworkHAProxyVLLM(t *testing.T) {
	engine := os.Getenv("ASSAY_VLLM_URL")
	if engine == "" {
		parttest.Need(t, "ASSAY_VLLM_URL is not set: no vLLM runs")
	}
	engine = strings.TrimSuffix(strings.TrimSuffix(engine, "/"), "/v1")
	f := newFront(t)
	f.nodeOf(engine, "")
	f.approve(1)
	id := strings.TrimSpace(f.assay("node", "list", "-q"))
	f.becomes(engine, "up 100")
	resp, err := fresh.Get(f.url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var models struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&models); err != nil || len(models.Data) == 0 {
		t.Fatalf("vLLM's models through HAProxy: %s, %v", resp.Status, err)
	}
	tr := f.traffic(models.Data[0].ID, 2)
	tr.flows(t, 20)
	tr.end()
	if outside, _ := tr.failures(nil); len(outside) > 0 {
		t.Errorf("%d requests failed: %v", len(outside), outside[0])
	}
	f.assay("node", "drain", id, "--reason", "a test")
	f.becomes(engine, "drain")
	f.assay("node", "undrain", id, "--reason", "a test")
	f.becomes(engine, "up 100")
	f.traffic(models.Data[0].ID, 1).flows(t, 2)
}
