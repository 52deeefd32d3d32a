package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/api"
)

const stormFile = `
profile: short
scenario: short
workload_profiles:
  - {name: short, context_length: 64, expected_tokens: 16}
test_scenarios:
  - {name: short, pattern: parallel, duration: 2s, levels: [2]}
limits: {check_budget: 100%%, min_every: 1m}
schedule: {every: 1m, jitter: 1s, on_start: true}
check_budget: 100%%
gpu: none
server: {spread: 1s}
engine: {base_url: "%s"}
`

// storm is some real agents behind a bad network in front of a real server.
type storm struct {
	*life
	chance *rand.Rand
	proxy  *parttest.Proxy
	agents []*station
	watch  *watch
	admin  *api.Client
}

// The agents report through a network that changes at random, while they and the
// server are killed in the middle of uploads and the server is away for a while. At
// the end the server has each statement that was signed, once, and each file with
// its hash; no run was deleted before that was confirmed.
func TestRealNetworkStorm(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("ASSAY_STORM_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ASSAY_STORM_SEED=%d", seed)
	s := prepare(t)
	s.args = []string{"--heartbeat", "5s"}
	s.start()
	t.Cleanup(func() { s.kill() })
	w := &storm{life: &life{served: s}, chance: rand.New(rand.NewPCG(seed, 1)), proxy: parttest.StartProxy(t)}
	w.policy()
	w.enginesRuns("2ms")
	w.enter(3)
	for _, act := range w.chance.Perm(len(acts)) {
		w.rage(time.Second)
		t.Logf("%s: %s", time.Now().Format("15:04:05.000"), acts[act].name)
		acts[act].do(w)
	}
	for end := time.Now().Add(time.Minute); w.watch.signed() < wantRuns && time.Now().Before(end); {
		w.rage(time.Second)
	}
	w.proxy.Restore()
	w.settle()
	w.count()
}

// wantRuns are signed before the storm ends.
const wantRuns = 5

// acts are what happens besides the weather.
var acts = []struct {
	name string
	do   func(*storm)
}{
	{"agents are killed while they upload", func(w *storm) { w.uploading(); w.killAgents() }},
	{"the server is killed while agents upload", func(w *storm) { w.uploading(); w.kill(); w.start() }},
	{"the server is away", func(w *storm) { w.kill(); w.rage(4 * time.Second); w.start() }},
	{"all are killed while agents upload", func(w *storm) { w.uploading(); w.kill(); w.killAgents(); w.start() }},
}

// enter has agents taken in, by way of the proxy.
func (w *storm) enter(n int) {
	w.t.Helper()
	front := "http://" + w.proxy.Route("127.0.0.1:0", strings.TrimPrefix(w.url, "http://"))
	token, err := os.ReadFile(w.path("token"))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.admin, err = api.NewClient(w.url, api.WithRequestEditorFn(bearer(strings.TrimSpace(string(token))))); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path("storm.yaml"), fmt.Appendf(nil, stormFile, "http://"+w.at), 0o600); err != nil {
		w.t.Fatal(err)
	}
	var dirs []string
	for i := range n {
		a := &station{t: w.t, program: w.program, server: front, dir: w.path(fmt.Sprintf("agent%d", i)), config: w.path("storm.yaml")}
		w.assay("server", "token", "create", "--owner", "home", "--out", a.dir+".token")
		w.agents = append(w.agents, a)
		dirs = append(dirs, a.dir)
		a.start()
		w.t.Cleanup(a.close)
	}
	db, err := sql.Open("pgx", w.database)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { db.Close() })
	w.watch = watchRuns(w.t, db, dirs)
	w.assay("node", "list", "-q", "--wait-for", strconv.Itoa(n))
}

// rage lets the network be bad for a time, each half second in another way.
func (w *storm) rage(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(200+w.chance.IntN(400)) * time.Millisecond) {
		w.weather()
		w.ask()
	}
}

