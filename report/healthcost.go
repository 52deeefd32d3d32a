package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// cost is what a token costs, and how that depends on how busy the node is.
func cost(c assay.CostAnalysis) []Block {
	t := Table{Columns: []Column{{Name: "cost"}, {Name: "a million output tokens"}, {Name: "a token"}, {Name: "remark", Words: true}}}
	row := func(what, key string, m *assay.Money, token *float64, remark string) {
		million, one := missing, missing
		if m != nil {
			million = price(*m)
		}
		if token != nil {
			one = strings.TrimSpace(fmt.Sprintf("%.3g %s", *token, c.Currency))
		}
		if m == nil && token == nil {
			remark = "unknown"
			if why := c.Unknown[key]; why != "" {
				remark = "unknown: " + why
			}
		}
		t.Rows = append(t.Rows, []string{what, million, one, remark})
	}
	at := ""
	if c.Utilization != nil {
		at = "at " + percent(*c.Utilization) + " of the measured capacity"
	}
	rental, energy := at, ""
	if c.Price != nil {
		rental = strings.TrimSpace(c.Price.String() + " an hour, " + at)
	}
	if c.Rate != nil {
		energy = c.Rate.String() + " a kWh"
	}
	row("energy", "energy_cost_per_token", c.EnergyPerMillion, c.EnergyCostPerToken, energy)
	row("rental", "rental_cost_per_token", c.RentalPerMillion, c.RentalCostPerToken, rental)
	row("total", "total_cost_per_token", c.TotalPerMillion, c.TotalCostPerToken, at)
	if c.BlendedPerMillion != nil {
		row("total, over input and output tokens alike", "", c.BlendedPerMillion, nil, "a million tokens of either kind")
	}
	if c.AtGoodput != nil {
		row("rental, tokens within the limits", "", c.AtGoodput, nil, "at full load, requests that kept every limit")
	}
	out := []Block{t}
	if len(c.Curve) > 1 {
		l := Line{Name: "rental"}
		for _, p := range c.Curve {
			l.X, l.Y = append(l.X, 100*p.Utilization), append(l.Y, p.PerMillion.Units())
		}
		chart := Chart{Title: "Rental price over utilization", Kind: ChartLine, X: Axis{Label: "load ÷ measured capacity", Unit: "%"},
			Y: Axis{Unit: strings.TrimSpace(c.Currency + " a million output tokens"), Zero: true}, Lines: []Line{l},
			Note: "An hour costs the same however much of it is used: half the load doubles the price of a token."}
		if c.Utilization != nil {
			chart.Marks = []Mark{{At: 100 * *c.Utilization, Label: "as priced above"}}
		}
		out = append(out, chart)
	}
	if e := c.Energy; e != nil {
		text := fmt.Sprintf("By the counter %s J, by integrated power %s J", optional(e.Counter, number), optional(e.Integrated, number))
		if e.Disagreement != nil {
			text += ", which differ by " + signedPercent(*e.Disagreement)
		}
		if e.Idle != nil {
			text += "; idle would have taken " + number(*e.Idle) + " J of it"
		}
		if e.Refused != "" {
			text += ". The counter was refused: " + e.Refused
		}
		out = append(out, Paragraph{Head: "energy", Text: text + "."})
	}
	var unknown []string
	for key, why := range c.Unknown {
		if !slices.Contains([]string{"energy_cost_per_token", "rental_cost_per_token", "total_cost_per_token"}, key) {
			unknown = append(unknown, strings.ReplaceAll(key, "_", " ")+": "+why)
		}
	}
	if slices.Sort(unknown); len(unknown) > 0 {
		out = append(out, List{"not known", unknown})
	}
	return out
}

// price writes an amount with as many digits as a price needs.
func price(m assay.Money) string {
	v := m.Units()
	digits := 2
	for limit := 1.0; digits < 6 && v != 0 && v < limit && v > -limit; limit /= 10 {
		digits++
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, m.Currency))
}
