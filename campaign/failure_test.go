package campaign

import (
	"slices"
	"testing"
)

// The table of the document that campaigns come from, row by row.
func TestFailureTable(t *testing.T) {
	for _, c := range []struct {
		stage    Stage
		cause    Cause
		then     Then
		location bool
		machine  bool
		keep     bool
		ends     Status
	}{
		{Provision, CauseCapacity, ThenNextOffer, true, false, false, Failed},
		{Provision, CauseStopped, ThenNextOffer, true, false, false, Failed},
		{Provision, CauseSSH, ThenNextOffer, true, false, false, Failed},
		{Setup, CauseGPU, ThenNextOffer, false, true, false, Failed},
		{Load, CauseSize, ThenEnd, false, false, false, Skipped},
		{Load, CauseMemory, ThenNextOffer, false, true, false, Failed},
		{Load, CauseEngine, ThenRestart, false, false, false, Failed},
		{Benchmark, CauseStuck, ThenNextOffer, false, true, true, Partial},
		{Benchmark, CauseLost, ThenReconnect, true, false, true, Partial},
		{Benchmark, CauseExit, ThenEnd, false, false, true, Partial},
		{Collect, CauseMissing, ThenCollect, false, false, true, Partial},
		{Collect, CauseHostile, ThenNextOffer, false, true, false, Failed},
		{Collect, CauseForged, ThenNextOffer, false, true, false, Failed},
		{Benchmark, CauseKilled, ThenReconnect, false, false, true, Partial},
		{Setup, CauseKilled, ThenReconnect, false, false, false, Failed},
		{Load, CauseCancelled, ThenEnd, false, false, false, Failed},
		{Collect, CauseCancelled, ThenEnd, false, false, true, Partial},
		{Setup, CauseHostKey, ThenNextOffer, false, true, false, Failed},
		{Setup, CauseStopped, ThenNextOffer, true, false, false, Failed},
		{Provision, CauseBudget, ThenEnd, false, false, false, Skipped},
		{Setup, "what nobody thought of", ThenNextOffer, false, false, false, Failed},
		{Provision, CauseStuck, ThenNextOffer, false, false, false, Failed},
	} {
		got := RemedyFor(c.stage, c.cause)
		if got.Then != c.then || got.Location != c.location || got.Machine != c.machine || got.Keep != c.keep || got.Ends != c.ends || got.Words == "" {
			t.Errorf("%s, %s: %+v", c.stage, c.cause, got)
		}
	}
	if !RemedyFor(Provision, CauseKey).Halt {
		t.Error("a refused key does not stop the renting")
	}
}

// Every row ends in a status that is final, keeps results only where there can be
// some, and stands once.
func TestFailureTableIsSound(t *testing.T) {
	seen := map[failureKey]bool{}
	for _, f := range failures() {
		key := failureKey{f.stage, f.cause}
		if seen[key] {
			t.Errorf("%s, %s stands twice", f.stage, f.cause)
		}
		seen[key] = true
		if !slices.Contains([]Status{Partial, Failed, Skipped}, f.Ends) {
			t.Errorf("%s, %s ends as %s", f.stage, f.cause, f.Ends)
		}
		if f.Keep != (f.Ends == Partial) {
			t.Errorf("%s, %s: keep %v, ends as %s", f.stage, f.cause, f.Keep, f.Ends)
		}
		if f.Keep && (f.stage == Provision || f.stage == Setup || f.stage == Load) {
			t.Errorf("%s, %s keeps what was never measured", f.stage, f.cause)
		}
		if f.stage != "" && !slices.Contains(Stages(), f.stage) {
			t.Errorf("stage %q", f.stage)
		}
	}
}

type failureKey struct {
	stage Stage
	cause Cause
}
