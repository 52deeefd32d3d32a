package compare

import (
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Advice is one thing that the data says about choosing an engine, with the
// evidence for it. There is none without figures.
type Advice struct {
	Kind     string     `json:"kind"` // cost, performance_per_money, objective, risk, memory, energy
	Engine   string     `json:"engine"`
	Workload string     `json:"workload,omitempty"`
	Text     string     `json:"text"`
	Evidence []Evidence `json:"rests_on"`
}

// Evidence is a figure that advice rests on.
type Evidence struct {
	Name  string         `json:"name"`
	Unit  string         `json:"unit,omitempty"`
	Value assay.Quantity `json:"value"`
}

// Unanswered is a question that an experiment can answer and this one does not,
// for want of a setting or of data.
type Unanswered struct {
	Question string `json:"question"`
	Why      string `json:"why"`
}

func (b *bench) advice(a Analysis) ([]Advice, []Unanswered) {
	out := []Advice{}
	for _, e := range b.Engines {
		for _, w := range b.Workloads {
			out = append(out, b.objectives(a, e.Name, w)...)
			out = append(out, b.cost(a, e.Name, w)...)
			out = append(out, b.energy(a, e.Name, w)...)
		}
		out = append(out, b.memory(a, e.Name)...)
		out = append(out, b.risk(a, e)...)
	}
	return append(out, b.cheapest(a)...), b.unanswered()
}

func (b *bench) unanswered() []Unanswered {
	out := []Unanswered{}
	if len(b.Analysis.Prices) == 0 {
		out = append(out, Unanswered{"cost", "no price of an hour was given (analysis." + keyPrice + ")"})
	}
	if len(b.Analysis.SLO) == 0 {
		out = append(out, Unanswered{"performance tiers", "no objectives were given to compare the engines with (analysis." + keySLO + ")"})
	} else if n := b.objectivesNeed(); n > 0 {
		out = append(out, Unanswered{"performance tiers", fmt.Sprintf("the percentiles of some runs rest on too few requests for the objectives: a run needs about %d", n)})
	}
	return out
}

// objectivesNeed is how many requests a run needs for the percentiles that the
// objectives speak of; 0: all have enough.
func (b *bench) objectivesNeed() int {
	n := 0
	for _, runs := range b.runs {
		for _, s := range runs {
			for _, o := range b.Analysis.SLO {
				n = max(n, s.needed(sampleMetric(o)))
			}
		}
	}
	return n
}

// price is what an hour of the machine costs with this engine.
func (b *bench) price(engine string) (assay.Money, bool) {
	m, ok := b.Analysis.Prices[engine]
	if !ok {
		m, ok = b.Analysis.Prices[""]
	}
	return m, ok && m.Nano > 0
}

// sampleMetric is the name under which samples hold what an objective speaks of.
func sampleMetric(o assay.Objective) string {
	if o.Stat == "" {
		return o.Metric
	}
	return o.Metric + "_ms_" + o.Stat
}

// kept counts the runs of an engine that kept every objective. known is false
// when a run lacks a figure that an objective speaks of, or has too few requests
// to tell it.
func (b *bench) kept(engine, workload string) (kept, of int, known bool) {
	known = true
	for _, s := range b.runs[key{engine, workload}] {
		of++
		ok := true
		for _, o := range b.Analysis.SLO {
			v, has := figure(s, sampleMetric(o))
			known = known && has && s.needed(sampleMetric(o)) == 0
			ok = ok && has && v <= o.Max
		}
		if ok {
			kept++
		}
	}
	return kept, of, known && of > 0
}

func (b *bench) objectives(a Analysis, engine, workload string) []Advice {
	if len(b.Analysis.SLO) == 0 {
		return nil
	}
	kept, of, ok := b.kept(engine, workload)
	if !ok {
		return nil
	}
	v := Advice{Kind: "objective", Engine: engine, Workload: workload}
	var words []string
	for _, o := range b.Analysis.SLO {
		words = append(words, o.String())
		if f := a.of(engine, workload, sampleMetric(o)); f != nil {
			v.Evidence = append(v.Evidence, Evidence{f.Metric, f.Unit, f.Mean})
		}
	}
	v.Evidence = append(v.Evidence, Evidence{"runs_that_kept_all", "ratio", proportion(kept, of)})
	v.Text = fmt.Sprintf("%s kept %s on %s in %d of %d runs.", engine, strings.Join(words, " and "), workload, kept, of)
	return []Advice{v}
}

// proportion is a proportion with its exact interval.
func proportion(k, n int) assay.Quantity {
	lo, hi := stat.ProportionInterval(int64(k), int64(n), 0.95)
	return assay.Quantity{N: n, Est: float64(k) / float64(n), Lo: lo, Hi: hi}
}

// cost is what a million output tokens cost at the load of a workload: the
// price of an hour over the tokens of an hour. With objectives it is given only
// for loads at which every run kept them.
func (b *bench) cost(a Analysis, engine, workload string) []Advice {
	price, ok := b.price(engine)
	f := a.of(engine, workload, throughputMetric)
	if !ok || f == nil || !(f.Mean.Est > 0) {
		return nil
	}
	at := "at the load of " + workload
	if len(b.Analysis.SLO) > 0 {
		kept, of, known := b.kept(engine, workload)
		if !known || kept < of {
			return nil // what was not served as promised has no price
		}
		at += ", where every run kept the objectives"
	}
	perMillion := func(rate float64) float64 { return price.Units() / (rate * 3600) * 1e6 }
	q := assay.Quantity{N: f.Mean.N, Est: perMillion(f.Mean.Est), Lo: perMillion(f.Mean.Hi), Hi: math.NaN()}
	if f.Mean.Lo > 0 {
		q.Hi = perMillion(f.Mean.Lo)
	}
	perMoney := assay.Quantity{N: f.Mean.N, Est: f.Mean.Est * 3600 / price.Units(), Lo: f.Mean.Lo * 3600 / price.Units(), Hi: f.Mean.Hi * 3600 / price.Units()}
	hour := Evidence{"price_per_hour", price.Currency, assay.Quantity{N: 1, Est: price.Units(), Lo: math.NaN(), Hi: math.NaN()}}
	rate := Evidence{throughputMetric, f.Unit, f.Mean}
	return []Advice{
		{Kind: "cost", Engine: engine, Workload: workload, Evidence: []Evidence{{"cost_per_million_output_tokens", price.Currency, q}, hour, rate},
			Text: fmt.Sprintf("A million output tokens of %s cost %s %s %s, when the machine is kept at that load.", engine, number(q.Est), price.Currency, at)},
		{Kind: "performance_per_money", Engine: engine, Workload: workload, Evidence: []Evidence{{"output_tokens_per_" + strings.ToLower(price.Currency), "1/" + price.Currency, perMoney}, hour, rate},
			Text: fmt.Sprintf("%s gives %s output tokens for one %s %s.", engine, number(perMoney.Est), price.Currency, at)},
	}
}

// cheapest names the engine whose tokens are shown to cost less than those of
// each other on a workload: the interval of the throughputs' ratio at the
// family's level, times the ratio of prices, lies on one side of 1.
func (b *bench) cheapest(a Analysis) []Advice {
	var out []Advice
	for _, w := range b.Workloads {
		var priced []string
		for _, e := range b.engines {
			if len(b.cost(a, e, w)) > 0 {
				priced = append(priced, e)
			}
		}
		for _, e := range priced {
			v := Advice{Kind: "cost", Engine: e, Workload: w}
			for _, o := range priced {
				if o == e {
					continue
				}
				q, ok := b.costRatio(a, e, o, w)
				if !ok || !(q.Hi < 1) {
					v.Evidence = nil
					break
				}
				v.Evidence = append(v.Evidence, Evidence{"cost_against_" + o, "ratio", q})
			}
			if len(v.Evidence) > 0 {
				v.Text = fmt.Sprintf("%s is the cheapest on %s: its tokens cost less than those of every other engine that could be priced, and the difference is significant.", e, w)
				out = append(out, v)
			}
		}
	}
	return out
}

// costRatio is what a token of one engine costs over that of another.
func (b *bench) costRatio(a Analysis, engine, other, workload string) (assay.Quantity, bool) {
	c := a.between(engine, other, workload, throughputMetric)
	p, _ := b.price(engine)
	q, _ := b.price(other)
	if c == nil || c.Invalid > 0 || c.Verdict == NotComparable || c.Scale != "ratio" || !c.Simultaneous.Known() || p.Currency != q.Currency {
		return assay.Quantity{}, false
	}
	s, prices := c.Simultaneous, p.Units()/q.Units()
	if c.Engine == engine {
		return assay.Quantity{N: s.N, Est: prices / s.Est, Lo: prices / s.Hi, Hi: prices / s.Lo}, true
	}
	return assay.Quantity{N: s.N, Est: prices * s.Est, Lo: prices * s.Lo, Hi: prices * s.Hi}, true
}

func (b *bench) energy(a Analysis, engine, workload string) []Advice {
	f := a.of(engine, workload, "tokens_per_joule")
	if f == nil || !(f.Mean.Est > 0) {
		return nil
	}
	return []Advice{{Kind: "energy", Engine: engine, Workload: workload, Evidence: []Evidence{{f.Metric, f.Unit, f.Mean}},
		Text: fmt.Sprintf("%s makes %s output tokens a joule of the GPUs on %s: %s kWh a million tokens.", engine, number(f.Mean.Est), workload, number(1e6/f.Mean.Est/3.6e6))}}
}

// memory is the most that an engine needed in any run.
func (b *bench) memory(a Analysis, engine string) []Advice {
	var out []Advice
	for _, m := range []struct{ metric, of string }{{"gpu_memory_peak_bytes", "of one GPU"}, {"memory_peak_bytes", "of the machine, by all its processes together"}} {
		most, n, where := 0.0, 0, ""
		for _, w := range b.Workloads {
			if f := a.of(engine, w, m.metric); f != nil {
				n += len(f.Values)
				if f.Max > most {
					most, where = f.Max, w
				}
			}
		}
		if n == 0 || most <= 0 {
			continue
		}
		v := Advice{Kind: "memory", Engine: engine, Evidence: []Evidence{{m.metric, "bytes", assay.Quantity{N: n, Est: most, Lo: math.NaN(), Hi: math.NaN()}}},
			Text: fmt.Sprintf("%s needed up to %s GiB of memory %s (%s).", engine, number(most/(1<<30)), m.of, where)}
		whole := float64(b.Node.MemoryBytes)
		if m.metric == "gpu_memory_peak_bytes" {
			whole = 0
			for _, g := range b.Node.GPUs {
				if s := float64(g.MemoryBytes); s > 0 && (whole == 0 || s < whole) {
					whole = s
				}
			}
		}
		if whole > 0 {
			v.Text += fmt.Sprintf(" That is %s of what is there.", percent(most/whole))
			v.Evidence = append(v.Evidence, Evidence{"memory_bytes", "bytes", assay.Quantity{N: 1, Est: whole, Lo: math.NaN(), Hi: math.NaN()}})
		}
		out = append(out, v)
	}
	return out
}

// risk is what varied and what failed.
func (b *bench) risk(a Analysis, e Engine) []Advice {
	v := Advice{Kind: "risk", Engine: e.Name}
	failed, runs := 0, 0
	for _, s := range b.Samples {
		if s.Engine == e.Name && s.Round > 0 {
			runs++
			if s.Failed != "" {
				failed++
			}
		}
	}
	var words []string
	if e.Failed != "" {
		words = append(words, "was dropped: "+e.Failed)
	}
	if runs > 0 {
		v.Evidence = append(v.Evidence, Evidence{"failed_runs", "ratio", proportion(failed, runs)})
		words = append(words, fmt.Sprintf("failed in %d of %d runs", failed, runs))
	}
	worst, worstErrors := -1.0, -1.0
	var cv, errors *Figure
	for i := range a.Figures {
		f := &a.Figures[i]
		if f.Engine != e.Name {
			continue
		}
		if f.Metric == a.Family.Primary && f.CV != nil && *f.CV > worst {
			worst, cv = *f.CV, f
		}
		if f.Metric == "error_rate" && f.Mean.Est > worstErrors {
			worstErrors, errors = f.Mean.Est, f
		}
	}
	if cv != nil {
		v.Evidence = append(v.Evidence, Evidence{"variation_of_" + cv.Metric, "ratio", assay.Quantity{N: len(cv.Values), Est: worst, Lo: math.NaN(), Hi: math.NaN()}})
		words = append(words, fmt.Sprintf("varied by %s from run to run in %s (%s)", percent(worst), cv.Metric, cv.Workload))
	}
	if errors != nil {
		v.Evidence = append(v.Evidence, Evidence{"error_rate", "ratio", errors.Mean})
		words = append(words, fmt.Sprintf("failed %s of requests (%s)", percent(worstErrors), errors.Workload))
	}
	if len(v.Evidence) == 0 {
		return nil
	}
	v.Text = e.Name + " " + strings.Join(words, ", ") + "."
	return []Advice{v}
}

// recommendation is one line of what is significant.
func recommendation(a Analysis) string {
	var words []string
	if a.Overall.Fastest != Tied {
		words = append(words, fmt.Sprintf("%s for %s", a.Overall.Fastest, a.Family.Primary))
	}
	if a.Overall.MostConsistent != Tied {
		words = append(words, a.Overall.MostConsistent+" for consistency")
	}
	seen := map[string]bool{}
	for _, v := range a.Advice {
		if v.Kind == "cost" && strings.HasPrefix(v.Evidence[0].Name, "cost_against_") && !seen[v.Engine+v.Workload] {
			seen[v.Engine+v.Workload] = true
			words = append(words, fmt.Sprintf("%s for cost on %s", v.Engine, v.Workload))
		}
	}
	if len(words) == 0 {
		return "none: " + a.Overall.Because
	}
	return strings.Join(words, ", ")
}
