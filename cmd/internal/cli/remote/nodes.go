package remote

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"

	"github.com/assay-bench/assay/network/api"
)

// Nodes gives the pages of a list of nodes until there is no more. An error is the
// last that it gives.
func (c *Client) Nodes(ctx context.Context, p api.ListNodesParams) iter.Seq2[[]api.Node, error] {
	return func(yield func([]api.Node, error) bool) {
		for {
			r, err := c.ListNodesWithResponse(ctx, &p)
			if err != nil {
				yield(nil, c.Answer(nil, nil, err))
				return
			}
			err = c.Answer(r.HTTPResponse, r.Body, nil)
			if err == nil && r.JSON200 == nil {
				err = errors.New("the server's list of nodes is none")
			}
			if err != nil {
				yield(nil, err)
				return
			}
			next := after(r.HTTPResponse.Header.Get("Link"))
			if !yield(*r.JSON200, nil) || next == "" {
				return
			}
			if p.After != nil && next <= *p.After {
				yield(nil, errors.New("the server's list of nodes goes in a circle"))
				return
			}
			p.After = &next
		}
	}
}

// after is where the next page begins; empty: there is none. A page of a list that is
// filtered may be empty and not the last.
func after(link string) string {
	address, isNext := strings.CutSuffix(link, `>; rel="next"`)
	u, err := url.Parse(strings.TrimPrefix(address, "<"))
	if !isNext || err != nil {
		return ""
	}
	return u.Query().Get("after")
}
