package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/summary"
)

// Order is what results are ranked by.
type Order string

// The orders.
const (
	BySpeed Order = "speed" // most output tokens a second first
	ByCost  Order = "cost"  // least cost of a million output tokens first
)

// Query asks for results.
type Query struct {
	Model string // empty: all
	// SLO is what a result must keep. Only loads that keep all of it count.
	SLO []assay.Objective
	By  Order
}

// Candidate is a result that answers a query.
type Candidate struct {
	ID       string `json:"id"`
	GPU      string `json:"gpu"`
	Count    int    `json:"gpu_count"`
	Provider string `json:"provider"`
	Location string `json:"location,omitempty"`
	Model    string `json:"model"`
	Engine   string `json:"engine"`
	// TokensPerSecond is that of the best load that keeps the objectives; null: none
	// does, or it is not known.
	TokensPerSecond *float64     `json:"tokens_per_second"`
	Stage           string       `json:"stage,omitempty"`
	PricePerHour    *assay.Money `json:"price_per_hour"`
	// PerMillion is the cost of a million output tokens at that rate; null: not known.
	PerMillion *assay.Money `json:"cost_per_million_tokens"`
	// Kept is whether the objectives are kept. Unknown is no pass.
	Kept assay.Verdict `json:"kept"`
	Why  string        `json:"why,omitempty"`
}

// Rank answers a query. Of several results of one machine's kind, model and engine at
// one provider the last counts. Those that keep the objectives come first, then those
// of which that is not known.
func Rank(list []store.Benchmark, q Query) []Candidate {
	last := map[[4]string]store.Benchmark{}
	for _, b := range list { // oldest first
		if q.Model == "" || strings.EqualFold(b.Model, q.Model) {
			last[[4]string{fmt.Sprintf("%dx %s", b.GPUCount, b.GPUType), b.Provider, b.Model, b.Engine}] = b
		}
	}
	out := make([]Candidate, 0, len(last))
	for _, b := range last {
		out = append(out, candidate(b, q.SLO))
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(place(a.Kept), place(b.Kept)),
			a.compare(b, q.By),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.ID, b.ID),
		)
	})
	return out
}

// place is where a verdict stands in an order.
func place(v assay.Verdict) int {
	switch v {
	case assay.Pass:
		return 0
	case assay.Unknown:
		return 1
	}
	return 2
}

// compare puts the better one first; what is not known comes last.
func (c Candidate) compare(other Candidate, by Order) int {
	switch {
	case by == ByCost && (c.PerMillion == nil || other.PerMillion == nil):
		return -cmp.Compare(known(c.PerMillion), known(other.PerMillion))
	case by == ByCost:
		return cmp.Compare(c.PerMillion.Nano, other.PerMillion.Nano)
	case c.TokensPerSecond == nil || other.TokensPerSecond == nil:
		return -cmp.Compare(known(c.TokensPerSecond), known(other.TokensPerSecond))
	}
	return -cmp.Compare(*c.TokensPerSecond, *other.TokensPerSecond)
}

func known[T any](p *T) int {
	if p != nil {
		return 1
	}
	return 0
}

func candidate(b store.Benchmark, slo []assay.Objective) Candidate {
	c := Candidate{
		ID: b.ID, GPU: b.GPUType, Count: b.GPUCount, Provider: b.Provider, Location: b.Location, Model: b.Model, Engine: b.Engine,
		PricePerHour: b.PricePerHour, TokensPerSecond: b.TokensPerSecond,
	}
	if len(slo) == 0 {
		c.Kept = assay.Pass
		if b.TokensPerSecond == nil {
			c.Kept, c.Why = assay.Unknown, "it has no rate"
		}
	} else {
		c.judge(b, slo)
	}
	c.PerMillion = perMillion(c.PricePerHour, c.TokensPerSecond)
	return c
}

// judge finds the best load that keeps the objectives.
func (c *Candidate) judge(b store.Benchmark, slo []assay.Objective) {
	c.TokensPerSecond, c.Kept, c.Why = nil, assay.Unknown, "it has no latencies: a file of the benchmark script"
	var s assay.Summary
	if err := json.Unmarshal([]byte(b.Summary), &s); err != nil || len(s.Stages) == 0 {
		return
	}
	worst := assay.Fail
	for i := range s.Stages {
		st := &s.Stages[i]
		verdict, why := held(st, slo)
		if verdict == assay.Pass && (c.TokensPerSecond == nil || st.OutputTokensPerSecond > *c.TokensPerSecond) {
			rate := st.OutputTokensPerSecond
			c.TokensPerSecond, c.Stage = &rate, st.Name
		}
		if place(verdict) < place(worst) || i == 0 {
			worst, c.Why = verdict, why
		}
	}
	if c.Kept = worst; worst == assay.Pass {
		c.Why = ""
	}
}

// held judges a load by all objectives.
func held(st *assay.StageSummary, slo []assay.Objective) (assay.Verdict, string) {
	verdict, why := assay.Pass, ""
	for _, o := range slo {
		h := summary.Hold(st, o)
		if h.Verdict == assay.Pass {
			continue
		}
		text := fmt.Sprintf("%s: %s, measured %.4g", st.Name, o, h.Measured.Est)
		if !h.Measured.Known() {
			text = fmt.Sprintf("%s: %s: %s", st.Name, o, h.Measured.Why)
		}
		if place(h.Verdict) > place(verdict) {
			verdict, why = h.Verdict, text
		}
	}
	return verdict, why
}

// perMillion is what a million output tokens cost; nil: not known.
func perMillion(hour *assay.Money, rate *float64) *assay.Money {
	if hour == nil || rate == nil || !(*rate > 0) {
		return nil
	}
	m, err := hour.Times(1e6 / (*rate * 3600))
	if err != nil {
		return nil
	}
	return &m
}

// Front marks the candidates that no other one beats: none is faster at the same
// price an hour or a lower one. What has no price or no rate is never among them. It
// comes in the order of rising price.
func Front(list []Candidate) []Candidate {
	priced := slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool {
		return c.PricePerHour == nil || c.TokensPerSecond == nil || c.Kept != assay.Pass
	})
	slices.SortStableFunc(priced, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.PricePerHour.Nano, b.PricePerHour.Nano), -cmp.Compare(*a.TokensPerSecond, *b.TokensPerSecond))
	})
	var out []Candidate
	for _, c := range priced {
		if len(out) == 0 || *c.TokensPerSecond > *out[len(out)-1].TokensPerSecond {
			out = append(out, c)
		}
	}
	return out
}
