package claims

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay"
)

// The file has the five names that the validator reads, in its units; what was
// not measured is null there, which the validator cannot compare, and not absent,
// which it would take for 0 and pass.
func TestValidateResultsKeys(t *testing.T) {
	match := fake("synthesis/pattern_matching", around(2.6e9))
	match.Unit, match.Better = unitRate, assay.Higher
	busy := fake("gpu/utilization", around(0.9))
	busy.Unit, busy.Better = unitRatio, assay.Higher
	o := fixture(t)
	o.Dir = filepath.Join(t.TempDir(), "r")
	runFile(t, o, claimLines("probe: consensus/single_vote, metric: p95, target: <= 1s")+"measure: [\"*/*\"]\n",
		fake("consensus/single_vote", around(49e-6)), match, fake("memory_tiers/gpu_to_cpu_1mb", around(2e-3)), busy, refused("spawn/namespaces", ErrUnavailable))
	b, err := os.ReadFile(filepath.Join(o.Dir, ValidateFile))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]map[string]*float64
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]struct {
		key   string
		value float64
	}{"consensus": {"p95", 49}, "synthesis": {"throughput", 2.6e9}, "memory": {"migration_p95", 2}, "gpu": {"utilization_avg", 90}} {
		if v := got[group][want.key]; v == nil || !(math.Abs(*v/want.value-1) < 0.02) {
			t.Errorf("%s.%s: %v, want about %g", group, want.key, v, want.value)
		}
	}
	if v, there := got["container"]["spawn_p95"]; !there || v != nil {
		t.Errorf("what was not measured should be null: %s", b)
	}
}
