package control

import "time"

// Node is the state of a node or of a replica: the facts, and what is needed to
// decide the next ones. The zero Node is one that is not enrolled.
type Node struct {
	Facts
	// Version grows by one with each change; the server compares and sets it.
	Version int64 `json:"version"`
	// PolicyVersion is the policy by which the counts below were made.
	PolicyVersion int64 `json:"policy_version"`

	// When each fact got its value.
	AdmissionSince time.Time `json:"admission_since"`
	IntentSince    time.Time `json:"intent_since"`
	ContactSince   time.Time `json:"contact_since"`
	// Reasons are those of the last transition of admission.
	Reasons []string `json:"reasons,omitempty"`

	// Member is whether it was admitted once: from then on it counts for the
	// breaker, until it is retired.
	Member bool `json:"member,omitempty"`

	// Results in a row.
	Good    int `json:"good,omitempty"`
	Bad     int `json:"bad,omitempty"`
	Severe  int `json:"severe,omitempty"`
	Unknown int `json:"unknown,omitempty"`

	// Verification is the last one that was asked for; nil: none was.
	Verification *Verification `json:"verification,omitempty"`
	// AskAgain is when one that timed out is asked for again; zero: not at all.
	AskAgain time.Time `json:"ask_again,omitzero"`
	// Last is the latest report that counted; nil: there was none.
	Last *LastReport `json:"last,omitempty"`
	// LastJudged is when the latest report that could be judged began.
	LastJudged time.Time `json:"last_judged,omitzero"`

	// Flaps are the moves down within the flap window, oldest first.
	Flaps []time.Time `json:"flaps,omitempty"`
	// FlapHeld is whether a move up was refused for them, and told.
	FlapHeld bool `json:"flap_held,omitempty"`

	// Quarantine is why it is out; nil: it is not quarantined or re-verifying.
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// Retries counts re-verifications that failed since it was in rotation.
	Retries int `json:"retries,omitempty"`
	// ReadmissionStep is 1 to Readmission.Steps of the policy on the way back to
	// full weight, and 0 for full weight. The weight is the router's.
	ReadmissionStep int       `json:"readmission_step,omitempty"`
	StepSince       time.Time `json:"step_since,omitzero"`

	// Holds are findings that wait for a person, and those that a person decided on.
	Holds []Hold `json:"holds,omitempty"`

	Approval *Approval `json:"approval,omitempty"`
	Override *Override `json:"override,omitempty"`
	// DrainBy is when a drain ends whatever is running; zero: none is under way.
	DrainBy time.Time `json:"drain_by,omitzero"`
}

// Verification is a measurement that was asked for.
type Verification struct {
	ID    string    `json:"id"` // of the command
	Asked time.Time `json:"asked"`
	// Began is when the agent said that it has started; zero: it has not.
	Began time.Time `json:"began,omitzero"`
	// Deadline is when it is given up; zero: it is over.
	Deadline time.Time `json:"deadline,omitzero"`
	Why      string    `json:"why"`
}

// WaitsForPerson says whether a newcomer can only go on by a person's approval: all
// that was required of it passed, and it has no baseline; or a finding holds it.
func (n Node) WaitsForPerson() bool {
	unbased := n.Approval == nil && n.Last != nil && n.Last.Grade == GradeUnbased
	return n.Admission == Pending && (unbased || len(n.Held()) > 0)
}

// open says whether an answer is waited for.
func (v *Verification) open() bool { return v != nil && !v.Deadline.IsZero() }

// LastReport is what is remembered of a report.
type LastReport struct {
	Run           string    `json:"run"` // the evidence
	Began         time.Time `json:"began"`
	Grade         Grade     `json:"grade"`
	Lower         *float64  `json:"lower"` // null: unknown
	Basis         Basis     `json:"basis,omitempty"`
	Reasons       []string  `json:"reasons,omitempty"`
	PolicyVersion int64     `json:"policy_version"`
}

// Cause is why a node was quarantined.
type Cause string

// The causes. A quarantine for a soft cause or an override that ended leads to a
// re-verification by itself, the others only by a person.
const (
	CauseHard     Cause = "hard"     // a hard failure
	CauseSoft     Cause = "soft"     // results, or an anomaly
	CauseHeld     Cause = "held"     // a finding that a person has to decide on
	CausePerson   Cause = "person"   // somebody said so
	CauseOverride Cause = "override" // somebody said so, until a time
)

// Quarantine is why and until when a node is out.
type Quarantine struct {
	Cause Cause     `json:"cause"`
	At    time.Time `json:"at"`
	// RetryAt is when it is re-verified without a person; zero: never.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// Approval is a person's word for a node that has no baseline.
type Approval struct {
	By     Actor     `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// OverrideKind is what an override does.
type OverrideKind string

// The kinds of overrides. None of them admits.
const (
	OverrideKeep OverrideKind = "keep" // soft decisions wait
	OverrideOut  OverrideKind = "out"  // quarantined until then
)

// Override is a person's decision against the measurements, until a time.
type Override struct {
	Kind   OverrideKind `json:"kind"`
	Until  time.Time    `json:"until"`
	By     Actor        `json:"by"`
	Reason string       `json:"reason"`
}
