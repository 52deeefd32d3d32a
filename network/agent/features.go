package agent

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

// features is what node-feature-discovery's local source reads and makes labels of
// a Kubernetes node from: a name and a value a line. What is not renewed in time is
// taken off the node again, so that a dead agent's last word does not count for
// ever.
func features(l lastCheck, expires time.Time) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# +expiry-time=%s\n", expires.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "assay-verdict=%s\n", strings.ToLower(l.verdict.String()))
	if l.score != nil {
		fmt.Fprintf(&b, "assay-score=%.0f\n", math.Floor(100**l.score))
	}
	return []byte(b.String())
}

// label writes the last check's verdict for the node's labels, if a file is named.
func (r *runner) label(l lastCheck) {
	path := r.a.c.FeaturesFile
	if path == "" {
		return
	}
	// A check that is due waits for a quiet moment, and may fail once.
	expires := r.next().Add(time.Duration(r.a.c.Busy.Postpone) + r.planned().Every)
	// Others read it. A power cut may take it back: the next check writes it again.
	if err := disk.Swap(path, 0o644, disk.Bytes(features(l, expires))); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		r.a.log.Error("the verdict could not be written for the node's labels", "error", err)
	}
}
