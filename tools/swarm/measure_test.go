package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/network/api"
)

const measuredAgent = `
profile: short
scenario: short
workload_profiles:
  - {name: short, context_length: 64, expected_tokens: 8}
test_scenarios:
  - {name: short, pattern: parallel, duration: 6s, levels: [2]}
  - {name: long, pattern: parallel, duration: 10m, levels: [2]}
limits: {check_budget: 100%%, max_duration: 15m, scenarios: [%s]}
schedule: {every: 6h, jitter: 1m, on_start: false}
check_budget: 100%%
busy: {concurrency: 2}
gpu: none
server: {spread: 1s}
engine: {base_url: "http://%s"}
`

// measured is a network of several real nodes.
type measured struct {
	*front
	agents map[string]*exec.Cmd // by node
	schema *jsonschema.Schema
}

// node starts an engine and an agent that knows these scenarios, and gives its id.
func (n *measured) node(scenarios string) string {
	n.t.Helper()
	before := strings.Fields(n.assay("node", "list", "-q"))
	engine := freeAddress(n.t)
	name := fmt.Sprint("node", len(n.agents))
	n.program1(name+".engine.log", "simulate", "--listen", engine, "--like", "vllm")
	n.assay("server", "token", "create", "--owner", "home", "--out", n.path(name+".enrol"))
	if err := os.WriteFile(n.path(name+".yaml"), fmt.Appendf(nil, measuredAgent, scenarios, engine), 0o600); err != nil {
		n.t.Fatal(err)
	}
	agent := n.program1(name+".log", "agent", "--server", n.served.url, "--enrol-token-file", n.path(name+".enrol"), "--state", n.path(name), "--config", n.path(name+".yaml"))
	for _, id := range strings.Fields(n.assay("node", "list", "-q", "--wait-for", fmt.Sprint(len(before)+1))) {
		if !slices.Contains(before, id) {
			n.agents[id] = agent
			return id
		}
	}
	n.t.Fatal("no node was taken in")
	return ""
}

// begin starts a measurement.
func (n *measured) begin(args ...string) api.Measurement {
	n.t.Helper()
	return n.read(n.assay(append([]string{"node", "measure", "--detach", "--format", "json", "--reason", "a test"}, args...)...))
}

func (n *measured) read(text string) (m api.Measurement) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		n.t.Fatalf("%v: %s", err, text)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = n.schema.Validate(v)
	}
	if err != nil {
		n.t.Fatalf("%v: %s", err, text)
	}
	return m
}

// until waits until a measurement is as it should be, and gives the exit code of show.
func (n *measured) until(id, what string, is func(api.Measurement) bool) (m api.Measurement, code int) {
	n.t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		cmd := exec.Command(n.program, "node", "measurement", "show", id, "--format", "json", "--server", n.served.url, "--token-file", n.path("token"))
		out, _ := cmd.Output() // the server may be on its way back
		if len(out) > 0 {
			if m = n.read(string(out)); is(m) {
				return m, cmd.ProcessState.ExitCode()
			}
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s: it never came to pass: %+v", what, m)
		}
	}
}

func ended(m api.Measurement) bool { return m.Ended != nil }

func inState(m api.Measurement, node string) api.MeasuredNodeState {
	for _, x := range m.Nodes {
		if x.Node == node {
			return x.State
		}
	}
	return ""
}

