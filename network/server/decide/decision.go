package decide

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

// dueTick is the kind of timers that call for a tick.
const dueTick = "tick"

// stopLife is how long a command to stop waits for its agent.
const stopLife = 10 * time.Minute

// decision is an outcome as it is stored: with signed statements, commands and
// messages.
func (d *Decider) decision(ctx context.Context, h Happening, s state, out *control.Outcome, now time.Time) (store.Decision, error) {
	commands := d.commands(out, h.Node, now)
	accept, why, err := d.accepted(ctx, h, out, now)
	if err != nil {
		return store.Decision{}, err
	}
	if why != "" {
		out.Node.Reasons = append(slices.Clone(out.Node.Reasons), "the approval made no baseline: "+why+"; the next report that has figures and passes makes it")
	}
	next, err := factsOf(h, out.Node)
	if err != nil {
		return store.Decision{}, err
	}
	event, err := json.Marshal(h.Event)
	if err != nil {
		return store.Decision{}, err
	}
	dec := store.Decision{
		ID: d.newID(now), At: now, Node: h.Node, Replica: h.Replica, From: s.row.Version, Next: next, BreakerFrom: s.from,
		Report: h.Report, Event: event, Actor: d.actor(h, h.Event.Actor), Why: foreign.Line(out.Why, 500), Baseline: h.Baseline,
		Commands: commands, Accept: accept,
	}
	dec.Due = []store.Due{{Kind: dueTick, Subject: subjectOf(h.Node, h.Replica), At: d.dueOf(h, s.policy, out.Node, now)}}
	for i := range out.Transitions {
		t, err := d.transition(ctx, h, out.Transitions[i], &dec, now)
		if err != nil {
			return store.Decision{}, err
		}
		dec.Transitions = append(dec.Transitions, t)
	}
	if h.Report != nil && len(dec.Transitions) > 0 {
		dec.Cites = []string{h.Report.ID}
	}
	dec.Trail, err = d.trail(h, s, dec.Transitions, out.Notices, now)
	return dec, err
}

func factsOf(h Happening, n control.Node) (store.Facts, error) {
	b, err := json.Marshal(n)
	f := store.Facts{
		Admission: string(n.Admission), Intent: string(n.Intent), Contact: string(n.Contact),
		Version: n.Version, PolicyVersion: n.PolicyVersion, State: b, Reasons: n.Reasons,
	}
	if n.WaitsForPerson() {
		f.Reasons = append([]string{"it waits for a person: " + approveCommand(h)}, f.Reasons...)
	}
	return f, err
}

// approveCommand is what a person types to let a newcomer in.
func approveCommand(h Happening) string {
	of := ""
	if h.Replica != "" {
		of = " --replica " + strconv.Quote(foreign.Line(h.Replica, 100))
	}
	return "assay node approve " + h.Node + of + " --reason WHY"
}

// commands are what the agent is asked for. Control numbers its own; the table and
// the agent know ULIDs, and the node's state names the one that its answer carries.
func (d *Decider) commands(out *control.Outcome, node string, now time.Time) []store.Command {
	var rows []store.Command
	for _, c := range out.Commands {
		row := store.Command{ID: d.newID(now), Node: node, Reason: c.Why, Created: now, Expires: c.Expires}
		switch c.Kind {
		case control.CommandVerify:
			row.Kind = "check"
			if v := out.Node.Verification; v != nil && v.ID == c.ID {
				v.ID = row.ID
			}
		case control.CommandRetire:
			row.Kind, row.Expires = "stop", now.Add(stopLife)
		default:
			continue // a heart-beat's answer tells the agent what is intended
		}
		rows = append(rows, row)
	}
	return rows
}

// transition makes the signed statement about a fact that changed.
func (d *Decider) transition(ctx context.Context, h Happening, t control.Transition, dec *store.Decision, now time.Time) (store.Transition, error) {
	id := d.newID(now)
	parsed, err := ulid.ParseStrict(id)
	if err != nil {
		return store.Transition{}, err
	}
	row := store.Transition{
		ID: id, At: now, Node: h.Node, Replica: h.Replica, Decision: dec.ID, Fact: string(t.Fact), From: t.From, To: t.To,
		Event: string(t.Event), Actor: d.actor(h, t.Actor), Reasons: t.Reasons, Evidence: t.Evidence,
		PolicyVersion: t.PolicyVersion, NodeVersion: t.NodeVersion,
	}
	evidence, err := d.evidence(ctx, h, t.Evidence)
	if err != nil {
		return store.Transition{}, err
	}
	rec, err := ledger.StateTransition(ctx, ledger.Transition{
		Stamp:  ledger.Stamp{ID: parsed, Node: h.Node, Time: now},
		Server: d.o.Origin, Replica: h.Replica, Fact: row.Fact, From: row.From, To: row.To, Reasons: row.Reasons,
		Actor: row.Actor, PolicyVersion: row.PolicyVersion, Version: row.NodeVersion,
	}, evidence, d.o.Signer)
	if err != nil {
		return store.Transition{}, err
	}
	row.Statement = rec.Value
	return row, nil
}

