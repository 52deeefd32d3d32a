package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// maxScan is how many nodes are looked at for one page of a list that is filtered
// by what is no column. What is left is behind the link.
const maxScan = 5000

// ListNodes lists the nodes that the principal sees.
func (s *Server) ListNodes(ctx context.Context, r api.ListNodesRequestObject) (api.ListNodesResponseObject, error) {
	p := r.Params
	limit := limitOf(p.Limit)
	filter := store.NodeFilter{Owner: deref(p.Owner), Admission: string(deref(p.State)), Contact: string(deref(p.Contact)), Model: deref(p.Model)}
	page := store.Page{After: deref(p.After), Limit: limit}
	out := []api.Node{}
	next := ""
	for scanned := 0; len(out) < limit; {
		nodes, err := s.store.Nodes(ctx, principalOf(ctx).scope(), filter, page)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			page.After = n.ID
			if a := nodeOf(n); p.Routable == nil || a.Routable == *p.Routable {
				out = append(out, a)
			}
			if len(out) == limit {
				break
			}
		}
		if len(nodes) == 0 {
			break
		}
		if scanned += len(nodes); len(nodes) == page.Limit && (len(out) == limit || scanned >= maxScan) {
			next = page.After
			break
		}
		if len(nodes) < page.Limit {
			break
		}
	}
	return api.ListNodes200JSONResponse{Body: out, Headers: api.ListNodes200ResponseHeaders{Link: link("/api/v1/nodes", nodeQuery(p), "after", next)}}, nil
}

// nodeQuery repeats a list's filters for the link to its next page.
func nodeQuery(p api.ListNodesParams) url.Values {
	q := url.Values{}
	set := func(name, v string) {
		if v != "" {
			q.Set(name, v)
		}
	}
	set("owner", deref(p.Owner))
	set("state", string(deref(p.State)))
	set("contact", string(deref(p.Contact)))
	set("model", deref(p.Model))
	if p.Routable != nil {
		set("routable", strconv.FormatBool(*p.Routable))
	}
	if p.Limit != nil {
		set("limit", strconv.Itoa(*p.Limit))
	}
	return q
}

// link is the header that leads to the rest of a list; nil where there is none.
func link(path string, q url.Values, name, next string) *string {
	if next == "" {
		return nil
	}
	q.Set(name, next)
	return ptr(fmt.Sprintf("<%s?%s>; rel=\"next\"", path, q.Encode()))
}

// older is the link of a list that begins with the newest and gave n entries.
func older(path string, limit *int, n int, last func() string) *string {
	if n == 0 || n < limitOf(limit) {
		return nil
	}
	q := url.Values{}
	if limit != nil {
		q.Set("limit", strconv.Itoa(*limit))
	}
	return link(path, q, "before", last())
}

func limitOf(limit *int) int {
	if limit == nil {
		return 100
	}
	return *limit
}

func deref[T any](v *T) T {
	if v == nil {
		var none T
		return none
	}
	return *v
}

// pageOf is the page of a list that begins with the newest.
func pageOf(limit *int, before *string) store.Page {
	return store.Page{Limit: limitOf(limit), Before: deref(before)}
}

func factsOf(f store.Facts) control.Facts {
	return control.Facts{Admission: control.Admission(f.Admission), Intent: control.Intent(f.Intent), Contact: control.Contact(f.Contact)}
}

// nodeOf is a node as the API shows it. Whether it may be given requests is a pure
// function of its facts.
func nodeOf(n store.Node) api.Node {
	routable, _ := control.Routable(factsOf(n.Facts))
	out := api.Node{
		Id: n.ID, Owner: n.Owner, State: api.Admission(n.Admission), Intent: api.Intent(n.Intent), Contact: api.Contact(n.Contact),
		Routable: routable, Score: n.Score, Reasons: n.Reasons,
	}
	if out.Reasons == nil {
		out.Reasons = []string{}
	}
	if n.Hostname != "" {
		out.Hostname = &n.Hostname
	}
	if !n.LastSeen.IsZero() {
		out.LastSeen = &n.LastSeen
	}
	return out
}

// GetNode shows one node.
func (s *Server) GetNode(ctx context.Context, r api.GetNodeRequestObject) (api.GetNodeResponseObject, error) {
	d, err := s.detail(ctx, r.Node)
	if err != nil {
		return nil, err
	}
	return api.GetNode200JSONResponse(d), nil
}

