package claims

import (
	"math"
	"testing"

	"github.com/assay-bench/assay"
)

// Both directions × pass, fail, straddling, missing, NaN: the table.
func TestVerdicts(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	known := func(lo, est, hi float64) assay.Quantity { return assay.Quantity{N: 100, Lo: lo, Est: est, Hi: hi} }
	for _, c := range []struct {
		name string
		op   string
		q    assay.Quantity
		want assay.Verdict
	}{
		{"lower, kept", "<=", known(90, 95, 99), assay.Pass},
		{"lower, kept to the point", "<=", known(90, 95, 100), assay.Pass},
		{"lower, broken", "<=", known(101, 105, 110), assay.Fail},
		{"lower, straddling, point keeps", "<=", known(90, 95, 101), assay.Unknown},
		{"lower, straddling, point breaks", "<=", known(90, 105, 110), assay.Unknown},
		{"lower, touching from above", "<=", known(100, 105, 110), assay.Unknown},
		{"lower, missing", "<=", assay.UnknownQuantity("not measured"), assay.Unknown},
		{"lower, zero value of the type", "<=", assay.Quantity{}, assay.Unknown},
		{"lower, estimate NaN", "<=", known(1, nan, 2), assay.Unknown},
		{"lower, low NaN", "<=", known(nan, 1, 2), assay.Unknown},
		{"lower, high NaN", "<=", known(1, 1, nan), assay.Unknown},
		{"lower, ends crossed", "<=", known(3, 2, 1), assay.Unknown},
		{"lower, open above", "<=", known(50, 50, inf), assay.Unknown},
		{"lower, open above, all broken", "<=", known(101, 101, inf), assay.Fail},
		{"lower, strict, touching", "<", known(90, 95, 100), assay.Unknown},
		{"lower, strict, at the target", "<", known(100, 100, 100), assay.Fail},

		{"higher, kept", ">=", known(101, 105, 110), assay.Pass},
		{"higher, kept to the point", ">=", known(100, 105, 110), assay.Pass},
		{"higher, broken", ">=", known(90, 95, 99), assay.Fail},
		{"higher, straddling, point keeps", ">=", known(99, 105, 110), assay.Unknown},
		{"higher, straddling, point breaks", ">=", known(90, 95, 101), assay.Unknown},
		{"higher, missing", ">=", assay.UnknownQuantity("not measured"), assay.Unknown},
		{"higher, zero value of the type", ">=", assay.Quantity{}, assay.Unknown},
		{"higher, estimate NaN", ">=", known(101, nan, 110), assay.Unknown},
		{"higher, low NaN", ">=", known(nan, 105, 110), assay.Unknown},
		{"higher, high NaN", ">=", known(105, 105, nan), assay.Unknown},
		{"higher, open below", ">=", known(-inf, 150, 150), assay.Unknown},
		{"higher, strict, touching", ">", known(100, 105, 110), assay.Unknown},
		{"no operator", "", known(1, 1, 1), assay.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (Target{Op: c.op, Value: 100}).Judge(c.q); got != c.want {
				t.Errorf("%s 100 of [%g %g %g]: %v, want %v", c.op, c.q.Lo, c.q.Est, c.q.Hi, got, c.want)
			}
		})
	}
	if got := (Target{Op: "<=", Value: nan}).Judge(known(1, 1, 1)); got != assay.Unknown {
		t.Errorf("a target that is no number: %v", got)
	}
}

// firstValidator is the one that this package replaces: a value that is not
// there is 0, and everything passes that is at most its target.
func firstValidator(results map[string]map[string]float64) map[string]bool {
	out := map[string]bool{}
	for name, v := range map[string]struct {
		target        float64
		family, value string
	}{
		"consensus_latency_us":  {100, "consensus", "p95"},
		"synthesis_ops_per_sec": {2.6e9, "synthesis", "throughput"},
		"memory_migration_ms":   {50, "memory", "migration_p95"},
		"container_spawn_us":    {500, "container", "spawn_p95"},
		"gpu_utilization_pct":   {90, "gpu", "utilization_avg"},
	} {
		out[name] = results[v.family][v.value] <= v.target
	}
	return out
}

// The first validator passes what was never measured and turns throughput round.
// Ours does neither.
func TestFirstValidatorIsWrongAndOursIsNot(t *testing.T) {
	exact := func(v float64) assay.Quantity { return assay.Quantity{N: 1000, Est: v, Lo: v * 0.99, Hi: v * 1.01} }

	nothing := firstValidator(nil)
	for name, passed := range nothing {
		if !passed {
			t.Errorf("the first validator is expected to pass %s without a value", name)
		}
	}
	for _, op := range []string{"<=", ">="} {
		if v := (Target{Op: op, Value: 100}).Judge(assay.UnknownQuantity("not measured")); v != assay.Unknown {
			t.Errorf("ours: a missing value under %s is %v", op, v)
		}
	}

	slow := firstValidator(map[string]map[string]float64{"synthesis": {"throughput": 1e6}, "gpu": {"utilization_avg": 3}})
	fast := firstValidator(map[string]map[string]float64{"synthesis": {"throughput": 3e9}, "gpu": {"utilization_avg": 97}})
	for _, name := range []string{"synthesis_ops_per_sec", "gpu_utilization_pct"} {
		if !slow[name] || fast[name] {
			t.Errorf("the first validator is expected to invert %s", name)
		}
	}
	target := Target{Op: ">=", Value: 2.6e9}
	if v := target.Judge(exact(1e6)); v != assay.Fail {
		t.Errorf("ours: a million operations a second against 2.6 G/s: %v", v)
	}
	if v := target.Judge(exact(3e9)); v != assay.Pass {
		t.Errorf("ours: 3 G/s against 2.6 G/s: %v", v)
	}
}
