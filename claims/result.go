package claims

import (
	"math"
	"time"

	"github.com/assay-bench/assay"
)

// ResultFormat names the format of results.json.
const ResultFormat = "assay/claims/v1"

// Result is what a suite's run found.
type Result struct {
	Format  string    `json:"format"`
	Name    string    `json:"name"`
	File    string    `json:"file"`
	Version string    `json:"version,omitempty"`
	Machine string    `json:"machine"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Verdict of the whole: fail when a claim failed, else unknown when one is
	// unknown, else pass.
	Verdict assay.Verdict `json:"verdict"`
	Because string        `json:"because"`
	// Interrupted says that the run was interrupted; what had not been measured is
	// unknown.
	Interrupted bool `json:"interrupted,omitempty"`
	// Stress says that the families were measured side by side.
	Stress bool `json:"stress,omitempty"`
	// Prerequisites are what the file requires, and what the machine has.
	Prerequisites []Prerequisite `json:"prerequisites,omitempty"`
	Claims        []ClaimResult  `json:"claims"`
	Probes        []ProbeResult  `json:"probes"`
	// Empty is the empty probe: what the measuring itself takes. It is subtracted
	// nowhere.
	Empty  ProbeResult `json:"empty"`
	Advice []Advice    `json:"advice"`
	Notes  []string    `json:"notes"`
	// Profile is where the time went, if that was asked for.
	Profile *Profile `json:"profile,omitempty"`
}

// ClaimResult is a claim and what became of it.
type ClaimResult struct {
	Claim
	Unit     string         `json:"unit"`
	Measured assay.Quantity `json:"measured"`
	Verdict  assay.Verdict  `json:"verdict"`
	Why      string         `json:"why"`
	// More is about how many more samples would decide; 0: none would, or it is
	// decided.
	More int64 `json:"more_samples,omitempty"`
	// GoalVerdict and GoalWhy are absent without a goal. They decide nothing.
	GoalVerdict *assay.Verdict `json:"goal_verdict,omitempty"`
	GoalWhy     string         `json:"goal_why,omitempty"`
}

// Status says how a probe ended.
type Status string

// How probes end.
const (
	Measured    Status = "measured"    // as planned
	Unavailable Status = "unavailable" // it cannot run here
	Wrong       Status = "wrong"       // what was computed was wrong
	Broken      Status = "error"       // it ended with an error
	Interrupted Status = "interrupted" // the run was interrupted
)

// ProbeResult is what a probe gave.
type ProbeResult struct {
	Name   string `json:"name"`
	Help   string `json:"help"`
	Needs  string `json:"needs,omitempty"`
	Unit   string `json:"unit"`
	Better string `json:"better"`
	Status Status `json:"status"`
	Why    string `json:"why,omitempty"` // it did not end as planned

	Samples    int     `json:"samples"`
	Operations int     `json:"operations"`
	Batch      int     `json:"batch"` // the largest; 1: timed one by one
	Warmup     int     `json:"warmup_samples"`
	Seconds    float64 `json:"seconds"`
	Stopped    string  `json:"stopped,omitempty"` // by what
	// Sequence says that the intervals hold at every look (until decided).
	Sequence bool `json:"sequence,omitempty"`
	// Tau is how many samples in a row count as one.
	Tau float64 `json:"autocorrelation_time,omitempty"`

	Mean       *assay.Quantity `json:"mean,omitempty"`
	P50        *assay.Quantity `json:"p50,omitempty"`
	P90        *assay.Quantity `json:"p90,omitempty"`
	P95        *assay.Quantity `json:"p95,omitempty"`
	P99        *assay.Quantity `json:"p99,omitempty"`
	Throughput *assay.Quantity `json:"throughput,omitempty"`
	Min        *float64        `json:"min,omitempty"`
	Max        *float64        `json:"max,omitempty"`
	Stddev     *float64        `json:"stddev,omitempty"`
	Outliers   *Outliers       `json:"outliers,omitempty"`
	Change     *Change         `json:"change,omitempty"`

	Extra map[string]Extra `json:"extra,omitempty"`
	// Values are samples in their order; every Stride-th of them when there are
	// more than a file should hold.
	Values []float64 `json:"values,omitempty"`
	Stride int       `json:"stride,omitempty"`
}

// Outliers are marked by Tukey's fences and never dropped.
type Outliers struct {
	Mild    int `json:"mild"`
	Extreme int `json:"extreme"`
}

// Extra is a further figure of a probe.
type Extra struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// known is nil for what JSON cannot hold.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Advice is something to look at or to change, with the readings that it rests
// on. Nothing here is ever applied by us: a measurement that changes the machine
// measures another machine. What was not read gives no advice.
type Advice struct {
	Kind     string   `json:"kind"`  // bottleneck, variation, tuning, hardware
	About    string   `json:"about"` // a claim, a probe or a setting
	Text     string   `json:"text"`
	Evidence []string `json:"evidence"`
	// Command is what to type, as root where it says sudo; empty: there is no one
	// command.
	Command string `json:"command,omitempty"`
}

// Profile says where processor time went while probes were measured.
type Profile struct {
	By      string   `json:"by"`            // perf, runtime/pprof
	Of      []string `json:"of"`            // the processes
	Samples int64    `json:"samples"`       // of the stacks
	Hertz   int      `json:"hertz"`         // how often a processor was looked at
	Why     string   `json:"why,omitempty"` // what is not in it, and why
	Hot     []Hot    `json:"hot"`           // the hottest functions, the hottest first
}

// Hot is a function in which processor time was spent.
type Hot struct {
	Process  string  `json:"process"`
	Function string  `json:"function"`
	Self     float64 `json:"self"`  // share of the samples in it
	Total    float64 `json:"total"` // in it and in what it calls
	Path     string  `json:"path"`  // the commonest way to it, the caller first
}

// Missing are the prerequisites that are not there or not known, in words.
func (r *Result) Missing() []string {
	var out []string
	for _, p := range r.Prerequisites {
		if text := p.Missing(); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// WrongWithoutClaim are the probes that fail without anything being promised.
func (r *Result) WrongWithoutClaim() []ProbeResult {
	var out []ProbeResult
	for _, p := range r.Probes {
		claimed := false
		for _, c := range r.Claims {
			claimed = claimed || c.Probe == p.Name
		}
		if p.Status == Wrong && !claimed {
			out = append(out, p)
		}
	}
	return out
}
