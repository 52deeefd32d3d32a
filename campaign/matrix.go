package campaign

import (
	"time"

	"github.com/assay-bench/assay"
)

// MatrixFormat names the format of a matrix (docs/formats/matrix.md).
const MatrixFormat = "assay/matrix/v1"

// Matrix is what is to be measured, and what may be spent on it.
type Matrix struct {
	Name     string
	Currency string
	Budget   Budget
	Groups   []Group
	Models   []Model
	Engine   Settings
	Limits   Limits
	Expect   Limits
}

// Budget is what may be spent. A cap that is not given is nil: nothing is rented
// without one for the campaign.
type Budget struct {
	Campaign *assay.Money `json:"campaign"`
	Cell     *assay.Money `json:"cell"`
	Day      *assay.Money `json:"day"` // a day of UTC
}

// Group is a product: each of its GPUs at each of its providers with each of its
// models by each of its engines.
type Group struct {
	GPUs, Providers, Models, Engines []string
	// Count is how many GPUs a machine has.
	Count int
	// Memory is that of one GPU, for names that several cards share; 0: by the name.
	Memory int64
}

// Settings are how models are served and measured, for all cells.
type Settings struct {
	Serving
	Duration time.Duration // of the benchmark
	DiskGB   int
	Attempts int
	// HourCap is the highest price an hour of an offer that is considered; nil: any.
	HourCap *assay.Money
}

// Limits are how long each stage may take, or is expected to.
type Limits struct {
	Provision, Setup, Load, Benchmark, Collect time.Duration
	// End is how long a machine may live on after the last stage, until it is
	// destroyed.
	End time.Duration
}

// stages are the limits by stage, in seconds.
func (l Limits) stages() map[Stage]float64 {
	return map[Stage]float64{
		Provision: l.Provision.Seconds(), Setup: l.Setup.Seconds(), Load: l.Load.Seconds(),
		Benchmark: l.Benchmark.Seconds(), Collect: l.Collect.Seconds(),
	}
}

// Life is how long a machine lives if every stage takes its limit.
func (l Limits) Life() time.Duration {
	return l.Provision + l.Setup + l.Load + l.Benchmark + l.Collect + l.End
}
