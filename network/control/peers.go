package control

import (
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// ChooseBaseline says what a node is compared with: its own accepted baseline,
// else the median of its peers, else nothing. Like is what the node runs: its GPU,
// their number, engine, model and load. A node chooses none of it: the server does.
func ChooseBaseline(p Policy, like assay.Baseline, own *assay.Baseline, peers []assay.Baseline) (*assay.Baseline, Basis) {
	if own != nil && same(like, *own) {
		return own, BasisOwn
	}
	if b, ok := PeerBaseline(like, peers, p.Newcomer.MinPeers); ok {
		return &b, BasisPeers
	}
	return nil, BasisNone
}

// PeerBaseline is the median of the figures of peers, one baseline each, that
// have the same GPU, number of GPUs, engine, model and load. A figure that fewer
// than least of them have is not scored; without any there is no baseline.
func PeerBaseline(like assay.Baseline, peers []assay.Baseline, least int) (assay.Baseline, bool) {
	least = max(1, least)
	var of []assay.Baseline
	for _, b := range peers {
		if same(like, b) && like.Load == b.Load && like.At == b.At {
			of = append(of, b)
		}
	}
	out := assay.Baseline{
		Format: assay.BaselineFormat, Name: "peers",
		Source:   fmt.Sprintf("the median of %d admitted peers", len(of)),
		GPUModel: like.GPUModel, GPUCount: like.GPUCount, Engine: like.Engine, Model: like.Model,
		Load: like.Load, At: like.At,
	}
	median := func(figure func(assay.Baseline) *float64) *float64 {
		var values []float64
		for _, b := range of {
			if v := figure(b); v != nil && *v > 0 && !math.IsInf(*v, 0) {
				values = append(values, *v)
			}
		}
		if len(values) < least {
			return nil
		}
		v := stat.Median(values)
		return &v
	}
	out.TTFTp99MS = median(func(b assay.Baseline) *float64 { return b.TTFTp99MS })
	out.TPOTp50MS = median(func(b assay.Baseline) *float64 { return b.TPOTp50MS })
	out.OutputTokensPerSecond = median(func(b assay.Baseline) *float64 { return b.OutputTokensPerSecond })
	out.TokensPerJoule = median(func(b assay.Baseline) *float64 { return b.TokensPerJoule })
	any := out.TTFTp99MS != nil || out.TPOTp50MS != nil || out.OutputTokensPerSecond != nil || out.TokensPerJoule != nil
	return out, any && len(of) >= least
}

// same says whether figures are of the same thing. A model or an engine that is
// not named is nobody's peer.
func same(a, b assay.Baseline) bool {
	return a.Model != "" && a.Engine != "" &&
		strings.EqualFold(a.GPUModel, b.GPUModel) && a.GPUCount == b.GPUCount &&
		a.Engine == b.Engine && a.Model == b.Model
}
