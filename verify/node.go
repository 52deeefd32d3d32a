package verify

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay"
)

// NodeExecution judges where a model ran among all GPUs of a node, and accuses
// nobody whose GPUs worked: an engine that uses one GPU of eight leaves seven
// idle. When readings of all of them are there and none moved although the
// engine answered, the model did not run on this node's GPUs.
func NodeExecution(gpus []ModelSamples, at time.Time) []assay.Check {
	var checks []assay.Check
	worked, idle := 0, 0
	for _, g := range gpus {
		c := modelRan(g)
		c.At = at.UnixNano()
		scratch := map[string]float64{}
		util, _ := g.utilization(scratch)
		power, _ := g.power(scratch)
		switch {
		case c.Verdict == assay.Pass || util == risen || power == risen:
			worked++
		case util == flat && power == flat:
			idle++
		}
		checks = append(checks, c)
	}
	switch {
	case len(gpus) == 0:
		return nil
	case worked > 0:
		for i := range checks {
			if checks[i].Verdict == assay.Fail {
				checks[i].Verdict = assay.Unknown
				checks[i].Evidence = "the engine worked on another GPU of this node; " + checks[i].Evidence
			}
		}
	case idle == len(gpus):
		for i := range checks {
			if checks[i].Verdict == assay.Unknown {
				checks[i].Verdict = assay.Fail
				checks[i].Evidence = fmt.Sprintf("no GPU of this node (%d read) worked while the engine answered: it computes elsewhere, as on the CPU; %s", len(gpus), checks[i].Evidence)
			}
		}
	}
	for i := range checks {
		checks[i] = checks[i].Settled()
	}
	return checks
}
