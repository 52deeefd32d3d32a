package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// minPrefix is how much of an id has to be given: less is more likely a slip.
const minPrefix = 4

// maxNamed bounds how many nodes an error names.
const maxNamed = 5

var (
	wholeID  = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	prefixID = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{3,24}$`)
)

// find gives the nodes that words name, each once, and all of them or an error
// that says which words name none.
func find(ctx context.Context, c *remote.Client, words []string, replica string) ([]api.NodeDetail, error) {
	var all []api.Node
	var out []api.NodeDetail
	var errs []error
	known := map[string]bool{}
	for _, word := range words {
		id := word
		if !wholeID.MatchString(word) {
			if all == nil {
				var err error
				if all, err = list(ctx, c, api.ListNodesParams{Limit: new(1000)}); err != nil {
					return nil, err
				}
			}
			n, err := match(all, word)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			id = n.Id
		}
		if known[id] {
			continue
		}
		known[id] = true
		d, err := get(ctx, c, id)
		if err == nil && replica != "" && replicaOf(d, replica) == nil {
			err = fmt.Errorf("node %s has no replica %q", name(d.Node), foreign.Line(replica, 100))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// match finds the one node that a word means: those that are retired stand back
// behind others of the same host.
func match(all []api.Node, word string) (api.Node, error) {
	var live, retired []api.Node
	upper := strings.ToUpper(word)
	for _, n := range all {
		named := n.Hostname != nil && strings.EqualFold(*n.Hostname, word)
		if !named && !(prefixID.MatchString(upper) && strings.HasPrefix(n.Id, upper)) {
			continue
		}
		if n.Intent == api.IntentRetired {
			retired = append(retired, n)
		} else {
			live = append(live, n)
		}
	}
	if len(live) == 0 {
		live = retired
	}
	shown := foreign.Line(word, 100)
	switch len(live) {
	case 0:
		return api.Node{}, fmt.Errorf("no node has the id or the host %q, nor an id that begins so (with %d letters or more); `assay node list` has them", shown, minPrefix)
	case 1:
		return live[0], nil
	}
	names := make([]string, 0, maxNamed)
	for _, n := range live[:min(len(live), maxNamed)] {
		names = append(names, name(n))
	}
	if len(live) > maxNamed {
		names = append(names, "…")
	}
	return api.Node{}, fmt.Errorf("%q may be any of %d nodes: %s; give an id", shown, len(live), strings.Join(names, ", "))
}

// get asks for one node.
func get(ctx context.Context, c *remote.Client, id string) (api.NodeDetail, error) {
	r, err := c.GetNodeWithResponse(ctx, id)
	if err != nil {
		return api.NodeDetail{}, c.Answer(nil, nil, err)
	}
	if r.StatusCode() == http.StatusNotFound {
		return api.NodeDetail{}, fmt.Errorf("there is no node %s", id)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return api.NodeDetail{}, fmt.Errorf("node %s: %w", id, err)
	}
	if r.JSON200 == nil {
		return api.NodeDetail{}, fmt.Errorf("node %s: the server's answer is no node", id)
	}
	return *r.JSON200, nil
}

// name is a node for people.
func name(n api.Node) string {
	if h := deref(n.Hostname); h != "" {
		return n.Id + " (" + foreign.Line(h, 100) + ")"
	}
	return n.Id
}

func replicaOf(d api.NodeDetail, replica string) *api.ReplicaFacts {
	for i := range d.Replicas {
		if d.Replicas[i].Name == replica {
			return &d.Replicas[i]
		}
	}
	return nil
}
