package control

import "time"

// Outcome is what an event led to.
type Outcome struct {
	Node    Node
	Breaker Breaker
	// Transitions are the facts that changed, in their order; mostly none.
	Transitions []Transition
	Commands    []Command
	Notices     []Notice
	// Judgement is the report's, where the event was one.
	Judgement *Judgement
	// Refused is whether the event was not taken: it was a person's and came from
	// somebody else, or does not fit the state. Why says what to do instead.
	Refused bool
	// Why says in a sentence what was decided.
	Why string
}

// Changed says whether there is something to store.
func (o Outcome) Changed(before Node) bool { return o.Node.Version != before.Version }

// Fact names one of the three.
type Fact string

// The facts.
const (
	FactAdmission Fact = "admission"
	FactIntent    Fact = "intent"
	FactContact   Fact = "contact"
)

// Transition is one fact that changed.
type Transition struct {
	Fact     Fact      `json:"fact"`
	From     string    `json:"from"` // empty: it was not enrolled
	To       string    `json:"to"`
	Event    Kind      `json:"event"`
	At       time.Time `json:"at"`
	Actor    Actor     `json:"actor"`
	Reasons  []string  `json:"reasons"`
	Evidence []string  `json:"evidence,omitempty"`
	// PolicyVersion is the policy that decided.
	PolicyVersion int64 `json:"policy_version"`
	// NodeVersion is the node's after it.
	NodeVersion int64 `json:"node_version"`
}

// CommandKind is what an agent is asked to do.
type CommandKind string

// The kinds of commands.
const (
	CommandVerify CommandKind = "verify"
	CommandDrain  CommandKind = "drain"
	CommandServe  CommandKind = "serve" // after a drain
	CommandRetire CommandKind = "retire"
)

// Command is for the node's agent. ID is unique for the node.
type Command struct {
	ID      string      `json:"id"`
	Kind    CommandKind `json:"kind"`
	Expires time.Time   `json:"expires"`
	Why     string      `json:"why"`
}

// NoticeKind is for whom a notice is.
type NoticeKind string

// The kinds of notices.
const (
	NoticePage   NoticeKind = "page"   // a person, now
	NoticeTicket NoticeKind = "ticket" // a person, some time
	NoticeReset  NoticeKind = "reset"  // who can reset a GPU or a machine
	NoticeNote   NoticeKind = "note"   // the record
)

// Notice is told to people by webhook. Key is the same for all notices about one
// matter of a node; Resolved ends them.
type Notice struct {
	Kind     NoticeKind `json:"kind"`
	Key      string     `json:"key"`
	Resolved bool       `json:"resolved,omitempty"`
	Text     string     `json:"text"`
}

// Keys of notices.
const (
	KeyQuarantine = "quarantine"
	KeyDegraded   = "degraded"
	KeyApproval   = "approval"
	KeyFlapping   = "flapping"
	KeyReset      = "reset"
	KeyAnomaly    = "anomaly"
	KeyHold       = "hold"
	KeyBreaker    = "breaker" // of the network, not of the node
)
