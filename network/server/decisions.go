package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// Decider carries out what follows from what the server hears.
type Decider interface {
	// Enrolled begins a node's life, and that of its replicas. It may be told more than
	// once.
	Enrolled(ctx context.Context, node string) error
	// Acknowledged is told what became of a command.
	Acknowledged(ctx context.Context, node, command, outcome string) error
	// Reported is told that there is a report to judge.
	Reported()
	// Act carries out what a person decided. [ErrRefused]: it does not fit the
	// node's state, and the message says why.
	Act(ctx context.Context, d Act) error
}

// Act is a person's decision about a node.
type Act struct {
	By     Principal
	Node   string
	Action api.Action
	Trail  store.Trail // that goes with it
}

// ErrRefused marks a decision that was not taken, with the reason.
var ErrRefused = errors.New("refused")

// Rules changes what nodes are judged by.
type Rules interface {
	// Test says what a policy would have decided in the last days.
	Test(ctx context.Context, p control.Policy, days int) (api.PolicyTest, error)
	// Reset lifts the breaker for a time, by a person's word.
	Reset(ctx context.Context, by Principal, lift time.Duration, t store.Trail) error
}

// enrolled has a node's life begun. What fails here is made good by the node's
// next heart-beat.
func (s *Server) enrolled(ctx context.Context, node string) {
	if s.o.Decider == nil {
		return
	}
	if err := s.o.Decider.Enrolled(ctx, node); err != nil {
		s.log.Error("could not begin a node's life", "node", node, "error", err)
	}
}

// ActOnNode carries out what a person decided about a node.
func (s *Server) ActOnNode(ctx context.Context, r api.ActOnNodeRequestObject) (api.ActOnNodeResponseObject, error) {
	if s.o.Decider == nil {
		return nil, refuse(http.StatusNotImplemented, "this server decides nothing")
	}
	requestOf(ctx).detail = string(r.Body.Action) + ": " + r.Body.Reason
	err := s.o.Decider.Act(ctx, Act{By: principalOf(ctx), Node: r.Node, Action: *r.Body, Trail: s.trail(ctx, "node:"+r.Node)})
	switch {
	case errors.Is(err, ErrRefused):
		return nil, refuse(http.StatusConflict, "%s", strings.TrimPrefix(err.Error(), ErrRefused.Error()+": "))
	case errors.Is(err, store.ErrNotFound):
		return nil, notFound("node or replica")
	}
	if err := trailed(ctx, err); err != nil {
		return nil, changedMeanwhile(err, "node")
	}
	d, err := s.detail(ctx, r.Node)
	if err != nil {
		return nil, err
	}
	return api.ActOnNode200JSONResponse(d), nil
}

// policyInForce is the policy, its file and its version; the default, version 0, where none
// was applied.
func (s *Server) policyInForce(ctx context.Context) (control.Policy, []byte, int64, error) {
	p, err := s.store.Policy(ctx, 0)
	file := p.Bytes
	if errors.Is(err, store.ErrNotFound) {
		file, err = control.DefaultFile, nil
	}
	if err != nil {
		return control.Policy{}, nil, 0, err
	}
	parsed, err := control.ReadPolicy(bytes.NewReader(file), "the policy in force")
	return parsed, file, p.Version, err
}

