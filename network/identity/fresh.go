package identity

import (
	"fmt"
	"strconv"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/control"
)

// Challenged is what one command asks a run to carry.
type Challenged struct {
	Command string
	Nonce   string
	Seed    uint64
}

// Use is who brought a nonce first.
type Use struct{ Node, Report, RunSHA256 string }

// Fresh judges whether a run is the answer to its command. First is who brought the
// run's nonce first, and others are challenges to the same node before.
//
// It passes only with the nonce of the command, and the seed where a card computed.
// Agents of before the challenge carry a random nonce: that is unknown. The same run
// delivered twice is no replay: it counts once.
func Fresh(own Use, first Use, asked *Challenged, others []Challenged, nonce string, checks []assay.Check) (assay.Verdict, []Finding) {
	subject := "report " + own.Report
	if nonce != "" && first.Report != own.Report && (first.Node != own.Node || first.RunSHA256 != own.RunSHA256) {
		return assay.Fail, []Finding{found(own.Node, control.FindReplayed, subject, fmt.Sprintf("the run carries the nonce of another one, report %s of node %s", first.Report, first.Node))}
	}
	seeds := seedsOf(checks)
	for _, o := range others {
		if asked != nil && o.Command == asked.Command {
			continue
		}
		if nonce == o.Nonce || seeds[o.Seed] {
			return assay.Fail, []Finding{found(own.Node, control.FindReplayed, subject, fmt.Sprintf("the run answers an older question: the command %s", o.Command))}
		}
	}
	if asked == nil || nonce != asked.Nonce {
		return assay.Unknown, nil
	}
	for s := range seeds {
		if s != asked.Seed {
			return assay.Unknown, nil
		}
	}
	return assay.Pass, nil
}

func seedsOf(checks []assay.Check) map[uint64]bool {
	out := map[uint64]bool{}
	for _, c := range checks {
		if c.Name != "compute.challenge" {
			continue
		}
		if s, err := strconv.ParseUint(c.Facts["seed"], 0, 64); err == nil {
			out[s] = true
		}
	}
	return out
}
