package score

import (
	"fmt"

	"github.com/assay-bench/assay"
)

const (
	// leastWeight is the fewest bytes that a parameter takes: two bits, the
	// coarsest that engines serve.
	leastWeight = 0.25
	// sizeTolerance is how many times larger or smaller than the workload's a
	// model may be: a profile for 7B is meant for 8B too, and not for 13B.
	sizeTolerance = 1.5
	// executionCheck is what a run finds of where its model ran. It is there only
	// when the engine is on the machine that was read.
	executionCheck = "model.execution"
)

// modelSizes compares the model with the size that the workload is for, and its
// weights with the memory that is in use. Both are notes: the first is about
// what was asked, and the second about what engine and driver say, of which one
// may be wrong.
func modelSizes(in Input) []assay.Finding {
	e := in.Manifest.Engine
	asked, err := assay.ParseModelSize(in.Manifest.Judge.ModelSize)
	if err != nil {
		asked = 0
	}
	var out []assay.Finding
	if r := e.ModelParameters / asked; asked > 0 && e.ModelParameters > 0 && (r > sizeTolerance || r < 1/sizeTolerance) {
		out = append(out, one(assay.Unknown, false,
			fmt.Sprintf("the workload is for a model of %s parameters, and the engine serves one of %s", parameters(asked), parameters(e.ModelParameters)),
			"choose the profile for the model, or serve the model that the profile is for",
			map[string]float64{"asked_parameters": asked, "model_parameters": e.ModelParameters})...)
	}
	need, words := float64(e.ModelBytes), "the engine says that its model has"
	switch {
	case need > 0:
	case e.ModelParameters > 0:
		need, words = e.ModelParameters*leastWeight, "a model of "+parameters(e.ModelParameters)+" parameters has at least"
	default:
		need, words = asked*leastWeight, "a model of "+parameters(asked)+" parameters, which the workload is for, has at least"
	}
	if held, ok := vramHeld(in); ok && held < need {
		out = append(out, one(assay.Unknown, false,
			fmt.Sprintf("%s %s of weights, and all GPUs together hold %s: it is not wholly on the GPUs, or it is another model", words, *gigabytes(need), *gigabytes(held)),
			"see how many layers the engine put on the GPU",
			map[string]float64{"model_bytes": need, "vram_bytes": held})...)
	}
	return out
}

// vramHeld is the most memory that was in use on all GPUs together. It is not
// known where the engine is elsewhere, or where a GPU was not read.
func vramHeld(in Input) (float64, bool) {
	here := false
	for _, c := range in.Checks {
		here = here || c.Name == executionCheck
	}
	cards := cardsOf(in)
	if !here || len(cards) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, c := range cards {
		most, read := 0.0, false
		for _, g := range in.Summary.GPUs {
			if v, ok := maxOf(g, assay.GPUMemoryUsed); ok && g.UUID == c.UUID {
				most, read = max(most, v), true
			}
		}
		if !read {
			return 0, false
		}
		sum += most
	}
	return sum, true
}

// parameters writes a number of parameters as people do.
func parameters(n float64) string {
	for _, u := range []struct {
		unit string
		n    float64
	}{{"T", 1e12}, {"B", 1e9}, {"M", 1e6}, {"K", 1e3}} {
		if n >= u.n {
			return num(n/u.n) + u.unit
		}
	}
	return num(n)
}
