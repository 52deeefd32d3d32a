package identity

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/verify"
)

// Bounds of what a model can be, where only the size of its weights is known: of a
// mixture of experts a token reads a part, and speculative decoding has several
// tokens from one reading. They are the most that is known of released models,
// rounded up, so that only what no model can do is beyond them.
const (
	maxExperts     = 32
	maxSpeculation = 8
)

// minRead is how much memory must have been read: less fits into caches.
const minRead = 1 << 30

// Physics compares what a run says with the peaks of the cards that it names. The
// run's own verdicts are not read: a node writes them.
func Physics(node string, m assay.Manifest, s assay.Summary, checks []assay.Check) (out []Finding) {
	catalogue, err := verify.ShippedCatalog()
	if err != nil {
		return nil
	}
	whole, known := 0.0, len(m.Node.GPUs) > 0
	for _, g := range m.Node.GPUs {
		flops, bandwidth := peaks(catalogue, g.Name)
		whole += bandwidth
		known = known && bandwidth > 0
		if f, ok := ofCardChecks(node, g, flops, bandwidth, checks); ok {
			out = append(out, f)
		}
	}
	if f, ok := ofTokens(node, m, s, whole); known && ok {
		out = append(out, f)
	}
	return out
}

// peaks are the highest of all variants of a name; zero: not known.
func peaks(c verify.Catalog, name string) (flops, bandwidth float64) {
	for _, m := range c.Find(name) {
		flops, bandwidth = max(flops, m.FP32), max(bandwidth, m.Bandwidth)
	}
	return flops, bandwidth
}

func ofCardChecks(node string, g assay.GPU, flops, bandwidth float64, checks []assay.Check) (Finding, bool) {
	var read, tested, rate float64
	for _, c := range checks {
		if c.Device != g.UUID {
			continue
		}
		switch c.Name {
		case "compute.speed":
			rate = max(rate, number(c.Values["device_flops"]))
		case "memory.bandwidth":
			read = max(read, number(c.Values["read_bytes_per_second"]))
		case "memory.pattern":
			tested = max(tested, number(c.Values["tested_bytes"]))
		}
	}
	subject := "gpu " + g.UUID
	switch {
	case flops > 0 && rate > verify.MaxPeakShare*flops:
		return found(node, control.FindPhysics, subject, fmt.Sprintf("%s computed %.4g FLOP/s, and the peak of %s is %.4g", g.UUID, rate, g.Name, flops)), true
	case bandwidth > 0 && tested >= minRead && read > verify.MaxPeakShare*bandwidth:
		return found(node, control.FindPhysics, subject, fmt.Sprintf("the memory of %s was read at %.4g B/s, and the peak of %s is %.4g", g.UUID, read, g.Name, bandwidth)), true
	}
	return Finding{}, false
}

// ofTokens compares the rate of tokens of one request with how often the weights can
// be read.
func ofTokens(node string, m assay.Manifest, s assay.Summary, bandwidth float64) (Finding, bool) {
	bytes := number(float64(m.Engine.ModelBytes))
	if bytes == 0 {
		return Finding{}, false
	}
	fastest := 0.0 // tokens a second of one request
	for _, st := range s.Stages {
		for _, p := range st.TPOT.Percentiles {
			if p.Level == 50 && p.Held() && p.Value > 0 {
				fastest = max(fastest, number(1e3/p.Value))
			}
		}
	}
	most := verify.MaxPeakShare * maxExperts * maxSpeculation * bandwidth / bytes
	if fastest <= most {
		return Finding{}, false
	}
	return found(node, control.FindPhysics, "model "+m.Engine.Model, fmt.Sprintf(
		"one request got %.4g tokens a second of a model of %.4g bytes, and the cards read %.4g bytes a second: not with %d experts and %d tokens from one reading",
		fastest, bytes, bandwidth, maxExperts, maxSpeculation)), true
}

// number takes what is no number for nothing known.
func number(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}
