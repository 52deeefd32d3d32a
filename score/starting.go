package score

import (
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay"
)

// The checks of verify that a starting score rests on, and their figures.
const (
	speedCheck     = "compute.speed"
	bandwidthCheck = "memory.bandwidth"
	catalogueCheck = "identity.catalogue"
	peakShare      = "peak_share"
	peakBandwidth  = "peak_bandwidth_bytes_per_second"
)

// maxDecodeShare is the share of what memory bandwidth allows beyond which the
// allowance itself is wrong; factory overclocking is within.
const maxDecodeShare = 1.25

// starting is what a node without a baseline of its own is scored by: what can
// be known of it beforehand, which is what the maker states of its cards. How
// near to that a healthy node comes depends on kernel, engine and model, so a
// starting score is compared with those of other nodes of the same kind, and
// says nothing of health by itself.
type starting struct {
	// compute and bandwidth are what verify measured, as shares of the
	// catalogue's peaks: the mean over all GPUs.
	compute, bandwidth figure
	// ideal is the time in ms that reading the model's weights once takes at the
	// catalogue's bandwidth: no token of a dense model comes sooner.
	ideal figure
}

func startingOf(in Input) *starting {
	return &starting{
		compute:   shareOfPeak(in, speedCheck, "assay hammer --verify measures it"),
		bandwidth: shareOfPeak(in, bandwidthCheck, "assay verify --memory --out DIR measures it while no engine runs, and assay hammer --checks DIR takes it over"),
		ideal:     idealTime(in),
	}
}

// checkOf is the check of a name on a GPU, if it says something.
func checkOf(in Input, name, device string) (assay.Check, bool) {
	for _, c := range in.Checks {
		if c.Name == name && c.Device == device && (c.Verdict == assay.Pass || c.Verdict == assay.Degraded) {
			return c, true
		}
	}
	return assay.Check{}, false
}

// shareOfPeak is the mean over all GPUs of a check's share of the catalogue's
// peak. A GPU without one leaves the mean unknown: the others do not speak for
// it.
func shareOfPeak(in Input, name, how string) figure {
	cards := cardsOf(in)
	if len(cards) == 0 {
		return figure{why: "no GPU was found"}
	}
	sum := 0.0
	for _, card := range cards {
		c, _ := checkOf(in, name, card.UUID)
		v := known(c.Values[peakShare], "")
		if !v.ok || v.v == 0 {
			return figure{why: fmt.Sprintf("%s gave no share of the catalogue's peak for GPU %d; %s, for cards that the catalogue has", name, card.Index, how)}
		}
		sum += clamp(v.v)
	}
	return figure{v: sum / float64(len(cards)), ok: true}
}

// idealTime needs to know the model's bytes, the card's bandwidth, and that the
// one was read through the other.
func idealTime(in Input) figure {
	bytes := float64(in.Manifest.Engine.ModelBytes)
	cards := cardsOf(in)
	switch {
	case len(cards) == 0:
		return figure{why: "no GPU was found"}
	case len(cards) > 1:
		return figure{why: fmt.Sprintf("how the model is laid over %d GPUs is not known", len(cards))}
	case !(bytes > 0):
		return figure{why: "the engine does not say how many bytes its model has"}
	}
	if c, ok := checkOf(in, executionCheck, cards[0].UUID); !ok || c.Verdict != assay.Pass {
		return figure{why: "nothing shows that the model ran on the GPU"}
	}
	c, ok := checkOf(in, catalogueCheck, cards[0].UUID)
	bandwidth := known(c.Values[peakBandwidth], "")
	if !ok || !bandwidth.ok || bandwidth.v == 0 {
		return figure{why: "the bandwidth of the card's memory is not known; assay hammer --verify looks it up, for cards that the catalogue has"}
	}
	// The bytes are the engine's word, and a larger model makes any token look fast.
	if held, ok := vramHeld(in); ok && held < bytes {
		return figure{why: fmt.Sprintf("the engine says that its model has %s of weights, and the GPU holds %s in total", *gigabytes(bytes), *gigabytes(held))}
	}
	return known(bytes/bandwidth.v*1e3, "the time to read the model is not a number")
}

// latency scores the time of a token by what reading the weights takes.
func (s *starting) latency(f figures, n int) part {
	if !s.ideal.ok {
		return unscored(s.ideal.why)
	}
	if !f.tpot.ok {
		return unscored(f.tpot.why)
	}
	measured := f.tpot.at(n)
	share := s.ideal.v / measured
	if n < 0 && share > maxDecodeShare {
		return unscored("tokens come faster than the model can be read: it does not read all of its weights for each (a mixture of experts, speculative decoding), or its size is not what the engine says")
	}
	out := whole()
	out.take(loss{"tpot_p50_ms", measured, s.ideal.v, clamp(share), fmt.Sprintf("a token takes %s ms, and reading the weights once takes %s ms by the card's bandwidth", num(measured), num(s.ideal.v))})
	return out
}

// throughput scores the card by what verify measured on it: half of the part's
// weight is its compute and half its bandwidth.
func (s *starting) throughput() part {
	used := filter(s.shares(), func(f namedShare) bool { return f.ok })
	if len(used) == 0 {
		return unscored(s.compute.why)
	}
	out := whole()
	out.cover = float64(len(used)) / float64(len(s.shares()))
	for _, f := range used {
		// A root of the share: the product of the factors is the geometric mean.
		out.take(loss{f.metric, f.v, 1, math.Pow(f.v, 1/float64(len(used))), fmt.Sprintf("%s reached %s of the catalogue's peak", f.words, share(f.v))})
	}
	return out
}

// shares are the figures of throughput, by their names in the report.
func (s *starting) shares() []namedShare {
	return []namedShare{
		{"compute_peak_share", "the product of matrices", s.compute},
		{"bandwidth_peak_share", "reading memory", s.bandwidth},
	}
}

type namedShare struct {
	metric, words string
	figure
}

// unscored is a part of a node without a baseline that the catalogue does not
// help with either.
func unscored(why string) part {
	return part{why: noBaseline + "; nor does the card's catalogue help: " + strings.TrimSuffix(why, ".")}
}
