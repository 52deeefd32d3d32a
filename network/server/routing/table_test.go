package routing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// registry is a store in memory.
type registry struct {
	mu        sync.Mutex
	routes    []store.Route
	summaries map[string]json.RawMessage
	asked     int // for summaries
	policy    string
	version   int64
	err       error
}

func (r *registry) Routes(context.Context) ([]store.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]store.Route(nil), r.routes...), r.err
}

func (r *registry) Summaries(_ context.Context, ids []string) (map[string]json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]json.RawMessage{}
	for _, id := range ids {
		r.asked++
		if b, ok := r.summaries[id]; ok {
			out[id] = b
		}
	}
	return out, r.err
}

func (r *registry) PolicyVersion(context.Context) (int64, error) { return r.version, r.err }

func (r *registry) Policy(context.Context, int64) (store.Policy, error) {
	return store.Policy{Version: r.version, Bytes: []byte(r.policy)}, r.err
}

func id(n int) string { return fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G%04d", n) }

// facts are a state as the registry has it.
func facts(a control.Admission, change ...func(*control.Node)) store.Facts {
	n := control.Node{Facts: control.Facts{Admission: a, Intent: control.Serve, Contact: control.Seen}, Member: a != control.Pending, Version: 1}
	for _, c := range change {
		c(&n)
	}
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return store.Facts{Admission: string(n.Admission), Intent: string(n.Intent), Contact: string(n.Contact), Version: n.Version, State: b}
}

func route(n int, f store.Facts) store.Route {
	return store.Route{ID: id(n), Node: id(1000 + n), Replica: "default", Owner: "o", Model: "m", Engine: "vllm", ServingURL: fmt.Sprintf("http://10.0.0.%d:8000", n), NodeFacts: f, ReplicaFacts: facts(control.Admitted)}
}

func summary(tokens float64) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"figures":{"load":"closed","at":4,"output_tokens_per_second":%g},"performance":{"output_tokens_per_second":%g,"ttft_p99_ms":100}}`, tokens, tokens))
}

func TestTable(t *testing.T) {
	now := time.Now()
	half := 0.5
	r := &registry{summaries: map[string]json.RawMessage{"r1": summary(1000), "r2": summary(500), "r7": json.RawMessage(`{"figures":7}`)}}
	one, two := route(1, facts(control.Admitted)), route(2, facts(control.Admitted))
	one.LastReport, two.LastReport = "r1", "r2"
	seven := route(7, facts(control.Admitted))
	seven.LastReport = "r7"
	bad := route(4, facts(control.Admitted))
	bad.ServingURL = "http://10.0.0.4;shutdown:80"
	odd := route(5, store.Facts{Admission: "admitted", Intent: "serve", Contact: "seen", Version: 3, State: json.RawMessage(`{"admission":"new"}`)})
	undecided := route(11, facts(control.Admitted)) // nothing was measured of this replica yet
	undecided.ReplicaFacts = store.Facts{Admission: "pending", Intent: "serve", Contact: "seen", State: json.RawMessage("{}")}
	deaf := route(12, facts(control.Admitted))
	deaf.EngineDown = true
	replica := route(6, facts(control.Admitted))
	replica.ReplicaFacts = facts(control.Quarantined, func(n *control.Node) { n.Quarantine = &control.Quarantine{Cause: control.CauseHard} })
	r.routes = []store.Route{one, two, route(3, facts(control.Quarantined)), bad, odd, replica, seven, route(8, facts(control.Pending)),
		route(9, facts(control.Admitted, func(n *control.Node) { n.Contact = control.Silent })),
		route(10, facts(control.Admitted, func(n *control.Node) { n.ReadmissionStep = 1 })), undecided, deaf}
	table := NewTable(r, Options{Now: func() time.Time { return now }, Keep: 10 * time.Second})
	if _, ok := table.Answer(id(1)); ok {
		t.Error("there was an answer before anything was read")
	}
	if _, err := table.Targets(); !errors.Is(err, ErrStale) {
		t.Errorf("before anything was read: %v", err)
	}
	refresh := func() {
		t.Helper()
		if err := table.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(answers map[int]string) {
		t.Helper()
		for n, want := range answers {
			if got, ok := table.Answer(id(n)); got != want || !ok {
				t.Errorf("replica %d: %q, %v; not %q", n, got, ok, want)
			}
		}
	}
	refresh()
	want(map[int]string{
		1: "ready up 100%\n", 2: "ready up 50%\n", 3: "drain\n", 4: "down\n", 5: "down\n", 6: "down\n", 7: "ready up 10%\n", 8: "down\n", 9: "down\n", 10: "ready up 2%\n", 11: "down\n", 12: "down\n",
		99: "down\n", // nobody knows it
	})
	asked := r.asked
	refresh()
	if r.asked != asked {
		t.Errorf("%d reports were read again", r.asked-asked)
	}

	// A replica's own report counts, and not another one's of its node.
	own := 0.25
	r.routes[0].ReplicaFacts = facts(control.Admitted, func(n *control.Node) { n.Version, n.Last = 2, &control.LastReport{Run: "r2", Lower: &own} })
	r.routes[1].ScoreLow = &half
	refresh()
	want(map[int]string{1: "ready up 50%\n", 2: "ready up 100%\n"})
	r.routes[0].ReplicaFacts, r.routes[1].ScoreLow = facts(control.Admitted), nil
	refresh()

	// A state is read again when its version is another one.
	r.routes[0].NodeFacts = facts(control.Degraded, func(n *control.Node) { n.Version = 2 })
	r.routes[1].ScoreLow = &half
	refresh()
	want(map[int]string{1: "ready up 13%\n", 2: "ready up 50%\n"}) // 1 has no score beside one that has

	// While the registry is away the answers hold for a while, and then there are none.
	r.err = errors.New("away")
	if err := table.Refresh(t.Context()); err == nil {
		t.Error("a registry that is away was read")
	}
	now = now.Add(10 * time.Second)
	want(map[int]string{1: "ready up 13%\n", 99: "down\n"})
	now = now.Add(time.Second)
	for _, n := range []int{1, 3, 99} {
		if line, ok := table.Answer(id(n)); ok {
			t.Errorf("replica %d: %q was answered though nothing is known", n, line)
		}
	}
	if _, err := table.Targets(); !errors.Is(err, ErrStale) {
		t.Errorf("a list that nobody knows: %v", err)
	}
	r.err = nil
	refresh()
	want(map[int]string{2: "ready up 50%\n"})
}

// Who cannot be reached from outside gets nothing, and neither does who has not passed
// what the policy requires; a proof is of one serving URL. Others are not weighed
// against them.
func TestTableKeepsToProofs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "control", "default-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{summaries: map[string]json.RawMessage{"r1": summary(1000), "r2": summary(500)}}
	gone, well, moved := route(1, facts(control.Admitted)), route(2, facts(control.Admitted)), route(3, facts(control.Admitted))
	gone.LastReport, well.LastReport, moved.LastReport = "r1", "r2", "r2"
	proof := func(verdict, url string) control.Proof {
		return control.Proof{Verdict: verdict, At: time.Now(), URL: url}
	}
	gone.Proofs = control.Proofs{"reach": proof("fail", gone.ServingURL)}
	well.Proofs = control.Proofs{"reach": proof("pass", well.ServingURL), "address": proof("pass", well.ServingURL)}
	moved.Proofs = control.Proofs{"reach": proof("pass", "http://10.9.9.9:1"), "address": proof("pass", "http://10.9.9.9:1")}
	r.routes = []store.Route{gone, well, moved}
	table := NewTable(r, Options{})
	want := func(answers ...string) {
		t.Helper()
		if err := table.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, want := range answers {
			if got, _ := table.Answer(id(i + 1)); got != want {
				t.Errorf("replica %d: %q, and not %q", i+1, got, want)
			}
		}
	}
	want("drain\n", "ready up 100%\n", "ready up 100%\n")
	r.version, r.policy = 1, strings.Replace(string(text), "require: []", "require: [reach, address]", 1)
	want("drain\n", "ready up 100%\n", "drain\n")
	all, err := table.Targets()
	if err != nil || all[1].Untrusted != "" || !strings.Contains(all[0].Untrusted, "could not be reached") || !strings.Contains(all[2].Why, "has not passed the check reach") {
		t.Errorf("%+v, %v", all, err)
	}
}

// How much a step of re-admission is worth is the policy's.
func TestTableReadsThePolicy(t *testing.T) {
	r := &registry{routes: []store.Route{route(1, facts(control.Admitted, func(n *control.Node) { n.ReadmissionStep = 1 }))}}
	text, err := os.ReadFile(filepath.Join("..", "..", "control", "default-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(r, Options{})
	for steps, want := range map[int64]string{1: "ready up 50%\n", 3: "ready up 25%\n"} {
		r.version, r.policy = steps, strings.Replace(string(text), "steps: 4", fmt.Sprintf("steps: %d", steps), 1)
		if err := table.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, _ := table.Answer(id(1)); got != want {
			t.Errorf("the first of %d steps: %q, and not %q", steps, got, want)
		}
	}
}
