package report

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay"
)

// mostFindings is how many findings a terminal shows; health.json and the page
// have all of them.
const mostFindings = 5

// node is the terminal's share of the health report: verdict, score, what was
// read and what a token costs.
func node(s assay.Summary, h assay.Health) []Block {
	out := []Block{Paragraph{Head: "node   ", Text: strings.ToUpper(h.Verdict.String()) + ": " + h.Because + "."}}
	found := List{Head: "finding"}
	more := 0
	for _, f := range h.Findings {
		if f.Verdict <= assay.Pass && f.Rule != "baseline_differs" {
			continue // what could not be decided is on the page
		}
		if len(found.Items) == mostFindings {
			more++
			continue
		}
		text := f.Verdict.String() + ": "
		if f.Device != "" {
			text += HealthInput{Health: &h}.nameOf(f.Device) + ": "
		}
		text += f.Text
		if f.Action != "" {
			text += "; " + f.Action
		}
		found.Items = append(found.Items, text)
	}
	if more > 0 {
		found.Items = append(found.Items, fmt.Sprintf("and %d more in health.json", more))
	}
	if len(found.Items) > 0 {
		out = append(out, found)
	}
	if text := scoreLine(h.Score); text != "" {
		out = append(out, Paragraph{Head: "score  ", Text: text})
	}
	if text := readLine(s, h); text != "" {
		out = append(out, Paragraph{Head: "gpu    ", Text: text})
	}
	if text := costLine(h.Cost); text != "" {
		out = append(out, Paragraph{Head: "cost   ", Text: text})
	}
	return out
}

// scoreLine is empty where only stability could be scored: the node's verdict has
// what spoiled it.
func scoreLine(s assay.HealthScore) string {
	against := s.Baseline
	if s.Against == assay.AgainstCatalogue {
		against = "the card's catalogue, for want of a baseline"
	}
	if against == "" {
		return ""
	}
	text := interval(scoreOf(s, "overall", s.Overall)) + " against " + against + ":"
	for _, part := range []struct {
		name string
		v    *float64
	}{{"latency", s.Latency}, {"throughput", s.Throughput}, {"stability", s.Stability}, {"efficiency", s.Efficiency}} {
		if part.v != nil {
			text += fmt.Sprintf(" %s %.2f,", part.name, *part.v)
		} else {
			text += fmt.Sprintf(" %s unknown (%s),", part.name, s.Unknown[part.name])
		}
	}
	text = strings.TrimSuffix(text, ",") + "."
	for i, d := range s.Deductions {
		if i == 3 {
			break
		}
		text += fmt.Sprintf(" %s −%.2f: %s.", d.Part, d.Lost, strings.TrimSuffix(d.Because, "."))
	}
	return text
}

func readLine(s assay.Summary, h assay.Health) string {
	if len(s.GPUs) == 0 {
		return ""
	}
	text := plural(len(s.GPUs), "GPU", "GPUs") + " read"
	if p := s.Sampling; p != nil && len(p.Sources) > 0 {
		text += " by " + strings.Join(p.Sources, ", ")
		if p.CPUShare != nil {
			text += ", which took " + percent(*p.CPUShare) + " of one core"
		}
	}
	m := h.Performance
	var parts []string
	if m.MeanPowerWatts != nil {
		parts = append(parts, number(*m.MeanPowerWatts)+" W")
	}
	if m.MaxTemperature != nil {
		parts = append(parts, "at most "+number(*m.MaxTemperature)+" °C")
	}
	if m.PeakMemoryUsage != nil {
		parts = append(parts, "peak memory "+*m.PeakMemoryUsage)
	}
	if m.TokensPerJoule != nil {
		parts = append(parts, number(*m.TokensPerJoule)+" tokens a joule")
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	text += "."
	if e := s.Energy; e != nil && e.Disagreement != nil {
		text += fmt.Sprintf(" Energy by counter and by integration differ by %s.", signedPercent(*e.Disagreement))
	}
	return text
}

func costLine(c assay.CostAnalysis) string {
	if c.Price == nil && c.Rate == nil {
		return ""
	}
	var parts []string
	say := func(what, key string, asked bool, m *assay.Money) {
		switch {
		case m != nil:
			parts = append(parts, what+" "+price(*m))
		case asked:
			parts = append(parts, what+" unknown ("+c.Unknown[key]+")")
		}
	}
	say("energy", "energy_cost_per_token", c.Rate != nil, c.EnergyPerMillion)
	say("rent", "rental_cost_per_token", c.Price != nil, c.RentalPerMillion)
	if c.Price != nil && c.Rate != nil {
		say("total", "total_cost_per_token", true, c.TotalPerMillion)
	}
	text := "A million output tokens: " + strings.Join(parts, ", ")
	if c.Utilization != nil && c.Price != nil {
		text += ", at " + percent(*c.Utilization) + " of the measured capacity"
		if len(c.Curve) > 0 {
			least := c.Curve[0]
			text += fmt.Sprintf("; rent at %s: %s", percent(least.Utilization), price(least.PerMillion))
		}
	}
	return text + "."
}
