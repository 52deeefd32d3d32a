package campaign

// Cause is why a try failed, within its stage. Causes stand in histories and in SQL:
// they stay.
type Cause string

// The causes of failures.
const (
	CauseUnknown   Cause = "unknown"     // none of the others
	CauseCancelled Cause = "cancelled"   // somebody asked for it
	CauseTimeout   Cause = "timeout"     // a stage took longer than it may
	CauseKey       Cause = "key"         // the provider refused our key
	CauseNoOffer   Cause = "no-offer"    // none is left that was not tried
	CauseBudget    Cause = "budget"      // a cap does not allow another machine
	CauseHeld      Cause = "held"        // the provider must not be used now
	CauseCapacity  Cause = "no-capacity" // no nodes, no public addresses, a stale offer
	CauseStopped   Cause = "stopped"     // by the provider
	CauseSSH       Cause = "ssh"         // not ready within its time
	CauseHostKey   Cause = "host-key"    // another machine answers at its address
	CauseLease     Cause = "lease"       // the lease ended
	CauseGPU       Cause = "gpu"         // no nvidia-smi, or another GPU than was rented
	CauseSize      Cause = "size"        // by arithmetic the model is larger than the memory
	CauseMemory    Cause = "memory"      // too little of the memory is free on this machine
	CauseEngine    Cause = "engine"      // does not answer
	CauseStuck     Cause = "stuck"       // tokens a second fell far below those of the first minute
	CauseLost      Cause = "lost"        // the connection broke, and the machine does not come back
	CauseExit      Cause = "exit"        // the benchmark ended with another status than 0
	CauseMissing   Cause = "missing"     // there are no results, or less than their size
	CauseHostile   Cause = "hostile"     // results too large, or none by their schema
	CauseForged    Cause = "forged"      // results that are not what was measured
	CauseKilled    Cause = "killed"      // we were, midway
)

// Then is what is tried next.
type Then string

// What can be tried next.
const (
	ThenNextOffer Then = "another offer"      // destroy, and take another one
	ThenRestart   Then = "restart the engine" // once, on the same machine; then another offer
	ThenReconnect Then = "connect again"      // and read the run directory; then another offer
	ThenCollect   Then = "collect again"      // once; then another offer
	ThenEnd       Then = "end"                // destroy, and the cell has its final status
)

// Remedy is what is done after a failure. Whatever it is, an offer that failed is not
// taken again by its cell, and a machine that is left is destroyed first.
type Remedy struct {
	Then Then
	// Location: that location is trusted less from now on.
	Location bool
	// Machine: this machine is not rented again.
	Machine bool
	// Keep: what was measured so far is imported as partial.
	Keep bool
	// Halt: nothing more is rented from this provider, by any cell.
	Halt bool
	// Ends is the cell's status when nothing more is tried.
	Ends Status
	// Words say it to people.
	Words string
}

type failure struct {
	stage Stage // empty: any
	cause Cause
	Remedy
}

// Sentences that several rows share.
const (
	nextOffer   = "destroy, next offer"
	nextPlace   = "destroy, next offer; this location is trusted less"
	nextMachine = "destroy, do not rent this machine again, next offer"
	keptPartial = "; what was measured is kept as partial"
)

