package control

import "time"

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	EventEnrolled  Kind = "enrolled"
	EventReport    Kind = "report"  // Report is set
	EventAnomaly   Kind = "anomaly" // Anomaly is set
	EventHeartbeat Kind = "heartbeat"
	EventSilence   Kind = "silence" // Silence decided it

	EventVerificationRequested Kind = "verification_requested"
	EventVerificationStarted   Kind = "verification_started"

	EventDrained Kind = "drained" // nothing is running

	// By a person.
	EventDrain       Kind = "drain" // Until may be set
	EventUndrain     Kind = "undrain"
	EventRetire      Kind = "retire"
	EventQuarantine  Kind = "quarantine"
	EventReadmit     Kind = "readmit"
	EventApprove     Kind = "approve"
	EventOverrideSet Kind = "override_set" // Override and Until are set

	// What is due is done; the names only say who asked.
	EventTick                 Kind = "tick"
	EventVerificationTimedOut Kind = "verification_timed_out"
	EventOverrideExpired      Kind = "override_expired"
	EventDrainDeadline        Kind = "drain_deadline"
	EventPolicyChanged        Kind = "policy_changed"
)

// personal says whether only a person may cause it.
func (k Kind) personal() bool {
	switch k {
	case EventDrain, EventUndrain, EventRetire, EventQuarantine, EventReadmit, EventApprove, EventOverrideSet:
		return true
	}
	return false
}

// timer says whether the event does what is due and nothing else.
func (k Kind) timer() bool {
	switch k {
	case EventTick, EventVerificationTimedOut, EventOverrideExpired, EventDrainDeadline, EventPolicyChanged:
		return true
	}
	return false
}

// ActorKind is who caused something.
type ActorKind string

// The kinds of actors.
const (
	ActorPerson ActorKind = "person"
	ActorNode   ActorKind = "node"
	ActorServer ActorKind = "server" // the policy, carried out
)

// Actor is who caused an event or a transition. ID is a person's random id or a
// node's; empty for the server.
type Actor struct {
	Kind ActorKind `json:"kind"`
	ID   string    `json:"id,omitempty"`
}

// Host is what a node brings to decisions about its replicas. One measurement of
// the engine is about both, so that what was asked for or vouched for once is not
// asked for twice.
type Host struct {
	Verification *Verification `json:"verification,omitempty"`
	Approval     *Approval     `json:"approval,omitempty"`
}

// Event is one thing that happened to a node or to a replica.
type Event struct {
	Kind   Kind      `json:"kind"`
	At     time.Time `json:"at"` // by the server's clock
	Actor  Actor     `json:"actor"`
	Reason string    `json:"reason,omitempty"`
	// Evidence are ids of runs, statements or earlier decisions.
	Evidence []string `json:"evidence,omitempty"`

	// Host is the node of the replica that it happened to; nil: it happened to a
	// node.
	Host *Host `json:"host,omitempty"`

	Report   *Measured    `json:"report,omitempty"`
	Anomaly  string       `json:"anomaly,omitempty"` // its kind
	Subject  string       `json:"subject,omitempty"` // what the anomaly is about
	Override OverrideKind `json:"override,omitempty"`
	Until    time.Time    `json:"until,omitzero"`
}