// weather makes the network bad in one way: toxiproxy's faults are not made to be
// piled up and taken away while connections come and go.
func (w *storm) weather() {
	w.t.Helper()
	w.proxy.Restore()
	switch w.chance.IntN(5) {
	case 0:
		w.proxy.Cut()
	case 1: // some time after the first byte
		w.proxy.Spoil("reset_peer", map[string]any{"timeout": w.chance.IntN(300)})
	case 2: // KB/s
		w.proxy.Spoil("bandwidth", map[string]any{"rate": 4 + w.chance.IntN(200)})
	case 3: // what is sent is lost, and then the connection
		w.proxy.Spoil("timeout", map[string]any{"timeout": 1 + w.chance.IntN(400)})
	case 4:
		w.proxy.Spoil("latency", map[string]any{"latency": 5 + w.chance.IntN(300), "jitter": w.chance.IntN(50)})
	}
}

// ask wants every node checked. The server may be away, or have asked already.
func (w *storm) ask() {
	for _, a := range w.agents {
		if node := a.node(); node != "" {
			if resp, err := w.admin.ActOnNode(w.t.Context(), node, api.Action{Action: api.ActionActionCheck, Reason: "a storm"}); err == nil {
				resp.Body.Close()
			}
		}
	}
}

// uploading waits until an object is on its way: then its bytes are in a file that
// has no name yet.
func (w *storm) uploading() {
	w.t.Helper()
	begun := time.Time{}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		entries, _ := os.ReadDir(filepath.Join(w.path("state"), "evidence"))
		if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return disk.Unfinished(e.Name()) }) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatal("nothing is uploaded")
		}
		if time.Since(begun) > 3*time.Second {
			w.rage(500 * time.Millisecond) // statements are delivered through it, too
			w.proxy.Restore()
			w.proxy.Spoil("bandwidth", map[string]any{"rate": 8})
			begun = time.Now()
		}
	}
}

// killAgents kills all agents that have something to upload, and starts them again.
func (w *storm) killAgents() {
	w.t.Helper()
	killed := 0
	for _, a := range w.agents {
		if strings.Contains(a.stages(), "taken") {
			a.kill()
			killed++
		}
	}
	if killed == 0 {
		w.t.Error("an object is uploaded, and no agent says that it uploads one")
	}
	for _, a := range w.agents {
		a.start()
	}
}

// settle waits until nothing waits any more.
func (w *storm) settle() {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		waiting := ""
		for _, a := range w.agents {
			waiting += a.stages()
		}
		if waiting == "" {
			break
		}
		if time.Now().After(end) {
			w.t.Fatalf("there are still runs that wait: %s", waiting)
		}
	}
	for _, a := range w.agents {
		a.kill()
	}
	w.watch.end()
}

// station is an agent as a process.
type station struct {
	t                            *testing.T
	program, server, dir, config string
	cmd                          *exec.Cmd
	deaths                       int
}

// start runs it, if it does not run.
func (a *station) start() {
	a.t.Helper()
	if a.cmd != nil {
		return
	}
	log, err := os.OpenFile(a.dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command(a.program, "agent", "--server", a.server, "--enrol-token-file", a.dir+".token", "--state", a.dir, "--config", a.config)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
}

// kill ends it at once, as kill -9 does.
func (a *station) kill() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	a.cmd = nil
	a.deaths++
}

func (a *station) close() {
	a.kill()
	if a.t.Failed() {
		b, _ := os.ReadFile(a.dir + ".log")
		a.t.Logf("%s:\n%s", filepath.Base(a.dir), b)
	}
}

// node is its id; empty: it is not enrolled yet.
func (a *station) node() string {
	var id struct{ Node string }
	readJSON(filepath.Join(a.dir, "node.json"), &id)
	return id.Node
}

// stages are how far its reports are, one word each. An agent that is measuring has
// nothing that waits.
func (a *station) stages() string {
	text := ""
	reports, _ := filepath.Glob(filepath.Join(a.dir, "reports", "*.json"))
	for _, file := range reports {
		var r struct{ Stage string }
		if readJSON(file, &r); r.Stage != "" {
			text += r.Stage + " "
		}
	}
	return text
}