// Four real nodes together, of which one dies, one refuses, and the server is killed
// while the others measure: every node is a row with its cause, and the sum is of the
// two that measured at once. Then two in turn, cancelled while the first measures.
func TestRealNetworkMeasurement(t *testing.T) {
	s := prepareOn(t, "sqlite:"+t.TempDir()+"/net.db")
	s.args = []string{"--heartbeat", "5s"}
	s.start()
	t.Cleanup(func() { s.kill() })
	n := &measured{front: &front{life: &life{served: s}}, agents: map[string]*exec.Cmd{}, schema: jsonschema.NewCompiler().MustCompile("../../docs/formats/schema/measurement.schema.json")}
	text := n.assay("server", "policy", "show")
	if err := os.WriteFile(n.path("policy.yaml"), []byte(strings.Replace(laptop.Replace(text), "heartbeat: 30s", "heartbeat: 5s", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	n.assay("server", "policy", "apply", n.path("policy.yaml"))
	a, b, dies, refuses := n.node("short, long"), n.node("short, long"), n.node("short"), n.node("quick")
	n.settle()
	states := n.assay("node", "list", "--format", "json")

	m := n.begin(a, b, dies, refuses, "--together", "--scenario", "short", "--profile", "short", "--start-in", "8s")
	n.until(m.Id, "three have begun", func(m api.Measurement) bool {
		return inState(m, a) == "running" && inState(m, b) == "running" && inState(m, dies) == "running" && inState(m, refuses) == "refused"
	})
	time.Sleep(time.Until(*m.Start) + time.Second)
	_ = n.agents[dies].Process.Kill()
	n.again()
	m, code := n.until(m.Id, "it has ended", ended)
	if inState(m, a) != "measured" || inState(m, b) != "measured" || inState(m, dies) != "lost" || inState(m, refuses) != "refused" || code != 2 {
		t.Fatalf("exit code %d: %+v", code, m.Nodes)
	}
	for _, x := range m.Nodes {
		if x.State != api.MeasuredNodeStateMeasured {
			if x.Cause == nil {
				t.Errorf("%s has no cause", x.Node)
			}
			continue
		}
		// How late depends on the machine; that the clock is known and nobody is early
		// does not.
		if x.Clock == nil || x.Clock.StartErrorSeconds == nil || *x.Clock.StartErrorSeconds < -*x.Clock.UncertaintySeconds {
			t.Errorf("%s began %+v", x.Node, x.Clock)
		}
	}
	if !slices.Equal(m.Result.Missing, []string{dies, refuses}) || len(m.Result.Stages) != 1 {
		t.Fatalf("%+v", m.Result)
	}
	joint := m.Result.Stages[0]
	sum, of := joint.OutputTokensPerSecond, 0.0
	for _, x := range m.Nodes {
		if x.Stages != nil {
			of += *(*x.Stages)[0].OutputTokensPerSecond.Value
		}
	}
	if joint.Nodes != 2 || joint.Streams != 4 || sum.Value == nil || sum.Low == nil || *sum.Value < of/2 || *sum.Value > 2*of || *joint.OverlapSeconds <= 0 {
		t.Errorf("%+v; of both: %g", joint, of)
	}
	t.Logf("together: %.0f tokens a second (%.0f to %.0f), %.2f s at once", *sum.Value, *sum.Low, *sum.High, *joint.OverlapSeconds)
	if now := n.assay("node", "list", "--format", "json"); len(now) == 0 || strings.Count(now, `"pending"`) != strings.Count(states, `"pending"`) {
		t.Errorf("a measurement decided about a node: %s, and before %s", now, states)
	}

	m = n.begin(a, b, "--in-turn", "--scenario", "long", "--profile", "short")
	n.until(m.Id, "the first measures", func(m api.Measurement) bool { return inState(m, a) == "running" })
	n.assay("node", "measurement", "cancel", m.Id)
	m, _ = n.until(m.Id, "it is cancelled", ended)
	if inState(m, a) != "cancelled" || inState(m, b) != "cancelled" || m.State != api.MeasurementStateCancelled {
		t.Errorf("%+v", m.Nodes)
	}
	if text := n.assay("node", "measurement", "list"); strings.Count(text, "a test") != 2 {
		t.Errorf("listed: %s", text)
	}
}

// settle waits until the checks that the server asks newcomers for are over: a
// measurement does not wait for them.
func (n *measured) settle() {
	n.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		text := n.assay("node", "list", "--format", "json")
		if strings.Count(text, "it waits for a person") == len(n.agents) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("the nodes are not verified: %s", text)
		}
	}
}
