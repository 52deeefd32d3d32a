package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func given(a Analysis, kind, engine string) []Advice {
	var out []Advice
	for _, v := range a.Advice {
		if v.Kind == kind && v.Engine == engine {
			out = append(out, v)
		}
	}
	return out
}

func unanswered(a Analysis, question string) bool {
	for _, u := range a.Unanswered {
		if u.Question == question {
			return true
		}
	}
	return false
}

func TestCostIsThePriceOfAnHourOverItsTokens(t *testing.T) {
	e := made(12, 1, 1)
	for i := range e.Samples {
		e.Samples[i].Metrics[throughputMetric] = 1000 // 3.6 million an hour
	}
	if a := Analyze(e); len(given(a, "cost", "a")) != 0 || !unanswered(a, "cost") {
		t.Error("there is a cost without a price")
	}
	e.Analysis.Prices = map[string]assay.Money{"": {Nano: 3_600_000_000, Currency: "USD"}, "b": {Nano: 7_200_000_000, Currency: "USD"}}
	a := Analyze(e)
	if unanswered(a, "cost") {
		t.Error("the cost is called unanswered")
	}
	for engine, want := range map[string]float64{"a": 1, "b": 2} {
		got := given(a, "cost", engine)
		if len(got) == 0 || !(math.Abs(got[0].Evidence[0].Value.Est-want) <= 1e-9) {
			t.Errorf("a million tokens of %s: %+v, want %v USD", engine, got, want)
		}
		money := given(a, "performance_per_money", engine)
		if len(money) == 0 || !(math.Abs(money[0].Evidence[0].Value.Est-1e6/want) <= 1e-6) {
			t.Errorf("tokens for one USD from %s: %+v", engine, money)
		}
	}
}

func TestCheapestOnlyWhenItHoldsUp(t *testing.T) {
	price := func(e Experiment, b int64) Experiment {
		e.Analysis.Prices = map[string]assay.Money{"a": {Nano: 1e9, Currency: "USD"}, "b": {Nano: b, Currency: "USD"}}
		return e
	}
	cheapest := func(e Experiment) string {
		name := ""
		for _, v := range Analyze(e).Advice {
			if strings.Contains(v.Text, "cheapest") {
				name += v.Engine
			}
		}
		return name
	}
	for _, test := range []struct {
		name  string
		e     Experiment
		price int64
		want  string
	}{
		{"equals at one price", made(20, 1, 1), 1e9, ""},
		{"equals at two prices", made(20, 1, 1), 2e9, "a"},
		{"faster at one price", made(20, 1, 0.8), 1e9, "b"},
		{"faster at its price", made(20, 1, 0.8), 1_250_000_000, ""},
		{"faster at more than its price", made(20, 1, 0.8), 2e9, "a"},
		{"too few rounds", made(4, 1, 0.5), 1e9, ""},
	} {
		if got := cheapest(price(test.e, test.price)); got != test.want {
			t.Errorf("%s: the cheapest is %q, want %q", test.name, got, test.want)
		}
	}
	mixed := price(made(20, 1, 0.8), 1e9)
	mixed.Analysis.Prices["b"] = assay.Money{Nano: 1e9, Currency: "EUR"}
	if got := cheapest(mixed); got != "" {
		t.Errorf("dollars were compared with euros: %q", got)
	}
}

func TestWhatWasNotServedAsPromisedHasNoPrice(t *testing.T) {
	e := made(12, 1, 3)
	e.Analysis.Prices = map[string]assay.Money{"": {Nano: 1e9, Currency: "USD"}}
	e.Analysis.SLO = []assay.Objective{{Metric: "ttft", Stat: "p99", Max: 100}}
	if a := Analyze(e); len(given(a, "objective", "a")) != 0 || len(given(a, "cost", "a")) != 0 || !unanswered(a, "performance tiers") {
		t.Error("60 requests tell a 99th percentile")
	}
	for i := range e.Samples {
		e.Samples[i].Requests, e.Samples[i].OK = 400, 400
	}
	a := Analyze(e)
	if len(given(a, "cost", "a")) == 0 || len(given(a, "cost", "b")) != 0 {
		t.Errorf("a kept it and b did not: %+v %+v", given(a, "cost", "a"), given(a, "cost", "b"))
	}
	if got := given(a, "objective", "b"); len(got) != 1 || !strings.Contains(got[0].Text, "0 of 12 runs") {
		t.Errorf("%+v", got)
	}
	// An objective that no run has a figure for is not kept and not broken.
	e.Analysis.SLO = []assay.Objective{{Metric: "itl", Stat: "p99", Max: 100}}
	if a := Analyze(e); len(given(a, "objective", "a")) != 0 || len(given(a, "cost", "a")) != 0 {
		t.Error("an objective without figures gives advice")
	}
}

func TestAdviceRestsOnFigures(t *testing.T) {
	a := Analyze(full())
	kinds := map[string]bool{}
	for _, v := range a.Advice {
		kinds[v.Kind] = true
		if len(v.Evidence) == 0 || v.Text == "" {
			t.Errorf("advice without figures: %+v", v)
		}
		for _, r := range v.Evidence {
			if !r.Value.Known() {
				t.Errorf("%s rests on %s, which is not known", v.Text, r.Name)
			}
		}
	}
	for _, kind := range []string{"cost", "performance_per_money", "objective", "risk", "memory", "energy"} {
		if !kinds[kind] {
			t.Errorf("no advice about %s", kind)
		}
	}
	if len(a.Unanswered) != 0 {
		t.Errorf("not answered: %+v", a.Unanswered)
	}
	// Without readings there is none about memory, energy or money.
	e := made(12, 1, 1)
	for i := range e.Samples {
		delete(e.Samples[i].Metrics, "memory_peak_bytes")
	}
	a = Analyze(e)
	for _, v := range a.Advice {
		if v.Kind != "risk" {
			t.Errorf("made up: %+v", v)
		}
	}
	if !unanswered(a, "cost") || !unanswered(a, "performance tiers") {
		t.Errorf("not answered: %+v", a.Unanswered)
	}
}
