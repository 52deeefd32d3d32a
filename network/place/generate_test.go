package place

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/assay-bench/assay"
)

// network is a generated one.
type network struct {
	nodes   []Node
	request Request
}

var cards = []struct {
	name   string
	memory float64
	speed  float64
	cost   float64 // an hour, of one card
}{
	{"L4", 24, 1, 0.7}, {"A10G", 24, 1.6, 1.0}, {"L40S", 48, 3.2, 1.9}, {"A100", 80, 5, 2.4}, {"H100", 80, 10, 3.9}, {"H200", 141, 12, 4.6},
}

// generate makes a network: cards of several kinds, each node measured by itself
// and so a little different, prices by market, models of several sizes, some nodes
// not measured, some that may not serve. Load is the share of its capacity that is
// asked for.
func generate(seed uint64, nodes, models int, load float64) network {
	rng := rand.New(rand.NewPCG(seed, 15))
	var n network
	n.request = Request{Currency: "USD", Horizon: 24 * time.Hour, Estimates: true}
	sizes := make([]float64, models)
	for j := range models {
		sizes[j] = []float64{1, 1, 2, 4, 8}[rng.IntN(5)] * (0.8 + 0.4*rng.Float64())
		n.request.Demands = append(n.request.Demands, Demand{
			Name: fmt.Sprintf("model-%d", j), Model: fmt.Sprintf("model-%d", j), Unit: Requests,
			TTFT: 500, Redundancy: []int{0, 0, 1, 2}[rng.IntN(4)], MemoryGiB: 10 * sizes[j], Load: time.Duration(rng.IntN(600)) * time.Second,
		})
	}
	for i := range nodes {
		c := cards[rng.IntN(len(cards))]
		gpus := []int{1, 1, 1, 2, 4, 8}[rng.IntN(6)]
		market := 0.8 + 0.4*rng.Float64()
		cost := assay.Money{Nano: int64(math.Round(c.cost*float64(gpus)*market*100)) * 1e7, Currency: "USD"}
		node := Node{ID: fmt.Sprintf("node-%04d", i), GPU: c.name, GPUs: gpus, MemoryGiB: c.memory * float64(gpus), Cost: &cost}
		for j := range models {
			if 10*sizes[j] > node.MemoryGiB || rng.IntN(10) == 0 {
				continue
			}
			rate := c.speed * math.Pow(float64(gpus), 0.9) / sizes[j] * (0.9 + 0.2*rng.Float64())
			slow := 600.0
			fast := 300.0
			node.Measured = append(node.Measured, Measured{Model: n.request.Demands[j].Model, Levels: []Level{{Requests: rate, TTFT: &fast}, {Requests: rate * 1.3, TTFT: &slow}}})
		}
		if rng.IntN(15) == 0 {
			node.Excluded = "it is quarantined"
		}
		if rng.IntN(2) == 0 {
			node.Serves = []string{n.request.Demands[rng.IntN(models)].Model}
		}
		n.nodes = append(n.nodes, node)
	}
	n.ask(rng, load)
	return n
}

// ask sets the amounts: each demand gets a part of all nodes, and asks for load of
// what that part holds.
func (n *network) ask(rng *rand.Rand, load float64) {
	parts := make([]float64, len(n.request.Demands))
	sum := 0.0
	for j := range parts {
		parts[j] = 0.2 + rng.Float64()
		sum += parts[j]
	}
	for j := range n.request.Demands {
		d := &n.request.Demands[j]
		d.Amount = 1
		total := 0.0
		for _, node := range n.nodes {
			total += measuredCell(node, *d).capacity
		}
		d.Amount = max(0.1, load*total*parts[j]/sum)
	}
}

// exhaustive tries every assignment of a problem.
func exhaustive(p *problem) worth {
	best := worth{math.Inf(1), math.Inf(1)}
	a := p.none()
	var try func(i int)
	try = func(i int) {
		if i == len(p.ids) {
			if w := p.worth(&a); w.better(best) || math.IsInf(best.unmet, 1) {
				best = w
			}
			return
		}
		try(i + 1)
		for j, s := range p.share[i] {
			if s > 0 {
				a.put(i, j)
				try(i + 1)
				a.put(i, idle)
			}
		}
	}
	try(0)
	return best
}

func quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[int(math.Ceil(q*float64(len(s))))-1]
}
