package notary

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/promtext"
)

// counters are what a notary tells of itself. All since its start, but sizes.
type counters struct {
	mu        sync.Mutex
	size      uint64
	logged    uint64
	events    uint64
	again     uint64
	doubles   uint64
	refused   map[Reason]uint64
	clockOff  time.Time // when a record was last refused for its time
	handled   map[int32]int64
	ends      map[int32]int64
	progress  time.Time // when a record was last dealt with
	answered  time.Time // when the feed last said what there is
	feedError error
	running   bool
	end       error // why it is not running, if it is not
	sizeSince time.Time
}

// patience is how long waiting records may stand still, and a feed be silent,
// before health says so.
const patience = time.Minute

func (c *counters) begin(now time.Time) {
	c.refused, c.progress, c.answered, c.sizeSince = map[Reason]uint64{}, now, now, now
	c.handled, c.ends = map[int32]int64{}, map[int32]int64{}
}

func (c *counters) sized(size uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.sizeSince = size, now
}

func (c *counters) lag(ranges map[int32]Range, handled map[int32]int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.progress = true, now
	maps.Copy(c.handled, handled)
	c.see(ranges, now)
}

func (c *counters) see(ranges map[int32]Range, now time.Time) {
	c.answered, c.feedError = now, nil
	for p, r := range ranges {
		if _, ok := c.handled[p]; ok { // one of ours
			c.ends[p] = r.End
		}
	}
}

func (c *counters) asked(ranges map[int32]Range, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.feedError = err
		return
	}
	c.see(ranges, now)
}

func (c *counters) refuse(r Reason, now time.Time) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r == ReasonClock {
		c.clockOff = now
	}
	c.refused[r]++
	return c.refused[r]
}

func (c *counters) done(size, events, again, doubles uint64, handled map[int32]int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.size {
		c.sizeSince = now
	}
	c.logged += size - c.size
	c.size = size
	c.events, c.again, c.doubles = c.events+events, c.again+again, c.doubles+doubles
	c.progress = now
	maps.Copy(c.handled, handled)
}

func (c *counters) stopped(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running, c.end = false, err; err == nil {
		c.end = errStopped
	}
}

// trouble says why the notary does not keep up, nil when it does.
func (c *counters) trouble(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.running && c.end != nil:
		return fmt.Errorf("it does not run: %w", c.end)
	case !c.running:
		return fmt.Errorf("it has not begun to read")
	case c.feedError != nil && now.Sub(c.answered) > patience:
		return fmt.Errorf("the topic gives no answer since %s: %w", c.answered.UTC().Format(time.RFC3339), c.feedError)
	case !c.clockOff.IsZero() && now.Sub(c.clockOff) <= patience:
		return fmt.Errorf("the broker's clock and this one differ by too much: %d records were refused for that, the last at %s; refused.jsonl names them", c.refused[ReasonClock], c.clockOff.UTC().Format(time.RFC3339))
	case now.Sub(c.progress) <= patience:
		return nil
	}
	for _, p := range slices.Sorted(maps.Keys(c.ends)) {
		if behind := c.ends[p] - c.handled[p]; behind > 0 {
			return fmt.Errorf("%d records of partition %d wait, and none was dealt with since %s", behind, p, c.progress.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// grew says how large the log is and since when.
func (c *counters) grew() (uint64, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size, c.sizeSince
}

// page adds the counters to a page for Prometheus.
func (c *counters) page(p *promtext.Page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gauge(p, "assay_notary_log_entries", float64(c.size))
	counter(p, "assay_notary_logged_total", float64(c.logged))
	counter(p, "assay_notary_events_total", float64(c.events))
	counter(p, "assay_notary_duplicates_total", float64(c.doubles))
	counter(p, "assay_notary_reread_total", float64(c.again))
	for _, r := range slices.Sorted(maps.Keys(c.refused)) {
		counter(p, "assay_notary_refused_total", float64(c.refused[r]), "reason", string(r))
	}
	for _, part := range slices.Sorted(maps.Keys(c.ends)) {
		gauge(p, "assay_notary_lag_records", float64(max(0, c.ends[part]-c.handled[part])), "partition", strconv.Itoa(int(part)))
	}
}

// gauge adds a sample of a family of the root's table.
func gauge(p *promtext.Page, name string, v float64, labels ...string) {
	p.Gauge(name, assay.HelpOf(name), v, labels...)
}

func counter(p *promtext.Page, name string, v float64, labels ...string) {
	p.Counter(name, assay.HelpOf(name), v, labels...)
}
