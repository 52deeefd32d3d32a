package store

import (
	"encoding/json"
	"testing"
	"time"
)

func testMeasurements(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	ada, bob, at := enrolled(t, s, "ada"), enrolled(t, s, "bob"), now()
	hers, his := Scope{Owners: []string{"ada"}}, Scope{Owners: []string{"bob"}}
	made := func(nodes ...string) Measurement {
		m := Measurement{ID: id(), Created: at, By: "token:x", Reason: "why", Mode: "together", Profile: "p", Scenario: "s", Start: at.Add(time.Minute), Timeout: time.Hour}
		for _, n := range nodes {
			m.Nodes = append(m.Nodes, MeasuredNode{Node: n, State: "waiting"})
		}
		return m
	}
	m := made(bob, ada)
	want(t, s.CreateMeasurement(ctx, hers, m, Trail{}), ErrNotFound)
	must(t, s.CreateMeasurement(ctx, everybody, m, Trail{}))
	want(t, s.CreateMeasurement(ctx, hers, made(ada), Trail{}), ErrConflict)

	// Its result is of both, so that it is nobody's who does not see both.
	for _, scope := range []Scope{hers, his, {}} {
		equal(t, "listed", len(got[[]Measurement](t)(s.Measurements(ctx, scope, Page{}))), 0)
		_, err := s.Measurement(ctx, scope, m.ID)
		want(t, err, ErrNotFound)
		want(t, s.CancelMeasurement(ctx, scope, m.ID, at, Trail{}), ErrNotFound)
	}
	both := Scope{Owners: []string{"ada", "bob"}}
	equal(t, "of both", len(got[[]Measurement](t)(s.Measurements(ctx, both, Page{}))), 1)

	open := got[[]Measurement](t)(s.OpenMeasurements(ctx, 10))
	equal(t, "open", len(open), 1)
	equal(t, "order", []string{open[0].Nodes[0].Node, open[0].Nodes[1].Node}, []string{bob, ada})
	c := Command{ID: id(), Node: ada, Kind: "measure", Created: at, Expires: at.Add(time.Minute), Params: json.RawMessage(`{"stops":"x"}`)}
	step := Step{Next: open[0], Changed: []int{1}, Commands: []Command{c}}
	step.Next.Nodes[1].State, step.Next.Nodes[1].Command, step.Next.Nodes[1].Asked = "asked", c.ID, at
	must(t, s.StepMeasurement(ctx, step))
	want(t, s.StepMeasurement(ctx, step), ErrConflict) // somebody was first
	equal(t, "the command", got[[]Command](t)(s.WaitingCommands(ctx, []string{ada}, at)), []Command{c})

	found, row, err := s.MeasurementOf(ctx, ada, c.ID)
	must(t, err)
	equal(t, "of the command", []any{found, row.Asked, row.Ended.IsZero()}, []any{m.ID, at, true})
	for _, other := range [][2]string{{bob, c.ID}, {ada, ""}, {ada, id()}} {
		_, _, err := s.MeasurementOf(ctx, other[0], other[1])
		want(t, err, ErrNotFound)
	}
	must(t, s.KeepShare(ctx, m.ID, ada, "report", "", json.RawMessage(`{"run":"r"}`), json.RawMessage(`{"stages":[]}`)))
	want(t, s.KeepShare(ctx, m.ID, ada, "another", "", nil, nil), ErrConflict)

	open = got[[]Measurement](t)(s.OpenMeasurements(ctx, 10))
	equal(t, "share", []string{string(open[0].Nodes[1].Share), open[0].Nodes[1].Report}, []string{`{"stages":[]}`, "report"})
	must(t, s.CancelMeasurement(ctx, both, m.ID, at, Trail{}))
	want(t, s.CancelMeasurement(ctx, both, m.ID, at, Trail{}), ErrConflict)
	step = Step{Next: open[0], Changed: []int{0, 1}, Withdraw: []string{c.ID}}
	want(t, s.StepMeasurement(ctx, step), ErrConflict) // it was made before it was cancelled
	step.Next = got[[]Measurement](t)(s.OpenMeasurements(ctx, 10))[0]
	step.Next.Ended, step.Next.Result = at, json.RawMessage(`{"measured":1}`)
	for i := range step.Next.Nodes {
		step.Next.Nodes[i].State, step.Next.Nodes[i].Cause, step.Next.Nodes[i].Ended = "cancelled", "because", at
	}
	must(t, s.StepMeasurement(ctx, step))
	equal(t, "withdrawn", len(got[[]Command](t)(s.WaitingCommands(ctx, []string{ada}, at))), 0)
	equal(t, "open", len(got[[]Measurement](t)(s.OpenMeasurements(ctx, 10))), 0)
	ended := got[Measurement](t)(s.Measurement(ctx, both, m.ID))
	equal(t, "ended", []any{ended.Ended, string(ended.Result), ended.Nodes[0].Cause, string(ended.Nodes[1].Figures), string(ended.Nodes[1].Share)},
		[]any{at, `{"measured":1}`, "because", `{"run":"r"}`, "{}"})
	must(t, s.CreateMeasurement(ctx, hers, made(ada), Trail{})) // it is free again

	must(t, s.Retain(ctx, DefaultRetention(), at.AddDate(1, 0, 0)))
	equal(t, "kept: what has not ended", len(got[[]Measurement](t)(s.Measurements(ctx, everybody, Page{}))), 1)
}
