package score

import (
	"fmt"

	"github.com/assay-bench/assay"
)

// slowFindings names the stage in which inference became slowest, against the
// first minute of the same stage. One whose requests piled up is passed over:
// each of them waits there, however fast the engine is.
func slowFindings(stages []assay.StageSummary) []assay.Finding {
	worst, stage, times := assay.Slowed{}, "", 0
	for _, s := range stages {
		if s.BacklogGrows {
			continue
		}
		for _, v := range s.Slowed {
			if !(v.FirstMinute > 0) || !(v.TokensPerSecond >= 0) {
				continue
			}
			times++
			if times == 1 || v.TokensPerSecond/v.FirstMinute < worst.TokensPerSecond/worst.FirstMinute {
				worst, stage = v, s.Name
			}
		}
	}
	if times == 0 {
		return nil
	}
	return one(assay.Degraded, false,
		fmt.Sprintf("inference became slow in stage %s: %s tokens a second for each request in flight for 30 s, where its first minute had %s", clip(stage), num(worst.TokensPerSecond), num(worst.FirstMinute)),
		"look for swapping and memory pressure on the node, throttling, and others who use the engine",
		map[string]float64{"tokens_per_second": worst.TokensPerSecond, "first_minute": worst.FirstMinute, "times": float64(times)})
}
