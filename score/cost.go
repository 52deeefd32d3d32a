package score

import (
	"math"

	"github.com/assay-bench/assay"
)

// Terms are what the node costs.
type Terms struct {
	// Price of the node for an hour; nil: not told, and no rental cost is given.
	Price *assay.Money
	// EnergyRate is the price of a kilowatt-hour; nil: not told, and no energy
	// cost is given.
	EnergyRate *assay.Money
	// Utilization is load ÷ measured capacity at which the rental price stands.
	// 0: that of a sustained stage if the run had one, else 1.
	Utilization float64
}

const (
	million      = 1e6
	hour         = 3600.0
	joulesPerKWh = 3.6e6
)

// amount of money that is not available, or is, with its price of a token.
type price struct {
	ok         bool
	perToken   float64
	perMillion assay.Money
}

// priceOf makes a price of a token from a rate and how many of its units a token
// takes. The price of a million is rounded once, from the rate itself.
func priceOf(rate assay.Money, perToken float64) price {
	if !(perToken >= 0) || math.IsInf(perToken, 0) || rate.Nano < 0 {
		return price{}
	}
	m, err := rate.Times(million * perToken)
	if err != nil {
		return price{}
	}
	return price{true, rate.Units() * perToken, m}
}

// Rental is what a token costs on a node with this price an hour, this capacity
// in tokens an hour, and this share of it in use. An idle hour is paid for by
// the tokens of the busy ones: half the utilization is twice the price.
func Rental(perHour assay.Money, tokensPerHour, utilization float64) (perMillion assay.Money, ok bool) {
	if !(tokensPerHour > 0) || !(utilization > 0) || utilization > 1 {
		return assay.Money{}, false
	}
	p := priceOf(perHour, 1/(tokensPerHour*utilization))
	return p.perMillion, p.ok
}

// cost is what a token of the judged stage costs.
func cost(in Input, s assay.StageSummary, measured bool) assay.CostAnalysis {
	t := in.Terms
	out := assay.CostAnalysis{
		Price: t.Price, Rate: t.EnergyRate,
		Curve: []assay.CostPoint{}, Unknown: map[string]string{},
		Energy: finiteEnergy(in.Summary.Energy),
	}
	u := utilization(t, s)
	out.Utilization = &u
	asked := 0
	for _, m := range []*assay.Money{t.Price, t.EnergyRate} {
		if m != nil {
			asked++
			out.Currency = m.Currency
		}
	}
	rental := rentalCost(in, u, &out)
	energy := energyCost(in, s, measured, &out)

	switch {
	case asked == 0:
		out.Unknown["total_cost_per_token"] = "neither a price nor an energy rate was given: --price, --energy-rate"
		return out
	case asked == 2 && t.Price.Currency != t.EnergyRate.Currency:
		out.Currency = ""
		out.Unknown["total_cost_per_token"] = "price and energy rate are in two currencies"
		return out
	case t.Price != nil && !rental.ok:
		out.Unknown["total_cost_per_token"] = "the rental cost is not known"
		return out
	case t.EnergyRate != nil && !energy.ok:
		out.Unknown["total_cost_per_token"] = "the energy cost is not known"
		return out
	}
	sum := rental.perToken + energy.perToken
	total := assay.Money{Nano: rental.perMillion.Nano + energy.perMillion.Nano, Currency: out.Currency}
	if total.Nano < 0 {
		out.Unknown["total_cost_per_token"] = assay.ErrMoney.Error()
		return out
	}
	out.TotalCostPerToken, out.TotalPerMillion = &sum, &total
	blended(s, total, &out)
	return out
}

// utilization is the share of its capacity at which the node is priced.
func utilization(t Terms, s assay.StageSummary) float64 {
	for _, u := range []float64{t.Utilization, s.Plan.Utilization} {
		if u > 0 && u <= 1 {
			return u
		}
	}
	return 1
}

