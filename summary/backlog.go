package summary

import (
	"math"

	"github.com/assay-bench/assay"
)

// backlog counts the requests that were wanted and not answered at two moments
// of an open stage: in the middle of its time, and at its end. An engine that
// keeps up has about as many at both; one that does not has more and more, and
// no latency of a short stage shows where that leads.
type backlog struct{ middle, end int }

// add counts a request. The moments are those of the plan, so that requests can
// be added while the stage is under way.
func (b *backlog) add(r *assay.Request, plan assay.Stage, started int64) {
	if plan.Kind != assay.LoadOpen || plan.DurationNS <= 0 || started == 0 || r.Scheduled == 0 {
		return
	}
	over := r.End
	if r.Error == assay.FailNeverSent {
		over = math.MaxInt64
	}
	at := func(t int64) bool { return r.Scheduled <= t && over > t }
	if at(started + plan.DurationNS/2) {
		b.middle++
	}
	if at(started + plan.DurationNS) {
		b.end++
	}
}

// grows reports whether there were more at the end, by more than chance (three
// standard deviations of two counts) and by at least a twentieth of what was
// wanted in between.
func (b *backlog) grows(plan assay.Stage) bool {
	wanted := plan.Rate * float64(plan.DurationNS) / 2e9
	more := float64(b.end - b.middle)
	return more > 3*math.Sqrt(float64(b.end+b.middle)) && more > wanted/20
}
