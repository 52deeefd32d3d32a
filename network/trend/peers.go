package trend

import (
	"cmp"
	"math"
	"slices"

	"github.com/assay-bench/assay/stat"
)

// Peer is another node of the same GPU and model, by its newest report.
type Peer struct {
	Node   string
	Value  float64
	Report string
	// Traits are what may be shared by a batch, by name: vbios, driver, serial,
	// engine. A trait that is not known is absent.
	Traits map[string]string
}

// Against is how a node stands among its peers.
type Against struct {
	Peers  int
	Value  float64 // of the node
	Median float64 // of the peers
	// Score is how far the node is from them, in robust standard deviations (worse:
	// negative), and Shift the same as a share.
	Score, Shift float64
	Outlier      bool
	Unknown      string // why nothing can be said; empty: it is known
}

// AgainstPeers compares the median of a node's newest reports with its peers.
func AgainstPeers(metric string, own []float64, peers []Peer, o Options) Against {
	sign := better(metric)
	y := []float64{}
	for _, p := range peers {
		if positive(p.Value) {
			y = append(y, sign*math.Log(p.Value))
		}
	}
	mine := []float64{}
	for _, v := range own[max(0, len(own)-o.Recent):] {
		if positive(v) {
			mine = append(mine, sign*math.Log(v))
		}
	}
	a := Against{Peers: len(y), Value: math.NaN(), Median: math.NaN(), Score: math.NaN(), Shift: math.NaN()}
	switch {
	case len(mine) < o.Recent:
		a.Unknown = lacks(len(mine), o.Recent, "reports of its own")
		return a
	case len(y) < o.MinPeers:
		a.Unknown = lacks(len(y), o.MinPeers, "peers of the same GPU and model")
		return a
	}
	own0 := stat.Median(mine)
	level, sd := robust(y)
	a.Value, a.Median, a.Shift = math.Exp(sign*own0), math.Exp(sign*level), math.Expm1(own0-level)
	if sd > 0 {
		a.Score = (own0 - level) / sd
	} else if own0 != level {
		a.Score = math.Inf(1)
		if own0 < level {
			a.Score = math.Inf(-1)
		}
	}
	a.Outlier = a.Score <= -o.PeerScore && a.Shift <= -o.PeerLoss
	return a
}

// Batch is a group of nodes that share a trait and are worse than the rest.
type Batch struct {
	Trait, Value string
	Nodes        []string
	Reports      []string
	Rest         int
	// Shift is by which share the group is better (worse: negative) than the rest,
	// with its interval, and P the chance of it, over all groups of the look.
	Shift, Low, High, P float64
}

// Batches looks for groups that share a trait and are worse than all others by at
// least the least loss, the worst first.
func Batches(metric string, nodes []Peer, o Options) []Batch {
	sign := better(metric)
	groups := map[[2]string][]int{}
	y := make([]float64, len(nodes))
	for i, n := range nodes {
		if y[i] = sign * math.Log(n.Value); !positive(n.Value) {
			continue
		}
		for trait, value := range n.Traits {
			if value != "" {
				groups[[2]string{trait, value}] = append(groups[[2]string{trait, value}], i)
			}
		}
	}
	var out []Batch
	tests := 0
	for key, members := range groups {
		b := Batch{Trait: key[0], Value: key[1]}
		var in, rest []float64
		for i, n := range nodes {
			switch {
			case !positive(n.Value):
			case slices.Contains(members, i):
				in = append(in, y[i])
				b.Nodes, b.Reports = append(b.Nodes, n.Node), append(b.Reports, n.Report)
			default:
				rest = append(rest, y[i])
			}
		}
		if b.Rest = len(rest); len(in) < o.MinGroup || len(rest) < max(o.MinPeers, len(in)) {
			continue // what is worse is the smaller part: else the rest is better
		}
		tests++
		b.P = stat.MannWhitney(in, rest, stat.TestOptions{Side: stat.Less}).P
		s := stat.HodgesLehmann2(in, rest, 0.95)
		if b.Shift, b.Low, b.High = math.Expm1(s.Est), math.Expm1(s.Lo), math.Expm1(s.Hi); b.Shift <= -o.MinLoss {
			out = append(out, b)
		}
	}
	for i := range out {
		out[i].P = min(1, out[i].P*float64(tests)) // Bonferroni: the tests share their nodes
	}
	out = slices.DeleteFunc(out, func(b Batch) bool { return !(b.P <= o.GroupLevel) })
	slices.SortFunc(out, func(a, b Batch) int {
		return cmp.Or(cmp.Compare(a.P, b.P), cmp.Compare(a.Trait, b.Trait), cmp.Compare(a.Value, b.Value))
	})
	return out
}
