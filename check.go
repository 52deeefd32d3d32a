package assay

// Check is one line of checks.jsonl: one thing that was verified, what was
// found, and how far that goes.
type Check struct {
	At       int64   `json:"t_ns"`
	Name     string  `json:"name"`             // identity.catalogue, compute.product, memory.pattern…
	Device   string  `json:"device,omitempty"` // a GPU's UUID where it is known
	Verdict  Verdict `json:"verdict"`
	Evidence string  `json:"evidence"` // what was seen, in words
	// Proves and DoesNotProve say what follows from a pass and what does not.
	Proves string `json:"proves,omitempty"`
	// WouldProve has the place of Proves in a check that did not pass: nothing
	// follows from it.
	WouldProve   string             `json:"would_prove,omitempty"`
	DoesNotProve string             `json:"does_not_prove,omitempty"`
	Values       map[string]float64 `json:"values,omitempty"` // figures by name, units in the name
	Facts        map[string]string  `json:"facts,omitempty"`  // words by name
}

// Settled is the check with its claim where its verdict puts it: what a pass
// proves is not proved by a check that could not be decided or that failed.
func (c Check) Settled() Check {
	if c.Verdict != Pass && c.Proves != "" {
		c.Proves, c.WouldProve = "", c.Proves
	}
	return c
}

// Operation is one operation on a GPU as an event for the ledger. Action,
// Component and Details are the three keys of the GPU logger's records
// (docs/origins.md); the rest says the same in fields.
type Operation struct {
	At        int64   `json:"t_ns"`
	Action    string  `json:"action"`    // gpu_operation
	Component string  `json:"component"` // gpu_monitor
	Details   string  `json:"details"`
	Operation string  `json:"operation"`
	Shape     []int   `json:"shape"`
	Seconds   float64 `json:"seconds"`
	Device    string  `json:"device"`
	Error     string  `json:"error,omitempty"`
}
