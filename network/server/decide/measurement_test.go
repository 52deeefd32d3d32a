package decide

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// campaign is a measurement over some nodes.
type campaign struct {
	*network
	id   string
	turn leasedTurn
}

func (n *network) campaign(m store.Measurement, nodes ...*node) *campaign {
	n.Helper()
	m.ID, m.Created, m.Reason, m.Timeout = newID(), n.clock.now(), "a test", time.Hour
	for _, x := range nodes {
		m.Nodes = append(m.Nodes, store.MeasuredNode{Node: x.id, State: measureWaiting})
	}
	if err := n.store.CreateMeasurement(n.Context(), everybody, m, store.Trail{}); err != nil {
		n.Fatal(err)
	}
	return &campaign{n, m.ID, n.d.measurements()}
}

// go1 takes a turn, as a process does that has nothing in memory.
func (c *campaign) go1() store.Measurement {
	c.Helper()
	if _, err := c.turn(c.Context(), store.Lease{}); err != nil {
		c.Fatal(err)
	}
	m, err := c.store.Measurement(c.Context(), everybody, c.id)
	if err != nil {
		c.Fatal(err)
	}
	return m
}

func states(m store.Measurement) string {
	var out []string
	for _, n := range m.Nodes {
		out = append(out, n.State)
	}
	return strings.Join(out, " ")
}

// command is what waits for a node.
func (m *node) command() (store.Command, server.CommandParams) {
	m.Helper()
	all, err := m.store.WaitingCommands(m.Context(), []string{m.id}, m.clock.now())
	if err != nil {
		m.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(c store.Command) bool { return c.Kind == "check" }) // it was taken in
	if len(all) != 1 {
		m.Fatalf("%d commands wait", len(all))
	}
	var p server.CommandParams
	if err := json.Unmarshal(all[0].Params, &p); err != nil {
		m.Fatal(err)
	}
	return all[0], p
}

func (m *node) answers(c store.Command, outcome api.AcknowledgementOutcome, detail string) {
	m.Helper()
	c.Outcome, c.Detail = string(outcome), detail
	if err := m.store.AckCommand(m.Context(), c, outcome != api.AcknowledgementOutcomeStarted, m.clock.now()); err != nil {
		m.Fatal(err)
	}
	if err := m.d.Acknowledged(m.Context(), m.id, c.ID, c.Outcome); err != nil {
		m.Fatal(err)
	}
}

// clocked is the check that says how the node's clock stands.
func clocked(offset, slack float64) []assay.Check {
	return []assay.Check{{Name: "host.clock", Verdict: assay.Pass, Evidence: "made up", Values: map[string]float64{"offset_seconds": offset, "uncertainty_seconds": slack}}}
}

