package dialect

import (
	"slices"

	"github.com/assay-bench/assay"
)

// eventTimes gives the arrivals of all events that vLLM counts, in µs since
// the request was sent: every event with a choice in it, be it a token, the
// role, an empty delta or the finish. Usage and [DONE] are not among them.
//
// The record's resolution is the microsecond, so the first token's time is
// rounded to it, and everything after it is exact.
func eventTimes(r *assay.Request) []int64 {
	var at []int64
	if r.First != 0 && r.Sent != 0 {
		t := max(0, r.First-r.Sent+500) / 1000
		at = append(make([]int64, 0, len(r.Gaps)+3), t)
		for _, g := range r.Gaps {
			us, _ := assay.Gap(g) // a marked gap is where vLLM, too, would have seen the read
			t += int64(us)
			at = append(at, t)
		}
	}
	sorted := true
	for i := range min(len(r.Other), len(r.OtherUS)) {
		switch r.Other[i] {
		case 'r', 'e', 'f':
			at = append(at, max(0, int64(r.OtherUS[i])))
			sorted = false
		}
	}
	if !sorted {
		slices.Sort(at)
	}
	return at
}
