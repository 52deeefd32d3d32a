package place

import (
	"fmt"
	"io"
	"slices"

	"github.com/assay-bench/assay"
)

type nodesFile struct {
	Format string `yaml:"format"`
	Nodes  []struct {
		ID        string  `yaml:"id"`
		GPU       string  `yaml:"gpu"`
		GPUs      int     `yaml:"gpus"`
		MemoryGiB float64 `yaml:"memory_gib"`
		Cost      amount  `yaml:"cost_per_hour"`
		State     string  `yaml:"state"`
		Serves    string  `yaml:"serves"`
		Measured  []struct {
			Model  string `yaml:"model"`
			Levels []struct {
				Requests *float64 `yaml:"requests_per_second"`
				Tokens   *float64 `yaml:"tokens_per_second"`
				TTFT     *float64 `yaml:"ttft_p99_ms"`
				TPOT     *float64 `yaml:"tpot_p99_ms"`
			} `yaml:"levels"`
		} `yaml:"measured"`
	} `yaml:"nodes"`
}

var states = []string{"pending", "verifying", "admitted", "degraded", "quarantined", "re-verifying"}

// ReadNodes reads nodes from a file, for a placement without a server. Costs are in
// the currency that is given.
func ReadNodes(r io.Reader, name, currency string) ([]Node, error) {
	var in nodesFile
	c, err := decode(r, name, maxNodesBytes, &in)
	if err != nil {
		return nil, err
	}
	c.check("$.format", in.Format == "assay/nodes/v1", "it must be assay/nodes/v1")
	c.check("$.nodes", len(in.Nodes) <= maxNodes, "it has more than %d", maxNodes)
	if err := c.err(); err != nil {
		return nil, err
	}
	out := make([]Node, 0, len(in.Nodes))
	seen := map[string]bool{}
	for i, v := range in.Nodes {
		at := fmt.Sprintf("$.nodes[%d]", i)
		n := Node{ID: v.ID, GPU: v.GPU, GPUs: v.GPUs, MemoryGiB: v.MemoryGiB}
		if n.GPUs == 0 {
			n.GPUs = 1
		}
		c.check(at, named(v.ID) && !seen[v.ID], "it needs an id of its own, of at most %d bytes", maxName)
		seen[v.ID] = true
		c.check(at, n.GPUs > 0 && n.GPUs <= maxGPUs && (v.GPU == "" || named(v.GPU)), "it has 1 to %d gpus, with a name", maxGPUs)
		c.check(at, finite(v.MemoryGiB, maxAmount), "memory_gib is not negative")
		if v.Cost != "" {
			m, err := assay.ParseMoney(string(v.Cost), currency)
			c.check(at, err == nil, "cost_per_hour: %v", err)
			n.Cost = &m
		}
		switch {
		case v.State == "", v.State == "admitted", v.State == "degraded":
		case slices.Contains(states, v.State):
			n.Excluded = "it is " + v.State
		default:
			c.check(at, false, "state is one of %v", states)
		}
		if v.Serves != "" {
			n.Serves = []string{v.Serves}
		}
		c.check(at, len(v.Measured) <= maxModels, "it has more than %d models", maxModels)
		for _, m := range v.Measured[:min(len(v.Measured), maxModels)] {
			one := Measured{Model: m.Model}
			c.check(at, named(m.Model), "measured: it needs a model")
			c.check(at, !slices.ContainsFunc(n.Measured, func(o Measured) bool { return o.Model == m.Model }), "measured: a model is there twice")
			c.check(at, len(m.Levels) > 0 && len(m.Levels) <= maxLevels, "measured: a model has 1 to %d levels", maxLevels)
			for _, l := range m.Levels[:min(len(m.Levels), maxLevels)] {
				ok := l.Requests != nil
				for _, f := range []*float64{l.Requests, l.Tokens, l.TTFT, l.TPOT} {
					ok = ok && (f == nil || finite(*f, maxAmount))
				}
				c.check(at, ok, "measured: a level needs requests_per_second, and no figure is negative")
				if ok {
					one.Levels = append(one.Levels, Level{Requests: *l.Requests, Tokens: l.Tokens, TTFT: l.TTFT, TPOT: l.TPOT})
				}
			}
			n.Measured = append(n.Measured, one)
		}
		out = append(out, n)
	}
	return out, c.err()
}
