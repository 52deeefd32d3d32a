package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// How long things of a measurement are waited for.
const (
	// askLife is how long a node whose turn it is may take to fetch its command:
	// after an outage an agent comes back within two minutes.
	askLife = 3 * time.Minute
	// deliverLife is how long a run may be on its way after its end.
	deliverLife = 15 * time.Minute
	// stopping is how long a node is waited for that was told to stop.
	stopping = time.Minute
)

// States of a node in a measurement.
const (
	measureWaiting    = string(api.MeasuredNodeStateWaiting)
	measureAsked      = string(api.MeasuredNodeStateAsked)
	measureRunning    = string(api.MeasuredNodeStateRunning)
	measureDelivering = string(api.MeasuredNodeStateDelivering)
	measureStopping   = string(api.MeasuredNodeStateStopping)
	measureMeasured   = string(api.MeasuredNodeStateMeasured)
	measureRefused    = string(api.MeasuredNodeStateRefused)
	measureFailed     = string(api.MeasuredNodeStateFailed)
	measureAway       = string(api.MeasuredNodeStateAway)
	measureLost       = string(api.MeasuredNodeStateLost)
	measureCancelled  = string(api.MeasuredNodeStateCancelled)
)

// measuring is one step of a measurement: a pure function of what is stored, the
// time, and since when nodes could be heard.
type measuring struct {
	now     time.Time
	heard   time.Time     // the server and its database are known to work since
	silence time.Duration // a node that was not heard for so long is lost
	newID   func() string

	step store.Step
}

// next is what is to be done; nothing is when no node changed.
func (s *measuring) next(m store.Measurement) store.Step {
	s.step = store.Step{Next: m}
	s.step.Next.Nodes = slices.Clone(m.Nodes)
	free := true // no node before this one is at work
	for i := range m.Nodes {
		n := &s.step.Next.Nodes[i]
		if !n.Ended.IsZero() {
			continue
		}
		before := *n
		switch {
		case n.State != measureWaiting:
			s.follow(m, n)
		case !m.Cancelled.IsZero():
			s.end(n, measureCancelled, "cancelled before it was asked")
		case !m.Start.IsZero() || free:
			s.ask(m, n)
		}
		if n.State != before.State || n.Cause != before.Cause {
			s.step.Changed = append(s.step.Changed, i)
		}
		free = free && !n.Ended.IsZero()
	}
	return s.step
}

func (s *measuring) end(n *store.MeasuredNode, state, cause string) {
	n.State, n.Cause, n.Ended = state, foreign.Line(cause, 500), s.now
}

// ask has a node measure.
func (s *measuring) ask(m store.Measurement, n *store.MeasuredNode) {
	expires := s.now.Add(askLife)
	order := api.MeasureOrder{Measurement: m.ID, Profile: &m.Profile, Scenario: &m.Scenario}
	if !m.Start.IsZero() {
		expires, order.Start = m.Start, &m.Start
		if !s.now.Before(m.Start) {
			s.end(n, measureFailed, "the server could not ask it before the load was to begin")
			return
		}
	}
	n.State, n.Asked, n.Command = measureAsked, s.now, s.newID()
	s.command(store.Command{ID: n.Command, Node: n.Node, Kind: string(api.CommandKindMeasure), Reason: "measurement " + m.ID, Expires: expires}, server.CommandParams{Measure: &order})
}

func (s *measuring) command(c store.Command, p server.CommandParams) {
	c.Created = s.now
	c.Params, _ = json.Marshal(p) // strings and times: there is nothing that could fail
	s.step.Commands = append(s.step.Commands, c)
}

// stop tells a node to end what it was asked for, and nothing else.
func (s *measuring) stop(m store.Measurement, n *store.MeasuredNode) {
	s.step.Withdraw = append(s.step.Withdraw, n.Command)
	s.command(store.Command{ID: s.newID(), Node: n.Node, Kind: string(api.CommandKindStop), Reason: "measurement " + m.ID, Expires: s.now.Add(stopLife)}, server.CommandParams{Stops: &n.Command})
}

// follow looks what became of a node that was asked.
func (s *measuring) follow(m store.Measurement, n *store.MeasuredNode) {
	c := n.Order
	if n.Started.IsZero() && !c.Acked.IsZero() {
		n.Started = c.Acked
	}
	switch {
	case n.Report != "" && n.Cause != "":
		s.end(n, measureFailed, n.Cause)
	case n.Report != "":
		s.end(n, measureMeasured, "")
	case !c.Ended.IsZero() && c.Outcome != string(api.AcknowledgementOutcomeDone):
		s.declined(m, n)
	case !m.Cancelled.IsZero() && n.State != measureStopping:
		s.stop(m, n)
		n.State = measureStopping
	case n.State == measureStopping:
		if !s.now.Before(m.Cancelled.Add(stopping)) {
			s.end(n, measureCancelled, "it was told to stop, and has not answered")
		}
	case !c.Ended.IsZero():
		if n.State = measureDelivering; !s.now.Before(c.Ended.Add(deliverLife)) {
			s.end(n, measureFailed, fmt.Sprintf("its run %s did not arrive within %s", foreign.Line(c.Run, 40), deliverLife))
		}
	case c.Acked.IsZero():
		if !s.now.Before(c.Expires) {
			s.end(n, measureAway, "it did not fetch the command until "+stamp(c.Expires)+"; "+lastSeen(n.LastSeen))
		}
	default:
		s.works(m, n)
	}
}

// works looks at a node that is measuring.
func (s *measuring) works(m store.Measurement, n *store.MeasuredNode) {
	n.State = measureRunning
	last := n.Started
	for _, t := range []time.Time{n.LastSeen, s.heard} { // nobody could be heard before
		if t.After(last) {
			last = t
		}
	}
	from := n.Started
	if m.Start.After(from) {
		from = m.Start
	}
	switch {
	case s.now.Sub(last) > s.silence:
		s.end(n, measureLost, "it began and was not heard of again; "+lastSeen(n.LastSeen))
	case s.now.Sub(from) > m.Timeout:
		s.stop(m, n)
		s.end(n, measureFailed, fmt.Sprintf("it took longer than %s, and was told to stop", m.Timeout))
	}
}

// declined ends a node that answered that there is no run.
func (s *measuring) declined(m store.Measurement, n *store.MeasuredNode) {
	state, cause := measureFailed, n.Order.Detail
	switch api.AcknowledgementOutcome(n.Order.Outcome) {
	case api.AcknowledgementOutcomeRefused:
		state = measureRefused
	case api.AcknowledgementOutcomeExpired:
		state = measureAway
	}
	if cause == "" {
		cause = "it answered: " + n.Order.Outcome
	}
	if !m.Cancelled.IsZero() {
		state = measureCancelled
	}
	s.end(n, state, cause)
}

// over says whether every node has ended.
func over(m store.Measurement) bool {
	return !slices.ContainsFunc(m.Nodes, func(n store.MeasuredNode) bool { return n.Ended.IsZero() })
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func lastSeen(t time.Time) string {
	if t.IsZero() {
		return "it was never heard"
	}
	return "its last heart-beat came at " + stamp(t)
}
