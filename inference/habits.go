package inference

import (
	"context"
	"time"

	"github.com/assay-bench/assay"
)

// Habits are what one answer showed of how an engine counts.
type Habits struct {
	// CountsEach: the count was above zero in the first visible chunk, and rose
	// in at least two chunks of a choice. Such an engine's counts say which
	// chunk brought how many tokens.
	CountsEach bool
	// Details: it tells kinds of completion tokens in each chunk, which costs
	// some engines time that grows with the square of the answer's length.
	Details bool
	// Usage: it counted the whole answer.
	Usage bool

	visible, rises int
	early          bool // the first visible chunk had a count above zero
}

// learn takes one event's habits.
func (s *stream) learn(e *event, rise int64) {
	h := &s.saw
	if rise > 0 {
		h.rises++
	}
	if e.content || e.reasoning || e.tool {
		if h.visible == 0 {
			h.early = rise > 0 || len(s.counts) > 0 && s.counted() > 0
		}
		h.visible++
	}
	h.Details = h.Details || e.details && e.choices
}

// Learn is [Client.Do] that also tells what the answer showed of the engine's
// habits. What it showed is used only when [Client.Tune] says so.
func (c *Client) Learn(ctx context.Context, job *Job, r *assay.Request) Habits {
	return c.serve(ctx, job, r)
}

// Tuning is how to speak to an engine whose habits are known.
type Tuning struct {
	Usage Usage
	// Counting: its counts in each chunk say which chunk brought how many
	// tokens. It needs UsageEach, or TimingsPerToken.
	Counting bool
	// TimingsPerToken asks llama.cpp to count in each chunk.
	TimingsPerToken bool
	// Fresh makes a new connection for each request, as Config.Fresh does.
	Fresh bool
}

// Tune sets how to speak to the engine from now on. No request may be under way.
func (c *Client) Tune(t Tuning) {
	c.usage, c.counting, c.timingsPerToken = t.Usage, t.Counting, t.TimingsPerToken
	c.fresh = c.fresh || t.Fresh
}

// Keeps reports whether the engine keeps a connection that it promised to keep,
// for as long as it is watched. llama.cpp closes them after a streamed answer:
// a request that is sent into the closing is lost, and is no failure of the
// engine's. It is true when there is no connection to watch.
func (c *Client) Keeps(ctx context.Context, watch time.Duration) bool {
	cn := c.idle.last()
	if cn == nil {
		return true
	}
	for end := time.Now().Add(watch); time.Now().Before(end) && ctx.Err() == nil; {
		if !cn.alive() {
			cn.close()
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.idle.put(cn)
	return true
}
