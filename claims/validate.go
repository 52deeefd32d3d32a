package claims

import "github.com/assay-bench/assay"

// ValidateFile is the name of the results under the names that a validator of
// single-node results reads: see docs/formats/claims.md.
const ValidateFile = "validate_results.json"

// validated maps the validator's figures to ours: which figure of which probe,
// and how many of the validator's unit one of ours is.
var validated = []struct {
	group, key string
	probe      string
	figure     func(ProbeResult) *assay.Quantity
	scale      float64
}{
	{"consensus", "p95", "consensus/single_vote", func(p ProbeResult) *assay.Quantity { return p.P95 }, 1e6},                  // µs
	{"synthesis", "throughput", "synthesis/pattern_matching", func(p ProbeResult) *assay.Quantity { return p.Throughput }, 1}, // operations a second
	{"memory", "migration_p95", "memory_tiers/gpu_to_cpu_1mb", func(p ProbeResult) *assay.Quantity { return p.P95 }, 1e3},     // ms
	{"container", "spawn_p95", "spawn/namespaces", func(p ProbeResult) *assay.Quantity { return p.P95 }, 1e6},                 // µs
	{"gpu", "utilization_avg", "gpu/utilization", func(p ProbeResult) *assay.Quantity { return p.Mean }, 100},                 // %
}

// Validate gives the results under the validator's names and in its units. What
// is not known is null: a name that is absent the validator takes for 0, and 0 for
// a kept promise.
func (r *Result) Validate() map[string]map[string]*float64 {
	out := map[string]map[string]*float64{}
	for _, v := range validated {
		if out[v.group] == nil {
			out[v.group] = map[string]*float64{}
		}
		out[v.group][v.key] = nil
		for _, p := range r.Probes {
			if p.Name != v.probe || p.Status != Measured {
				continue
			}
			if q := v.figure(p); q != nil && q.Known() {
				out[v.group][v.key] = known(q.Est * v.scale)
			}
		}
	}
	return out
}