// detail is all that there is to show of a node.
func (s *Server) detail(ctx context.Context, id string) (api.NodeDetail, error) {
	scope := principalOf(ctx).scope()
	n, err := s.store.Node(ctx, scope, id)
	if err != nil {
		return api.NodeDetail{}, missing(err, "node")
	}
	replicas, err := s.store.Replicas(ctx, scope, id)
	if err != nil {
		return api.NodeDetail{}, err
	}
	d := api.NodeDetail{Node: nodeOf(n), Version: n.Version, Created: n.Created, PolicyVersion: &n.PolicyVersion, ScoreLow: n.ScoreLow, Replicas: []api.ReplicaFacts{}}
	for _, r := range replicas {
		facts, err := replicaOf(n, r)
		if err != nil {
			return api.NodeDetail{}, err
		}
		if why := s.untrusted(n.ID, r.Name); why != "" && facts.Routable {
			facts.Routable, facts.Reasons = false, append([]string{why}, facts.Reasons...)
		}
		d.Replicas = append(d.Replicas, facts)
	}
	if n.InventorySHA256 != "" {
		d.Inventory = new(api.Inventory)
		if err := json.Unmarshal(n.Inventory, d.Inventory); err != nil {
			return api.NodeDetail{}, fmt.Errorf("the inventory of node %s: %w", id, err)
		}
	}
	var state control.Node
	if err := json.Unmarshal(n.State, &state); err != nil {
		return api.NodeDetail{}, fmt.Errorf("the state of node %s: %w", id, err)
	}
	if state.ReadmissionStep > 0 {
		d.ReadmissionStep = &state.ReadmissionStep
	}
	d.Override = overrideOf(state.Override)
	return d, nil
}

func overrideOf(o *control.Override) *api.Override {
	if o == nil {
		return nil
	}
	state := api.AdmissionQuarantined
	if o.Kind == control.OverrideKeep {
		state = api.AdmissionAdmitted
	}
	return &api.Override{State: state, Expires: o.Until, Reason: o.Reason, Actor: string(o.By.Kind) + ":" + o.By.ID}
}

// replicaOf is a replica as the API shows it. Its contact is its node's, as one agent
// speaks for all of them, unless that says that the engine does not answer it.
func replicaOf(n store.Node, r store.Replica) (api.ReplicaFacts, error) {
	var state control.Node
	if err := json.Unmarshal(r.State, &state); err != nil {
		return api.ReplicaFacts{}, fmt.Errorf("the state of replica %s of node %s: %w", r.Name, n.ID, err)
	}
	r.Contact = n.Contact
	down := store.EngineDown(n.Beat, r.Name)
	if down {
		r.Contact = string(control.Silent)
	}
	routable, _ := control.RoutableReplica(factsOf(n.Facts), factsOf(r.Facts))
	out := api.ReplicaFacts{
		Name: r.Name, State: api.Admission(r.Admission), Intent: api.Intent(r.Intent), Contact: api.Contact(r.Contact), Routable: routable,
		Model: &r.Model, Engine: &r.Engine, Reasons: []string{},
	}
	if ok, why := control.Routable(factsOf(n.Facts)); !ok {
		out.Reasons = append(out.Reasons, "its node is not routed: "+why)
	}
	if down {
		out.Reasons = append(out.Reasons, "its engine does not answer its agent")
	}
	out.Reasons = append(out.Reasons, r.Reasons...)
	if r.EngineVersion != "" {
		out.EngineVersion = &r.EngineVersion
	}
	if r.ServingURL != "" {
		out.ServingUrl = &r.ServingURL
	}
	if len(r.GPUs) > 0 {
		out.Gpus = &r.GPUs
	}
	if state.ReadmissionStep > 0 {
		out.ReadmissionStep = &state.ReadmissionStep
	}
	return out, nil
}

// missing makes the store's word for what is not there one for whoever asked.
func missing(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return notFound(what)
	}
	return err
}

// changedMeanwhile makes the store's word for a lost race one for whoever asked.
func changedMeanwhile(err error, what string) error {
	if errors.Is(err, store.ErrConflict) {
		return refuse(http.StatusConflict, "the %s was changed by somebody else meanwhile: look at it again", what)
	}
	return err
}
