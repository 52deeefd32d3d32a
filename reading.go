package assay

// Reading is one line of telemetry.jsonl: what one source said of one thing at
// one moment. A reading that was not obtained has no line.
type Reading struct {
	At     int64  `json:"t_ns"`
	Source string `json:"source"`           // who said it: client, host, nvml, engine…
	Name   string `json:"name"`             // a metric's name, in Prometheus base units
	Device string `json:"device,omitempty"` // which of several, for example a GPU's UUID
	// Value is absent only when Counts is there.
	Value *float64 `json:"value,omitempty"`
	// Counts is a histogram of what happened since the last reading of this
	// name: pairs of a value in microseconds and how often it was seen.
	// docs/formats/run.md gives the resolution.
	Counts []int64 `json:"counts,omitempty"`
}

// Event is one line of events.jsonl: something that happened once.
type Event struct {
	At    int64     `json:"t_ns"`
	Kind  EventKind `json:"kind"`
	Stage string    `json:"stage,omitempty"` // the stage that it belongs to
	Text  string    `json:"text,omitempty"`  // in words, for people
	// Plan is what the stage was asked to do; on stage_started only.
	Plan *Stage `json:"plan,omitempty"`
	// Data holds further figures by name.
	Data map[string]float64 `json:"data,omitempty"`
}

// EventKind says what happened.
type EventKind string

// The kinds of events. A reader passes over kinds that it does not know.
const (
	EventStageStarted EventKind = "stage_started"  // Plan says what was asked
	EventStageSteady  EventKind = "stage_steady"   // the steady window begins
	EventStageLoadEnd EventKind = "stage_load_end" // no more requests are sent: the drain begins, the steady window ends
	EventStageEnded   EventKind = "stage_ended"    // drained
	EventCalibrated   EventKind = "calibrated"     // Data: tokens_per_word, overhead_tokens
	EventEngineBefore EventKind = "engine_before"  // Data: the engine's own totals just before the stage; Text: whose page
	EventEngineAfter  EventKind = "engine_after"   // the same when the stage has drained
	EventWarning      EventKind = "warning"
	EventNote         EventKind = "note"       // what was chosen or left out, and why
	EventClockStep    EventKind = "clock_step" // Data: seconds
	EventInterrupted  EventKind = "interrupted"
	EventResumed      EventKind = "resumed"
	EventEngineDown   EventKind = "engine_down"
	// EventSlowInference: tokens a second for each request in flight were below
	// half of the stage's first minute for 30 s. Data: tokens_per_second, first_minute.
	EventSlowInference EventKind = "slow_inference"
	EventLimit         EventKind = "limit" // the client met a limit of its own; Data names it: file_descriptors, ports, memory
)
