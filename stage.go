package assay

// Stage is one period of a run under one schedule. Its fields are what was
// asked; what came of it is a [StageSummary].
type Stage struct {
	Name string   `json:"name"`
	Kind LoadKind `json:"kind"`
	// Run is the number of the repetition (--num-runs), from 1.
	Run int `json:"run,omitempty"`

	Concurrency int     `json:"concurrency,omitempty"`        // closed: streams; open: the cap, 0 for none
	Rate        float64 `json:"rate,omitempty"`               // open: requests a second; 0 with kind open is all at once
	Burstiness  float64 `json:"burstiness,omitempty"`         // open: 1 Poisson, <1 burstier, >1 more even; 0 constant
	RateFrom    float64 `json:"rate_from,omitempty"`          // ramp
	RateTo      float64 `json:"rate_to,omitempty"`            // ramp
	Ramp        string  `json:"ramp,omitempty"`               // linear or exponential
	Batch       int     `json:"batch,omitempty"`              // batch: released together
	DurationNS  int64   `json:"duration_ns,omitempty"`        // 0: until Requests
	RampUpNS    int64   `json:"ramp_up_ns,omitempty"`         // streams start spread over this time, recorded and not judged
	Requests    int     `json:"requests,omitempty"`           // 0: until the duration ends
	GraceNS     int64   `json:"grace_ns,omitempty"`           // how long the drain may take
	Warmups     int     `json:"warmups,omitempty"`            // requests before the first judged one
	Utilization float64 `json:"target_utilization,omitempty"` // sustain: share of the measured capacity
	Probe       bool    `json:"probe,omitempty"`              // a step of a search (saturate, find-max, capacity)
}

// LoadKind is the shape of a stage's load.
type LoadKind string

// The kinds of load.
const (
	LoadClosed LoadKind = "closed" // N streams, each sends when its last request ended
	LoadOpen   LoadKind = "open"   // arrivals at a rate, whatever the engine does
	LoadRamp   LoadKind = "ramp"   // arrivals at a rising rate
	LoadBatch  LoadKind = "batch"  // B together, the next B when all have ended
	LoadReplay LoadKind = "replay" // arrivals of a recorded trace
)
