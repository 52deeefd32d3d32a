package control

import (
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Trust is what the server proves by itself, from outside.
type Trust struct {
	// Require are the checks that a replica must have passed to be given requests;
	// none: what a node says of itself is enough.
	Require []string `json:"require" yaml:"require"`
	// Every is how often each replica is looked at, and MaxAge how long a pass holds.
	Every  assay.Duration `json:"every" yaml:"every"`
	MaxAge assay.Duration `json:"max_age" yaml:"max_age"`
	// Slower is by which share a node may be slower from outside than it says.
	Slower float64 `json:"slower" yaml:"slower"`
}

// CheckReach is the check whether a replica can be reached where customers are sent.
const CheckReach = "reach"

// Verdicts of a proof.
const (
	ProofPass    = "pass"
	ProofFail    = "fail"
	ProofUnknown = "unknown"
)

// Proof is the last verdict of one check.
type Proof struct {
	Verdict string    `json:"verdict"`
	At      time.Time `json:"at"`
	URL     string    `json:"url,omitempty"` // that it is about
}

// Proofs are the last verdicts about a replica, by check.
type Proofs map[string]Proof

// Trusted says whether what was proved about a replica lets it have requests, and
// why not. A proof is of one serving URL: another one is not proved. One that cannot
// be reached gets none, whatever the policy requires; a check that is required and
// unknown, or too old, is not passed.
func Trusted(p Policy, proofs Proofs, url string, now time.Time) (ok bool, why string) {
	if r := proofs[CheckReach]; r.Verdict == ProofFail && r.URL == url {
		return false, "it could not be reached from outside at " + r.At.UTC().Format(time.RFC3339)
	}
	for _, name := range p.Trust.Require {
		switch r := proofs[name]; {
		case r.Verdict == "" || r.URL != url:
			return false, "it has not passed the check " + foreign.Line(name, maxName) + " yet"
		case r.Verdict != ProofPass:
			return false, "the check " + foreign.Line(name, maxName) + " is " + foreign.Line(r.Verdict, 20)
		case now.Sub(r.At) > time.Duration(p.Trust.MaxAge):
			return false, "its check " + foreign.Line(name, maxName) + " is too old"
		}
	}
	return true, ""
}