// evidence finds the hash of what a transition rests on: of a report, that of the
// envelope as it came. What is not here any more is left out.
func (d *Decider) evidence(ctx context.Context, h Happening, ids []string) (out []ledger.Evidence, err error) {
	for _, id := range ids {
		r, err := d.store.Report(ctx, everybody, h.Node, id)
		if err == nil {
			var rec store.Record
			if rec, err = d.store.Statement(ctx, everybody, h.Node, r.Statement); err == nil {
				out = append(out, ledger.Evidence{ID: id, SHA256: store.Hash(rec.Bytes)})
				continue
			}
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	return out, nil
}

// actor names who did something.
func (d *Decider) actor(h Happening, a control.Actor) string {
	switch {
	case a.Kind == control.ActorPerson && h.Actor != "":
		return h.Actor
	case a.Kind == control.ActorPerson || a.Kind == control.ActorNode:
		return string(a.Kind) + ":" + a.ID
	}
	return "server:" + d.o.Holder
}

// trail is what a decision leaves behind: audit entries, statements for the ledger,
// messages for people.
func (d *Decider) trail(h Happening, s state, ts []store.Transition, notices []control.Notice, now time.Time) (store.Trail, error) {
	t := store.Trail{Audit: slices.Clone(h.Audit)}
	if h.Anomaly != nil {
		t.Anomalies = []store.Anomaly{*h.Anomaly}
	}
	for _, tr := range ts {
		t.Outbox = append(t.Outbox, store.Record{ID: tr.ID, Topic: store.TopicLedger, Node: h.Node, Kind: string(ledger.KindEnvelope), Bytes: tr.Statement, Received: now})
		t.Audit = append(t.Audit, store.AuditEntry{
			ID: d.newID(now), At: now, Actor: tr.Actor, Action: "transition", Target: "node:" + h.Node, Node: h.Node, Owner: s.owner, Outcome: "done", Stated: true,
			Detail: foreign.Line(ofReplica(h)+tr.Fact+" "+tr.From+" → "+tr.To+": "+strings.Join(tr.Reasons, "; "), 500),
		})
		m := webhook.Message{Kind: "transition", Key: tr.Fact, Node: h.Node, Owner: s.owner, Text: ofReplica(h) + tr.Fact + " is " + tr.To, Transition: messageOf(tr)}
		if err := d.message(&t, m, now); err != nil {
			return t, err
		}
	}
	for _, n := range notices {
		m := webhook.Message{Kind: string(n.Kind), Key: n.Key, Resolved: n.Resolved, Text: n.Text, Node: h.Node, Owner: s.owner}
		switch {
		case n.Key == control.KeyBreaker:
			m.Node, m.Owner = "", ""
			if h.Replica != "" {
				m.Key, m.Text = n.Key+"/replicas", "of replicas: "+n.Text
			}
		case h.Replica != "":
			m.Key, m.Text = foreign.Line(n.Key+"/"+h.Replica, 150), foreign.Line(ofReplica(h)+n.Text, 400)
		}
		if err := d.message(&t, m, now); err != nil {
			return t, err
		}
	}
	return t, nil
}

// ofReplica names the replica that something is about; empty: the node itself.
func ofReplica(h Happening) string {
	if h.Replica == "" {
		return ""
	}
	return "replica " + foreign.Line(h.Replica, 100) + ": "
}

func messageOf(t store.Transition) *webhook.Transition {
	return &webhook.Transition{ID: t.ID, Replica: t.Replica, Fact: t.Fact, From: t.From, To: t.To, Reasons: t.Reasons, Actor: t.Actor, PolicyVersion: t.PolicyVersion}
}

// message adds a webhook, where its kind has somewhere to go. A note that resolves
// goes to whoever was told of the matter.
func (d *Decider) message(t *store.Trail, m webhook.Message, now time.Time) error {
	kinds := []string{m.Kind}
	if m.Kind == string(control.NoticeNote) {
		if kinds = nil; m.Resolved {
			kinds = []string{string(control.NoticePage), string(control.NoticeTicket), string(control.NoticeReset)}
		}
	}
	for _, kind := range kinds {
		if d.o.Webhooks[kind] == "" {
			continue
		}
		m.ID, m.Kind, m.Time, m.Server = d.newID(now), kind, now, d.o.Origin
		body, err := m.Encode()
		if err != nil {
			return err
		}
		t.Outbox = append(t.Outbox, store.Record{ID: m.ID, Topic: store.TopicWebhook, Node: m.Node, Kind: kind, Target: kind, Bytes: body, Received: now})
	}
	return nil
}
