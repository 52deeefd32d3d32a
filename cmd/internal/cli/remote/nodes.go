package remote

import (
	"context"
	"errors"
	"iter"
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
			page := *r.JSON200
			if !yield(page, nil) || len(page) == 0 || !strings.Contains(r.HTTPResponse.Header.Get("Link"), `rel="next"`) {
				return
			}
			p.After = &page[len(page)-1].Id
		}
	}
}
