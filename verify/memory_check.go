package verify

import (
	"fmt"

	"github.com/assay-bench/assay"
)

// minJudged is how much memory must have been read before its speed is held
// against a peak: less fits into caches.
const minJudged = 1 << 30

func memoryChecks(r memoryResult, ok bool, m Model, why string) []assay.Check {
	pattern := assay.Check{
		Name:         "memory.pattern",
		Proves:       "The memory that was tested exists, is this device's own to address, and held every bit both ways.",
		DoesNotProve: "Anything about the memory that was not free, or about faults that show only with time or heat.",
	}
	speed := assay.Check{
		Name:         "memory.bandwidth",
		Proves:       "The memory was filled and read back at this speed, by the device's events.",
		DoesNotProve: "The highest speed that the memory can reach: the kernels also compute each word.",
	}
	if !ok {
		pattern.Evidence, speed.Evidence = "not checked: "+why, "not measured: "+why
		return []assay.Check{pattern, speed}
	}
	pattern.Values = map[string]float64{
		"free_bytes": float64(r.Free), "wanted_bytes": float64(r.Wanted), "tested_bytes": float64(r.Tested),
		"wrong_words": float64(r.Wrong), "passes": float64(r.Passes),
	}
	pattern.Evidence = fmt.Sprintf("%.2f GiB in %d passes (address, inverted, walking ones, random), %d wrong words", gib(r.Tested), r.Passes, r.Wrong)
	if !r.FreeKnown {
		pattern.Evidence += "; how much is free is not known, so the share was taken of all"
	}
	switch {
	case r.Wrong > 0:
		pattern.Verdict = assay.Fail
		pattern.Evidence += ", the first: " + note(r.First)
	case r.Passes < len(patterns(0)):
		pattern.Evidence += ": interrupted"
	case float64(r.Tested) < 0.9*float64(r.Wanted):
		pattern.Verdict = assay.Degraded
		pattern.Evidence += fmt.Sprintf("; only %.2f of the wanted %.2f GiB could be had", gib(r.Tested), gib(r.Wanted))
	default:
		pattern.Verdict = assay.Pass
	}
	if r.ReadSeconds <= 0 || r.WriteSeconds <= 0 {
		speed.Evidence = "the device's events gave no time"
		return []assay.Check{pattern, speed}
	}
	read, write := float64(r.ReadBytes)/r.ReadSeconds, float64(r.WriteBytes)/r.WriteSeconds
	speed.Values = map[string]float64{"read_bytes_per_second": read, "write_bytes_per_second": write}
	speed.Evidence = fmt.Sprintf("read %.4g GB/s, write %.4g GB/s", read/1e9, write/1e9)
	switch {
	case m.Bandwidth <= 0:
		speed.Evidence += "; the catalogue has no peak to hold it against"
	case r.Tested < minJudged:
		speed.Evidence += "; too little memory to hold it against the peak"
	default:
		share := read / m.Bandwidth
		speed.Values["peak_share"] = share
		speed.Evidence += fmt.Sprintf("; reading reaches %.0f %% of the model's peak", 100*share)
		switch {
		case share > MaxPeakShare:
			speed.Verdict = assay.Fail
			speed.Evidence += ": faster than this model can be"
		case share < 0.4:
			speed.Verdict = assay.Degraded
			speed.Evidence += ", below 40 %"
		default:
			speed.Verdict = assay.Pass
		}
	}
	return []assay.Check{pattern, speed}
}
