package trust

import (
	"maps"
	"slices"
	"sync"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/control"
)

// counts are those of this process. Their labels are words of ours.
type counts struct {
	mu     *sync.Mutex
	checks map[[2]string]int64 // by check and verdict
	tokens *int64
}

func newCounts() counts {
	c := counts{mu: new(sync.Mutex), checks: map[[2]string]int64{}, tokens: new(int64)}
	for _, check := range []string{control.CheckReach, CheckAddress, CheckSpeed} { // a rate needs its zero
		for _, v := range []assay.Verdict{assay.Pass, assay.Fail, assay.Unknown} {
			c.checks[[2]string{check, v.String()}] = 0
		}
	}
	return c
}

func (c counts) found(check string, v assay.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks[[2]string{check, v.String()}]++
}

func (c counts) sent(tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.tokens += int64(tokens)
}

// Metrics writes what this process found, and what it asked for.
func (p *Prober) Metrics(page *promtext.Page) {
	c := p.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(c.checks), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		page.Counter("assay_server_outside_checks_total", "Looks at replicas from outside, by check and verdict.", float64(c.checks[k]), "check", k[0], "verdict", k[1])
	}
	page.Counter("assay_server_outside_tokens_total", "Tokens that came back of completions sent for them.", float64(*c.tokens))
	page.Gauge("assay_server_outside_sessions", "Replicas that are looked at now.", float64(len(p.sessions)))
}