func rentalCost(in Input, u float64, out *assay.CostAnalysis) price {
	rate := in.Terms.Price
	if rate == nil {
		out.Unknown["rental_cost_per_token"] = "no price was given: --price 0.35/h"
		return price{}
	}
	capacity, good, why := 0.0, 0.0, "no stage shows how many tokens an hour the node makes"
	for _, s := range in.Summary.Stages {
		if w := noWindow(s); w != "" && s.OK > 0 {
			why = w
			continue
		}
		// Steps of a search count: with a sustained load they are what measured it.
		if v := s.OutputTokensPerSecond * hour; s.OK > 0 && v > 0 && !math.IsInf(v, 0) {
			capacity = max(capacity, v)
			good = max(good, v*clamp(s.GoodShare))
		}
	}
	if capacity == 0 {
		out.Unknown["rental_cost_per_token"] = why
		return price{}
	}
	p := priceOf(*rate, 1/(capacity*u))
	if !p.ok {
		out.Unknown["rental_cost_per_token"] = assay.ErrMoney.Error()
		return p
	}
	out.RentalCostPerToken, out.RentalPerMillion = &p.perToken, &p.perMillion
	for i := 1; i <= 10; i++ {
		at := float64(i) / 10
		if m, ok := Rental(*rate, capacity, at); ok {
			out.Curve = append(out.Curve, assay.CostPoint{Utilization: at, PerMillion: m})
		}
	}
	if len(in.Manifest.Judge.Goodput) == 0 {
		out.Unknown["rental_cost_per_million_good_tokens"] = "the run had no limits: --goodput"
	} else if m, ok := Rental(*rate, good, 1); ok {
		out.AtGoodput = &m
	} else {
		out.Unknown["rental_cost_per_million_good_tokens"] = "no request kept the limits"
	}
	return p
}

// energyCost is the energy of the steady window over the output tokens that
// arrived in it. What was not read costs an unknown amount, never nothing.
func energyCost(in Input, s assay.StageSummary, measured bool, out *assay.CostAnalysis) price {
	why := ""
	var p price
	switch f := tokensPerJoule(s); {
	case in.Terms.EnergyRate == nil:
		why = "no energy rate was given: --energy-rate 0.30/kWh"
	case !measured:
		why = "no stage was measured"
	case !f.ok:
		why = f.why
	case f.v == 0:
		why = "no token arrived in the steady window"
	default:
		if p = priceOf(*in.Terms.EnergyRate, 1/(f.v*joulesPerKWh)); !p.ok {
			why = assay.ErrMoney.Error()
		}
	}
	if why != "" {
		out.Unknown["energy_cost_per_token"] = why
		return p
	}
	out.EnergyCostPerToken, out.EnergyPerMillion = &p.perToken, &p.perMillion
	return p
}

// blended lays the whole cost on input and output tokens alike.
func blended(s assay.StageSummary, total assay.Money, out *assay.CostAnalysis) {
	in, made := s.InputTokens, s.OutputTokens
	if in.N == 0 || made.N == 0 || !(made.Mean > 0) || !(in.Mean >= 0) {
		out.Unknown["blended_cost_per_million_tokens"] = "input and output tokens were not both counted"
		return
	}
	m, err := total.Times(made.Mean / (in.Mean + made.Mean))
	if err != nil {
		out.Unknown["blended_cost_per_million_tokens"] = err.Error()
		return
	}
	out.BlendedPerMillion = &m
}

// finiteEnergy keeps what can be written.
func finiteEnergy(e *assay.EnergySummary) *assay.EnergySummary {
	if e == nil {
		return nil
	}
	out := *e
	for _, p := range []**float64{&out.Joules, &out.Counter, &out.Integrated, &out.Disagreement, &out.Idle} {
		if *p != nil {
			*p = finite(**p)
		}
	}
	out.Refused = clip(out.Refused)
	return &out
}
