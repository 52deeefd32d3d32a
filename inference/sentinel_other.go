//go:build !linux

package inference

import "context"

// watchSelf runs the sentinel until ctx ends.
func (c *Client) watchSelf(ctx context.Context) { c.tickSelf(ctx) }