// failures is the table. A row of a stage comes before one of all.
func failures() []failure {
	return []failure{
		{Provision, CauseCapacity, Remedy{Then: ThenNextOffer, Location: true, Ends: Failed, Words: "another location; this one is trusted less"}},
		{Provision, CauseStopped, Remedy{Then: ThenNextOffer, Location: true, Ends: Failed, Words: nextPlace}},
		{Provision, CauseSSH, Remedy{Then: ThenNextOffer, Location: true, Ends: Failed, Words: nextPlace}},
		{Provision, CauseTimeout, Remedy{Then: ThenNextOffer, Location: true, Ends: Failed, Words: nextPlace}},
		{Provision, CauseNoOffer, Remedy{Then: ThenEnd, Ends: Failed, Words: "wait for other offers, or allow a higher price"}},

		{Setup, CauseGPU, Remedy{Then: ThenNextOffer, Machine: true, Ends: Failed, Words: nextMachine}},
		{Setup, CauseEngine, Remedy{Then: ThenRestart, Ends: Failed, Words: "restart the engine once, then next offer"}},

		{"", CauseSize, Remedy{Then: ThenEnd, Ends: Skipped, Words: "skipped before renting: it cannot fit, wherever it is tried"}},
		{Load, CauseMemory, Remedy{Then: ThenNextOffer, Machine: true, Ends: Failed, Words: nextMachine}},
		{Load, CauseEngine, Remedy{Then: ThenRestart, Ends: Failed, Words: "restart the engine once, then next offer"}},

		{Benchmark, CauseEngine, Remedy{Then: ThenRestart, Keep: true, Ends: Partial, Words: "restart the engine once, then next offer" + keptPartial}},
		{Benchmark, CauseStuck, Remedy{Then: ThenNextOffer, Machine: true, Keep: true, Ends: Partial, Words: nextMachine + keptPartial}},
		{Benchmark, CauseLost, Remedy{Then: ThenReconnect, Location: true, Keep: true, Ends: Partial, Words: "connect again and read the run directory, then next offer" + keptPartial}},
		{Benchmark, CauseStopped, Remedy{Then: ThenNextOffer, Location: true, Keep: true, Ends: Partial, Words: nextPlace + keptPartial}},
		{Benchmark, CauseTimeout, Remedy{Then: ThenNextOffer, Keep: true, Ends: Partial, Words: nextOffer + keptPartial}},
		{Benchmark, CauseExit, Remedy{Then: ThenEnd, Keep: true, Ends: Partial, Words: "the error log comes back with the results" + keptPartial}},

		{Collect, CauseLost, Remedy{Then: ThenReconnect, Location: true, Keep: true, Ends: Partial, Words: "connect again and read the run directory, then next offer" + keptPartial}},
		{Collect, CauseMissing, Remedy{Then: ThenCollect, Keep: true, Ends: Partial, Words: "collect once more, then next offer" + keptPartial}},
		{Collect, CauseHostile, Remedy{Then: ThenNextOffer, Machine: true, Ends: Failed, Words: "nothing of it is kept; " + nextMachine}},
		{Collect, CauseForged, Remedy{Then: ThenNextOffer, Machine: true, Ends: Failed, Words: "nothing of it is kept; " + nextMachine}},

		{"", CauseHostKey, Remedy{Then: ThenNextOffer, Machine: true, Ends: Failed, Words: nextMachine}},
		{"", CauseHostile, Remedy{Then: ThenNextOffer, Machine: true, Ends: Failed, Words: nextMachine}},
		{"", CauseStopped, Remedy{Then: ThenNextOffer, Location: true, Ends: Failed, Words: nextPlace}},
		{"", CauseLost, Remedy{Then: ThenReconnect, Location: true, Ends: Failed, Words: "connect again, then next offer"}},
		{"", CauseLease, Remedy{Then: ThenNextOffer, Keep: true, Ends: Partial, Words: nextOffer + keptPartial}},
		{"", CauseKey, Remedy{Then: ThenEnd, Halt: true, Ends: Failed, Words: "nothing more is rented from this provider until its key is good: assay campaign check"}},
		{"", CauseHeld, Remedy{Then: ThenEnd, Ends: Failed, Words: "nothing is rented from this provider until its list can be trusted again"}},
		{"", CauseBudget, Remedy{Then: ThenEnd, Ends: Skipped, Words: "nothing is rented; give more budget, or pay in"}},
		{"", CauseKilled, Remedy{Then: ThenReconnect, Keep: true, Ends: Partial, Words: "go on where it was" + keptPartial}},
		{"", CauseCancelled, Remedy{Then: ThenEnd, Keep: true, Ends: Partial, Words: "destroy" + keptPartial}},
	}
}

// RemedyFor is what is done after a failure. One that is not in the table is met as
// the plainest of them: the machine is destroyed, another offer is taken, and nothing
// of it counts. Before the benchmark there is nothing to keep.
func RemedyFor(stage Stage, cause Cause) Remedy {
	for _, f := range failures() {
		if f.cause != cause || f.stage != stage && f.stage != "" {
			continue
		}
		r := f.Remedy
		if r.Keep && stage != Benchmark && stage != Collect {
			r.Keep, r.Ends = false, Failed
		}
		return r
	}
	return Remedy{Then: ThenNextOffer, Ends: Failed, Words: nextOffer}
}
