package hammer

import (
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
)

// vllmPatience is the one limit of vLLM's benchmark: its HTTP client gives up
// on a request after six hours, and on nothing within it.
const vllmPatience = 6 * time.Hour

// timeouts resolves the four limits of a request. A limit that is not given is
// vLLM's for a load in vLLM's words. The first token may take as long as the
// request: an engine that queues is not dead.
func (r *resolver) timeouts() {
	limit := func(name string, d time.Duration) assay.Duration {
		switch {
		case d <= 0:
			r.bad("--%s must be more than 0, not %s; for no limit give a long one", name, d)
		case !r.given(name) && (r.vllmLoad() || r.datasetName == "timed_trace"):
			d = vllmPatience
		}
		return assay.Duration(d)
	}
	t := hammer.Timeouts{
		Connect: limit("timeout-connect", r.timeoutConnect), FirstToken: limit("timeout-first-token", r.timeoutFirst),
		Gap: limit("timeout-gap", r.timeoutGap), Total: limit("timeout-total", r.timeoutTotal),
	}
	if !r.given("timeout-first-token") {
		t.FirstToken = t.Total
	}
	r.c.Timeouts = t
}
