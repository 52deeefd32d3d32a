package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/parallel"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/place"
)

const (
	maxAsked    = 10_000 // nodes
	askReports  = 50     // of each node, the newest
	maxReport   = 30 * 24 * time.Hour
	bytesPerGiB = 1 << 30
)

// askNodes asks a server what it knows of its nodes: GPUs and models from their
// inventories, capacities from the newest report of each model.
func askNodes(ctx context.Context, f remote.Flags, models []string) ([]place.Node, error) {
	c, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w; with --offline FILE no server is needed", err)
	}
	all, err := listNodes(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]place.Node, len(all))
	errs := make([]error, len(all))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parallel.Do(ctx, len(all), func(i int) {
		if out[i], errs[i] = askNode(ctx, c, all[i], models); errs[i] != nil {
			cancel() // the others would only meet the same
		}
	})
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	return out, ctx.Err()
}

func listNodes(ctx context.Context, c *remote.Client) (out []api.Node, err error) {
	limit := 1000
	for page, err := range c.Nodes(ctx, api.ListNodesParams{Limit: &limit}) {
		if err != nil {
			return nil, err
		}
		if out = append(out, page...); len(out) > maxAsked {
			return nil, fmt.Errorf("the server has more than %d nodes: place those of one owner at a time, with a token that sees no others", maxAsked)
		}
	}
	return out, nil
}

func askNode(ctx context.Context, c *remote.Client, n api.Node, models []string) (place.Node, error) {
	out := place.Node{ID: n.Id, GPUs: 1}
	if !n.Routable {
		out.Excluded = notRoutable(n)
		return out, nil // nothing else of it counts
	}
	r, err := c.GetNodeWithResponse(ctx, n.Id)
	if err != nil {
		return out, c.Answer(nil, nil, err)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return out, err
	}
	if r.JSON200 == nil {
		return out, errors.New("the server's answer is no node")
	}
	for _, rep := range r.JSON200.Replicas {
		if rep.Model != nil {
			out.Serves = append(out.Serves, *rep.Model)
		}
	}
	if r.JSON200.Inventory != nil {
		hardware(&out, *r.JSON200.Inventory)
	}
	return out, askLevels(ctx, c, &out, models)
}

func notRoutable(n api.Node) string {
	switch {
	case n.State != api.AdmissionAdmitted && n.State != api.AdmissionDegraded:
		return "it is " + foreign.Line(string(n.State), 40)
	case n.Intent != api.IntentServe:
		return "it is " + foreign.Line(string(n.Intent), 40)
	}
	return "it is " + foreign.Line(string(n.Contact), 40)
}

// hardware is the node's GPUs. Different ones have all their names: its peers are
// those with the same.
func hardware(n *place.Node, in api.Inventory) {
	var names []string
	memory, known := int64(0), len(in.Gpus) > 0
	for _, g := range in.Gpus {
		if name := foreign.Line(g.Name, 200); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if g.MemoryBytes == nil || *g.MemoryBytes <= 0 {
			known = false
			continue
		}
		memory += *g.MemoryBytes
	}
	slices.Sort(names)
	n.GPU, n.GPUs = strings.Join(names, " + "), max(1, len(in.Gpus))
	if known {
		n.MemoryGiB = float64(memory) / bytesPerGiB
	}
}

// askLevels takes the newest report of each model that was not made too long ago.
func askLevels(ctx context.Context, c *remote.Client, n *place.Node, models []string) error {
	limit := askReports
	r, err := c.ListReportsWithResponse(ctx, n.ID, &api.ListReportsParams{Limit: &limit})
	if err != nil {
		return c.Answer(nil, nil, err)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return err
	}
	if r.JSON200 == nil {
		return errors.New("the server's answer is no list of reports")
	}
	oldest := time.Now().Add(-maxReport)
	for _, rep := range *r.JSON200 {
		if rep.Model == nil || rep.Levels == nil || len(*rep.Levels) == 0 || rep.Received.Before(oldest) || !slices.Contains(models, *rep.Model) {
			continue
		}
		if slices.ContainsFunc(n.Measured, func(m place.Measured) bool { return m.Model == *rep.Model }) {
			continue // a newer one was there
		}
		m := place.Measured{Model: *rep.Model}
		for _, l := range *rep.Levels {
			m.Levels = append(m.Levels, place.Level{Requests: l.RequestsPerSecond, Tokens: &l.OutputTokensPerSecond, TTFT: l.TtftP99Ms, TPOT: l.TpotP99Ms})
		}
		n.Measured = append(n.Measured, m)
	}
	return nil
}
