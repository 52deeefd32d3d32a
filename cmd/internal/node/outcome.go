package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// What became of a decision about a node.
const (
	done      = "done"
	unchanged = "unchanged"
	refused   = "refused"
	untried   = "not tried"
)

// outcome is what became of a decision about one node.
type outcome struct {
	Node    string          `json:"node"`
	Outcome string          `json:"outcome"`
	Why     string          `json:"why"`
	After   *api.NodeDetail `json:"after,omitempty"` // absent where nothing was asked or all was refused

	name    string
	replica string
	err     error
}

// act asks for the same about each node. It goes on behind a refusal, and stops
// where the next one could only fail in the same way.
func act(ctx context.Context, c *remote.Client, body api.Action, nodes []api.NodeDetail) []outcome {
	out := make([]outcome, len(nodes))
	stopped := ""
	for i, before := range nodes {
		o := &out[i]
		*o = outcome{Node: before.Node.Id, name: name(before.Node), replica: deref(body.Replica)}
		if stopped != "" {
			o.Outcome, o.Why = untried, stopped
			continue
		}
		was := factsOf(before, o.replica)
		if why := already(body, was); why != "" {
			o.Outcome, o.Why, o.After = unchanged, why, &before
			continue
		}
		r, err := c.ActOnNodeWithResponse(ctx, before.Node.Id, body)
		switch {
		case err != nil:
			o.err = c.Answer(nil, nil, err)
			stopped = "the server did not answer about another node"
		default:
			o.err = c.Answer(r.HTTPResponse, r.Body, nil)
			if s := r.StatusCode(); o.err != nil && hopeless(s) {
				stopped = fmt.Sprintf("the server answered %d about another node", s)
			}
			if o.err == nil && r.JSON200 == nil {
				o.err = errors.New("the server's answer is no node")
			}
		}
		if o.err != nil {
			o.Outcome, o.Why = refused, foreign.Line(o.err.Error(), 2000)
			continue
		}
		o.After = r.JSON200
		o.Outcome, o.Why = changed(body.Action, was, factsOf(*r.JSON200, o.replica))
	}
	return out
}

// hopeless is a status that is not about one node.
func hopeless(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests || status >= 500
}

// facts are what decisions move.
type facts struct {
	state    api.Admission
	intent   api.Intent
	override string
}

func factsOf(d api.NodeDetail, replica string) facts {
	f := facts{state: d.Node.State, intent: d.Node.Intent, override: overrideOf(d.Override)}
	if r := replicaOf(d, replica); r != nil {
		f.state, f.intent = r.State, r.Intent
	}
	return f
}

// overrideOf is an override in words. The API has an admission for each of the two
// that there are.
func overrideOf(o *api.Override) string {
	if o == nil {
		return ""
	}
	kind := "keep"
	if o.State == api.AdmissionQuarantined {
		kind = "out"
	}
	_, by, _ := strings.Cut(o.Actor, ":")
	return fmt.Sprintf("%s until %s, by %s: %s", kind, o.Expires.UTC().Format(time.RFC3339), by, o.Reason)
}

// already says that nothing is left to decide; empty: the server has to be asked.
func already(body api.Action, f facts) string {
	over := f.intent == api.IntentRetired
	switch body.Action {
	case api.ActionActionDrain:
		over = body.Seconds == nil && (f.intent == api.IntentDraining || f.intent == api.IntentDrained)
	case api.ActionActionUndrain:
		over = f.intent == api.IntentServe
	case api.ActionActionRetire:
	default:
		over = false
	}
	if !over {
		return ""
	}
	if f.intent == api.IntentServe {
		return "it is not drained"
	}
	return fmt.Sprintf("it is %s already", f.intent)
}

// changed says what a decision did.
func changed(kind api.ActionAction, was, is facts) (result, why string) {
	var moved []string
	if was.state != is.state {
		moved = append(moved, fmt.Sprintf("%s → %s", was.state, is.state))
	}
	if was.intent != is.intent {
		moved = append(moved, fmt.Sprintf("%s → %s", was.intent, is.intent))
	}
	if was.override != is.override && is.override != "" {
		moved = append(moved, "override "+is.override)
	}
	serving := is.state == api.AdmissionAdmitted || is.state == api.AdmissionDegraded
	switch {
	case kind == api.ActionActionCheck:
		return done, "a verification is asked for"
	case kind == api.ActionActionStop:
		return done, "its agent is told to end its check"
	case len(moved) > 0:
		return done, strings.Join(moved, ", ")
	case kind == api.ActionActionApprove && serving:
		return unchanged, fmt.Sprintf("it is %s already; the approval is kept for its next verification", is.state)
	case kind == api.ActionActionApprove:
		return done, fmt.Sprintf("it is %s until a verification passes", is.state)
	case kind == api.ActionActionQuarantine:
		return unchanged, "it is quarantined already, and stays so until a person readmits it"
	case kind == api.ActionActionReadmit:
		return done, fmt.Sprintf("it stays %s until its reports are good; a verification is asked for", is.state)
	case was.override != is.override:
		return done, "it has no override any more"
	}
	return unchanged, fmt.Sprintf("it is %s, %s already", is.state, is.intent)
}

// tell prints what became of each node. What was not done is an error.
func tell(w io.Writer, asJSON bool, all []outcome) error {
	counts := map[string]int{}
	for _, o := range all {
		counts[o.Outcome]++
	}
	missed := counts[refused] + counts[untried]
	if asJSON {
		if err := cli.WriteJSON(w, all); err != nil {
			return err
		}
	} else if len(all) > 1 || missed == 0 {
		if err := tellText(w, all, counts); err != nil {
			return err
		}
	}
	switch {
	case missed == 0:
		return nil
	case len(all) == 1:
		return fmt.Errorf("node %s: %w", all[0].name, all[0].err)
	}
	return fmt.Errorf("%d of %d nodes were refused or not tried", missed, len(all))
}

func tellText(w io.Writer, all []outcome, counts map[string]int) error {
	var b strings.Builder
	for _, o := range all {
		word := o.Outcome
		if word == unchanged {
			word = "nothing changed"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", o.name, word, foreign.Line(o.Why, 2000))
	}
	if len(all) > 1 {
		var sum []string
		for _, word := range []string{done, unchanged, refused, untried} {
			if counts[word] > 0 {
				sum = append(sum, fmt.Sprintf("%d %s", counts[word], word))
			}
		}
		b.WriteString(strings.Join(sum, ", ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