func resultOf(t *testing.T, m store.Measurement) (out api.JointResult) {
	t.Helper()
	if err := json.Unmarshal(m.Result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Five nodes together: two measure, with clocks that differ by ten seconds; one
// refuses, one is away, one lies about when it measured. Each is a row with its
// cause; what is summed is what two did at once; and nothing is decided about anybody.
func TestMeasurementTogether(t *testing.T) {
	n := newNetwork(t, nil)
	a, b, refuses, away, liar := n.enrol(), n.enrol(), n.enrol(), n.enrol(), n.enrol()
	start := n.clock.now().Add(30 * time.Second).Truncate(time.Microsecond)
	c := n.campaign(store.Measurement{Mode: "together", Profile: "p", Scenario: "s", Start: start}, a, b, refuses, away, liar)
	if got := states(c.go1()); got != "asked asked asked asked asked" {
		t.Fatal(got)
	}
	before := a.row().Version
	measures := map[*node]store.Command{}
	for _, m := range []*node{a, b, liar} {
		cmd, p := m.command()
		if cmd.Kind != "measure" || p.Measure == nil || !p.Measure.Start.Equal(start) || *p.Measure.Profile != "p" || *p.Measure.Scenario != "s" || !cmd.Expires.Equal(start) {
			t.Fatalf("%+v %+v", cmd, p.Measure)
		}
		m.answers(cmd, api.AcknowledgementOutcomeStarted, "")
		measures[m] = cmd
	}
	cmd, _ := refuses.command()
	refuses.answers(cmd, api.AcknowledgementOutcomeRefused, "scenario s is not allowed here")
	if got := states(c.go1()); got != "running running refused asked running" {
		t.Fatal(got)
	}
	n.clock.pass(2 * time.Minute)
	for m, at := range map[*node]time.Time{a: start, b: start.Add(-10*time.Second + 100*time.Millisecond), liar: start.Add(-time.Hour)} {
		offset := 0.0
		if m == b {
			offset = 10
		}
		m.answers(measures[m], api.AcknowledgementOutcomeDone, "")
		m.judged(m.report(m.run(measurement{slow: 1, began: at, checks: clocked(offset, 0.02)}), func(r *store.Report) { r.Command = measures[m].ID }))
	}
	got := c.go1()
	if s := states(got); s != "measured measured refused away measured" || got.Ended.IsZero() {
		t.Fatalf("%s, ended %v", s, got.Ended)
	}
	if why := got.Nodes[3].Cause; !strings.Contains(why, "did not fetch") {
		t.Error(why)
	}
	all := resultOf(t, got)
	if all.Measured != 3 || !slices.Equal(all.Missing, []string{refuses.id, away.id}) || len(all.Stages) != 1 {
		t.Fatalf("%+v", all)
	}
	if e := all.Stages[0].OutputTokensPerSecond; e.Value != nil || !strings.Contains(*e.Why, liar.id) {
		t.Errorf("the sum has times that cannot be: %+v", e)
	}
	var figures server.MeasuredFigures
	if err := json.Unmarshal(got.Nodes[1].Figures, &figures); err != nil {
		t.Fatal(err)
	}
	if late := figures.Clock.StartErrorSeconds; late == nil || !(math.Abs(*late-0.1) <= 0.001) {
		t.Errorf("b began %v late", late)
	}
	if a.row().Version != before || a.row().Score != nil {
		t.Errorf("a measurement decided about a node: %+v", a.row())
	}
}

// Two nodes at once are the sum of both; two in turn are not, and the second is asked
// when the first has ended. A process that begins anew goes on from the rows.
func TestMeasurementSums(t *testing.T) {
	n := newNetwork(t, nil)
	a, b := n.enrol(), n.enrol()
	for _, mode := range []string{"together", "in_turn"} {
		var m store.Measurement
		m.Mode = mode
		start := n.clock.now().Add(30 * time.Second)
		if mode == "together" {
			m.Start = start
		}
		c := n.campaign(m, a, b)
		c.go1()
		commands := map[*node]store.Command{}
		ask := func(x *node) {
			commands[x], _ = x.command()
			x.answers(commands[x], api.AcknowledgementOutcomeStarted, "")
		}
		if mode == "together" {
			ask(a)
			ask(b)
			n.clock.pass(2 * time.Minute)
		}
		for i, x := range []*node{a, b} {
			c.turn = n.decider(nil).measurements()
			if mode == "in_turn" {
				if got := states(c.go1()); got != []string{"asked waiting", "measured asked"}[i] {
					t.Fatal(got)
				}
				ask(x)
				start = n.clock.now().Add(time.Second)
				n.clock.pass(time.Minute)
			}
			x.judged(x.report(x.run(measurement{slow: 1, began: start, checks: clocked(0, 0.01)}), func(r *store.Report) { r.Command = commands[x].ID }))
			c.go1()
		}
		got := c.go1()
		if states(got) != "measured measured" {
			t.Fatal(states(got))
		}
		var one server.MeasuredFigures
		if err := json.Unmarshal(got.Nodes[0].Figures, &one); err != nil {
			t.Fatal(err)
		}
		joint := resultOf(t, got).Stages[0]
		if joint.Nodes != 2 || joint.TtftMs.N != 2*one.Stages[0].TtftMs.N {
			t.Errorf("%s: %+v", mode, joint)
		}
		switch sum := joint.OutputTokensPerSecond; {
		case mode == "together" && (sum.Value == nil || !(math.Abs(*sum.Value/(2**one.Stages[0].OutputTokensPerSecond.Value)-1) <= 0.01) || sum.Low == nil):
			t.Errorf("the sum is %+v; one has %g", sum, *one.Stages[0].OutputTokensPerSecond.Value)
		case mode == "in_turn" && (sum.Value != nil || !strings.Contains(*sum.Why, "not measured at the same time")):
			t.Errorf("what was in turn was summed: %+v", sum)
		}
	}
	entries, err := n.store.Audit(t.Context(), everybody, "", store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	if k := slices.IndexFunc(entries, func(e store.AuditEntry) bool { return e.Action == "endMeasurement" && e.Outcome == "done" }); k < 0 {
		t.Error("the end left no audit entry")
	}
}

// One that is cancelled: who was not asked is not, who measures is told to stop that
// and nothing else, and what was measured stays.
func TestMeasurementCancelled(t *testing.T) {
	n := newNetwork(t, nil)
	a, b := n.enrol(), n.enrol()
	c := n.campaign(store.Measurement{Mode: "in_turn"}, a, b)
	c.go1()
	cmd, _ := a.command()
	a.answers(cmd, api.AcknowledgementOutcomeStarted, "")
	c.go1()
	if err := n.store.CancelMeasurement(t.Context(), everybody, c.id, n.clock.now(), store.Trail{}); err != nil {
		t.Fatal(err)
	}
	if got := states(c.go1()); got != "stopping cancelled" {
		t.Fatal(got)
	}
	stop, p := a.command()
	if stop.Kind != "stop" || p.Stops == nil || *p.Stops != cmd.ID {
		t.Errorf("%+v %+v", stop, p)
	}
	a.answers(cmd, api.AcknowledgementOutcomeFailed, "told to stop")
	got := c.go1()
	if states(got) != "cancelled cancelled" || got.Ended.IsZero() || len(resultOf(t, got).Missing) != 2 {
		t.Errorf("%s %s", states(got), got.Result)
	}
}

// What is waited for, and what not, as a pure function.
func TestMeasurementSteps(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	acked := store.Command{Acked: ago(time.Minute), Expires: ago(30 * time.Second)}
	ended := func(outcome string, when time.Time) store.Command {
		return store.Command{Acked: ago(time.Hour), Ended: when, Outcome: outcome, Detail: "because"}
	}
	for name, c := range map[string]struct {
		row       store.MeasuredNode
		heard     time.Time
		cancelled time.Time
		want      string
		commands  int
	}{
		"not fetched yet":         {row: store.MeasuredNode{State: "asked", Order: store.Command{Expires: now.Add(time.Second)}}, want: "asked"},
		"not fetched in time":     {row: store.MeasuredNode{State: "asked", Order: store.Command{Expires: now}}, want: "away"},
		"measures":                {row: store.MeasuredNode{State: "asked", Order: acked, LastSeen: ago(time.Second)}, want: "running"},
		"silent":                  {row: store.MeasuredNode{State: "running", Started: ago(10 * time.Minute), Order: acked, LastSeen: ago(2 * time.Minute)}, heard: ago(time.Hour), want: "lost"},
		"silent, and so were we":  {row: store.MeasuredNode{State: "running", Started: ago(10 * time.Minute), Order: acked, LastSeen: ago(2 * time.Minute)}, heard: ago(time.Second), want: "running"},
		"too long":                {row: store.MeasuredNode{State: "running", Started: ago(2 * time.Hour), Order: acked, LastSeen: now}, want: "failed", commands: 1},
		"failed":                  {row: store.MeasuredNode{State: "running", Order: ended("failed", ago(0))}, want: "failed"},
		"expired":                 {row: store.MeasuredNode{State: "asked", Order: ended("expired", ago(0))}, want: "away"},
		"done, on its way":        {row: store.MeasuredNode{State: "running", Order: ended("done", ago(time.Minute))}, want: "delivering"},
		"done, and never arrived": {row: store.MeasuredNode{State: "delivering", Order: ended("done", ago(time.Hour))}, want: "failed"},
		"arrived before it said":  {row: store.MeasuredNode{State: "running", Order: acked, Report: "r"}, want: "measured"},
		"arrived, and unusable":   {row: store.MeasuredNode{State: "running", Order: acked, Report: "r", Cause: "torn"}, want: "failed"},
		"cancelled, measured":     {row: store.MeasuredNode{State: "running", Order: acked, Report: "r"}, cancelled: now, want: "measured"},
		"cancelled":               {row: store.MeasuredNode{State: "running", Order: acked}, cancelled: now, want: "stopping", commands: 1},
		"cancelled, and stopped":  {row: store.MeasuredNode{State: "stopping", Order: ended("failed", ago(0))}, cancelled: ago(time.Second), want: "cancelled"},
		"cancelled, no answer":    {row: store.MeasuredNode{State: "stopping", Order: acked}, cancelled: ago(time.Hour), want: "cancelled"},
	} {
		c.row.Node, c.row.Command = "n", "c"
		s := measuring{now: now, heard: c.heard, silence: 90 * time.Second, newID: newID}
		st := s.next(store.Measurement{ID: "m", Mode: "in_turn", Timeout: time.Hour, Cancelled: c.cancelled, Nodes: []store.MeasuredNode{c.row}})
		got := st.Next.Nodes[0]
		if isEnd := !got.Ended.IsZero(); got.State != c.want || isEnd != !slices.Contains([]string{"asked", "running", "delivering", "stopping"}, c.want) || len(st.Commands) != c.commands {
			t.Errorf("%s: %s (%s), ended %v, %d commands", name, got.State, got.Cause, isEnd, len(st.Commands))
		}
		if !got.Ended.IsZero() && got.State != "measured" && got.Cause == "" {
			t.Errorf("%s: ended as %s without a cause", name, got.State)
		}
	}
	late := measuring{now: now, newID: newID}
	st := late.next(store.Measurement{Start: now, Nodes: []store.MeasuredNode{{State: "waiting"}}})
	if got := st.Next.Nodes[0]; got.State != "failed" || len(st.Commands) != 0 {
		t.Errorf("asked after the start: %+v", got)
	}
}
