package hammer

import (
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// patience is how long every request may fail to get through, and no token
// arrive, before the engine counts as down.
const patience = 5 * time.Second

// How many requests in a row the engine may refuse with the same words before
// the run ends, as it will refuse the others too: when it has taken none yet,
// and when it has.
const (
	maxRefusals      = 8
	maxRefusalsLater = 100
)

// refusals counts equal refusals in a row.
type refusals struct {
	words string
	n     int
	took  bool // the engine took a request before
}

// add counts a refusal, and reports whether they are too many. Numbers and ids
// in its words differ from request to request, and are passed over.
func (r *refusals) add(words string) bool {
	all := strings.Fields(words)
	for i, w := range all {
		if strings.ContainsAny(w, "0123456789") {
			all[i] = "#"
		}
	}
	if words = strings.Join(all, " "); r.words != words {
		r.words, r.n = words, 0
	}
	r.n++
	return r.n >= maxRefusalsLater || r.n >= maxRefusals && !r.took
}

// judgeLife ends the run when the engine is down, or refuses everything. It is
// called with the lock held.
func (r *run) judgeLife(req *assay.Request) {
	if req.Error != assay.FailHTTP4xx && req.Sent != 0 {
		r.refuse = refusals{took: r.refuse.took || req.OK()}
	}
	switch req.Error {
	case assay.FailRefused, assay.FailReset:
		// Tokens that arrive are life too: of an engine whose answers take long
		// none may be complete yet.
		r.alive = max(r.alive, r.client.Heard())
		if down := time.Duration(req.End - r.alive); down > patience {
			r.cancel(fmt.Errorf("%w: for %s every request was %s, and no token came: %s", ErrEngineDown, patience, req.Error, req.Detail))
		}
	case assay.FailHTTP4xx:
		if r.refuse.add(req.Detail) {
			r.cancel(fmt.Errorf("%w: the engine refused %d requests in a row (HTTP %d): %s", ErrRefused, r.refuse.n, req.Status, req.Detail))
		}
	case "":
		r.alive = max(r.alive, req.End)
	}
}
