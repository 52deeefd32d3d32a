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

// Proof is what the looks of one check have said: the last verdict, and what still
// counts of those before it.
type Proof struct {
	Verdict string    `json:"verdict"`
	At      time.Time `json:"at"`
	URL     string    `json:"url,omitempty"` // that it is about
	// Passed and Failed are when it did so last; zero: not, or the opposite came
	// after it. A look that ends in unknown changes neither.
	Passed time.Time `json:"passed,omitzero"`
	Failed time.Time `json:"failed,omitzero"`
}

// Next is the proof after another look. A pass is of one address; who failed cannot
// shake it off by naming another.
func (p Proof) Next(verdict string, at time.Time, url string) Proof {
	at = at.UTC()
	next := Proof{Verdict: verdict, At: at, URL: url}
	switch verdict {
	case ProofPass:
		next.Passed = at
	case ProofFail:
		next.Failed = at
	default:
		if next.Failed = p.failed(); SameServing(p.URL, url) {
			next.Passed = p.passed()
		}
	}
	return next
}

// passed is Passed, also of a proof that was kept before there was such a member.
func (p Proof) passed() time.Time {
	if p.Verdict == ProofPass {
		return p.At
	}
	return p.Passed
}

// Answered says whether it passed, and did not fail since.
func (p Proof) Answered() bool { return !p.passed().IsZero() }

func (p Proof) failed() time.Time {
	if p.Verdict == ProofFail {
		return p.At
	}
	return p.Failed
}

// Proofs are the last verdicts about a replica, by check.
type Proofs map[string]Proof

// Trusted says whether what was proved about a replica lets it have requests, and
// why not. What was found counts for max_age. One that could not be reached gets no
// requests until it can be, whatever the policy requires and whichever address it
// names by now. A check that is required has to have passed at the address of now:
// unknown is no pass, but it does not take one away either. What makes looks unknown
// (a server that is cut off, an engine that is full) is met by many nodes at once, and
// must not take them all out.
func Trusted(p Policy, proofs Proofs, url string, now time.Time) (ok bool, why string) {
	within := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) <= time.Duration(p.Trust.MaxAge) }
	if at := proofs[CheckReach].failed(); within(at) {
		return false, "it could not be reached from outside at " + at.UTC().Format(time.RFC3339)
	}
	for _, name := range p.Trust.Require {
		switch r := proofs[name]; {
		case r.Verdict == "" || !SameServing(r.URL, url):
			return false, "it has not passed the check " + foreign.Line(name, maxName) + " yet"
		case r.passed().IsZero():
			return false, "the check " + foreign.Line(name, maxName) + " is " + foreign.Line(r.Verdict, 20)
		case !within(r.passed()):
			return false, "its check " + foreign.Line(name, maxName) + " is too old"
		}
	}
	return true, ""
}