// GetPolicy shows the policy in force.
func (s *Server) GetPolicy(ctx context.Context, _ api.GetPolicyRequestObject) (api.GetPolicyResponseObject, error) {
	_, file, version, err := s.policyInForce(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetPolicy200TextResponse{Body: string(file), Headers: api.GetPolicy200ResponseHeaders{AssayPolicyVersion: &version}}, nil
}

// PutPolicy puts a policy in force.
func (s *Server) PutPolicy(ctx context.Context, r api.PutPolicyRequestObject) (api.PutPolicyResponseObject, error) {
	p, err := readPolicy(*r.Body)
	if err != nil {
		return nil, err
	}
	if beat := time.Duration(p.Silence.Heartbeat); beat < s.o.Heartbeat {
		return nil, refuse(http.StatusConflict, "the policy: silence.heartbeat is %s, and this server asks agents for a heart-beat every %s: nodes that are well would become silent. Start the server with --heartbeat %[1]s, or write %[2]s here",
			beat, s.o.Heartbeat)
	}
	version, changed, err := s.store.ApplyPolicy(ctx, store.Policy{Bytes: []byte(*r.Body), By: principalOf(ctx).ID, At: s.now()}, s.trail(ctx, "policy"))
	if err != nil {
		return nil, changedMeanwhile(err, "policy")
	}
	requestOf(ctx).audited = changed
	return api.PutPolicy200JSONResponse{Version: version, Changed: changed}, nil
}

func readPolicy(text string) (control.Policy, error) {
	p, err := control.ReadPolicy(strings.NewReader(text), "policy")
	if err != nil {
		return control.Policy{}, refuse(http.StatusBadRequest, "the policy: %s", err)
	}
	return p, nil
}

// TestPolicy says what a policy would have decided.
func (s *Server) TestPolicy(ctx context.Context, r api.TestPolicyRequestObject) (api.TestPolicyResponseObject, error) {
	p, err := readPolicy(*r.Body)
	if err != nil {
		return nil, err
	}
	if s.o.Rules == nil {
		return nil, refuse(http.StatusNotImplemented, "this server decides nothing")
	}
	days := 30
	if r.Params.Days != nil {
		days = *r.Params.Days
	}
	out, err := s.o.Rules.Test(ctx, p, days)
	if errors.Is(err, ErrRefused) {
		return nil, refuse(http.StatusConflict, "%s", strings.TrimPrefix(err.Error(), ErrRefused.Error()+": "))
	}
	if err != nil {
		return nil, err
	}
	return api.TestPolicy200JSONResponse(out), nil
}

// GetBreaker shows the circuit breaker.
func (s *Server) GetBreaker(ctx context.Context, _ api.GetBreakerRequestObject) (api.GetBreakerResponseObject, error) {
	b, err := s.breaker(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetBreaker200JSONResponse(b), nil
}

func (s *Server) breaker(ctx context.Context) (api.Breaker, error) {
	row, err := s.store.Breaker(ctx)
	if err != nil {
		return api.Breaker{}, err
	}
	var b control.Breakers
	if err := json.Unmarshal(row.Body, &b); err != nil {
		return api.Breaker{}, fmt.Errorf("the breaker: %w", err)
	}
	p, _, _, err := s.policyInForce(ctx)
	if err != nil {
		return api.Breaker{}, err
	}
	out := api.Breaker{Quarantined: b.Out, Allowed: b.Limit(p), Version: row.Version}
	holds, why := b.Holds(p, s.now())
	if out.Open = holds || b.Tripped; b.Why != "" {
		why = b.Why
	}
	var reasons []string
	if why != "" {
		reasons = append(reasons, why)
	}
	if r := b.Replicas; r.Tripped { // they have one of their own, in the same row
		out.Open, reasons = true, append(reasons, "replicas: "+r.Why)
	}
	if reasons != nil {
		out.Reasons = &reasons
	}
	if !b.Since.IsZero() {
		out.Since = &b.Since
	}
	if s.now().Before(b.LiftedUntil) {
		by := b.LiftedBy.ID
		out.LiftedUntil, out.LiftedBy = &b.LiftedUntil, &by
	}
	return out, nil
}

// liftFor is how long a breaker is lifted when the person does not say.
const liftFor = time.Hour

// ResetBreaker lifts the breaker for a time, by a person's word.
func (s *Server) ResetBreaker(ctx context.Context, r api.ResetBreakerRequestObject) (api.ResetBreakerResponseObject, error) {
	if s.o.Rules == nil {
		return nil, refuse(http.StatusNotImplemented, "this server decides nothing")
	}
	lift := liftFor
	if r.Body.Seconds != nil {
		lift = time.Duration(*r.Body.Seconds) * time.Second
	}
	requestOf(ctx).detail = fmt.Sprintf("lifted for %s: %s", lift, r.Body.Reason)
	err := s.o.Rules.Reset(ctx, principalOf(ctx), lift, s.trail(ctx, "breaker"))
	if errors.Is(err, ErrRefused) {
		return nil, refuse(http.StatusConflict, "%s", strings.TrimPrefix(err.Error(), ErrRefused.Error()+": "))
	}
	if err := trailed(ctx, err); err != nil {
		return nil, changedMeanwhile(err, "breaker")
	}
	b, err := s.breaker(ctx)
	if err != nil {
		return nil, err
	}
	return api.ResetBreaker200JSONResponse(b), nil
}
