// Package campaign has the words and the rules of measuring rented machines: the
// matrix that says what is to be measured, the plan that it expands to, what a cell
// needs of a GPU's memory and of somebody's money, and what is done after which
// failure.
//
// It is pure: nothing here rents, connects, sleeps or asks a clock. Two promises are
// made. A cell that cannot fit is skipped before anything is rented for it, and its
// reason has the numbers; a cell of which that is not known is skipped as well. And a
// bound of the cost counts everything that a provider bills: time, disk, and what is
// transferred, for every try that is allowed.
package campaign

// Stage is how far a cell has come, and where a failure happened.
type Stage string

// The stages of a cell, in their order.
const (
	Provision Stage = "provision" // rent the machine and reach it by SSH
	Setup     Stage = "setup"     // look at its GPU, install the engine
	Load      Stage = "load"      // pull the model, load it, warm it up
	Benchmark Stage = "benchmark" // measure
	Collect   Stage = "collect"   // bring the results back
)

// Stages lists the stages in their order.
func Stages() []Stage { return []Stage{Provision, Setup, Load, Benchmark, Collect} }

// Status is what became of a cell.
type Status string

// The statuses of a cell. The last four are final.
const (
	Pending Status = "pending" // nothing was done yet
	Running Status = "running" // some machine may be rented for it
	Success Status = "success" // measured, and the results are in
	Partial Status = "partial" // interrupted, and what was measured is in
	Failed  Status = "failed"  // nothing usable came of it
	Skipped Status = "skipped" // never tried: it does not fit, or there is no money for it
)

// Statuses lists the statuses in the order in which a cell may pass them.
func Statuses() []Status { return []Status{Pending, Running, Success, Partial, Failed, Skipped} }

// Cell is one thing to measure: a model by an engine on a GPU of a provider.
type Cell struct {
	GPU      string `json:"gpu"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Engine   string `json:"engine"`
}

// Key names a cell within its matrix, where it is unique.
func (c Cell) Key() string { return c.GPU + "/" + c.Provider + "/" + c.Model + "/" + c.Engine }
