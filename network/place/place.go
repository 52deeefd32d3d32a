package place

import (
	"time"

	"github.com/assay-bench/assay"
)

// Node is what is known of a node.
type Node struct {
	ID        string
	GPU       string // name of its cards; empty: unknown, and it has no peers
	GPUs      int
	MemoryGiB float64      // of all cards; 0: unknown
	Cost      *assay.Money // an hour; nil: unknown
	Excluded  string       // why it may be given nothing; empty: it may
	Serves    []string     // models that run on it now
	Measured  []Measured
}

// Measured is what was measured of a model on a node.
type Measured struct {
	Model  string
	Levels []Level
}

// Level is one load and what it cost. Null: unknown.
type Level struct {
	Requests float64  // good ones a second
	Tokens   *float64 // output tokens a second
	TTFT     *float64 // p99, milliseconds
	TPOT     *float64 // p99, milliseconds
}

// Unit is what a demand is counted in.
type Unit string

// The units.
const (
	Requests Unit = "requests_per_second"
	Tokens   Unit = "tokens_per_second"
)

// Demand is so much of a model within limits.
type Demand struct {
	Name       string
	Model      string
	Unit       Unit
	Amount     float64 // above 0
	TTFT, TPOT float64 // limits of the p99, milliseconds; 0: none
	Redundancy int     // nodes that may be lost
	MemoryGiB  float64 // that the model needs; 0: unknown
	Load       time.Duration
}

// Request is what is asked for.
type Request struct {
	Currency  string
	Horizon   time.Duration // over which loading is spread; above 0
	Estimates bool          // nodes on which a model was not measured may serve it
	Demands   []Demand
}

// Format names the format of a placement.
const Format = "assay/placement/v1"

// Placement is the answer.
type Placement struct {
	Format     string        `json:"format"`
	Verdict    assay.Verdict `json:"verdict"`
	Cost       assay.Money   `json:"cost_per_hour"`
	Loading    assay.Money   `json:"loading_per_hour"`
	Bound      assay.Money   `json:"bound_per_hour"`
	Distance   float64       `json:"distance"`
	Optimal    bool          `json:"optimal"`
	Unmet      float64       `json:"unmet"`
	UnmetBound float64       `json:"unmet_bound"`
	Demands    []Served      `json:"demands"`
	Idle       []string      `json:"idle"`
	Excluded   []Excluded    `json:"excluded"`
}

// Served is what became of one demand.
type Served struct {
	Name       string   `json:"name"`
	Model      string   `json:"model"`
	Unit       Unit     `json:"unit"`
	Asked      float64  `json:"asked"`
	Capacity   float64  `json:"capacity"`
	Redundancy int      `json:"redundancy"`
	Kept       float64  `json:"kept"` // when so many of the strongest are lost
	Met        bool     `json:"met"`
	Why        []string `json:"why"`
	Nodes      []Given  `json:"nodes"`
}

// Given is one node of a demand.
type Given struct {
	Node      string      `json:"node"`
	Capacity  float64     `json:"capacity"`
	Estimated bool        `json:"estimated"`
	Loads     bool        `json:"loads"`
	Cost      assay.Money `json:"cost_per_hour"`
}

// Excluded is a node that may be given nothing.
type Excluded struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Place answers a request.
func Place(nodes []Node, r Request) (Placement, error) {
	if err := r.check(nodes); err != nil {
		return Placement{}, err
	}
	t := newTable(nodes, r)
	found := solve(t.problem())
	return t.answer(found)
}
