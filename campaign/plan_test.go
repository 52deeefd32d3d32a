package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
)

// stock is an inventory of one kind of machine.
type stock struct {
	offers []Offer
	err    error
	asked  []Want
}

func (s *stock) Offers(_ context.Context, w Want) ([]Offer, error) {
	s.asked = append(s.asked, w)
	return s.offers, s.err
}

func usd(t *testing.T, s string) assay.Money {
	t.Helper()
	m, err := assay.ParseMoney(s, "USD")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func makePlan(t *testing.T, m Matrix, o Options) Plan {
	t.Helper()
	p, err := Make(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := schemaOf(t, "plan").Validate(v); err != nil {
		t.Errorf("the plan breaks its schema: %v\n%s", err, b)
	}
	return p
}

// The example has 21 cells: twice two GPUs of two providers with three models, two of
// one provider with three, and three with one.
func TestTheExampleHas21Cells(t *testing.T) {
	p := makePlan(t, read(t, exampleText(t)), Options{})
	if p.Count != 21 || p.Runnable != 21 || len(p.Cells) != 21 || p.Cost != nil {
		t.Errorf("%d cells, %d runnable", p.Count, p.Runnable)
	}
	by := map[string]int{}
	for _, c := range p.Cells {
		by[c.GPU+" "+c.Provider]++
	}
	for at, n := range map[string]int{"RTX 3090 vast": 3, "RTX 3090 tensordock": 3, "RTX 4090 vast": 3, "RTX 4090 tensordock": 3, "RTX 5090 vast": 3, "A100 80GB vast": 3, "H200 NVL vast": 1, "RTX 5060 Ti vast": 1, "RTX 5070 vast": 1} {
		if by[at] != n {
			t.Errorf("%s: %d cells, want %d", at, by[at], n)
		}
	}
	if len(p.Providers) != 2 || p.Providers[0].Cells != 15 || p.Providers[1].Cells != 6 || !strings.Contains(p.Providers[0].Guarantee, "not known") {
		t.Errorf("%+v", p.Providers)
	}
}

func TestWhatCannotFitIsSkippedWithItsNumbers(t *testing.T) {
	text := strings.Replace(exampleText(t), `models: ["deepseek-r1:70b"]`, `models: ["deepseek-r1:70b", unheard-of]`, 1)
	text = strings.Replace(text, "[H200 NVL]", "[H200 NVL, RTX 4090, RTX 9999]", 1)
	p := makePlan(t, read(t, text), Options{})
	got := map[string]string{}
	for _, c := range p.Cells {
		if c.Skip != nil {
			got[c.GPU+" "+c.Model] = *c.Skip
		}
	}
	for cell, want := range map[string]string{
		"RTX 4090 deepseek-r1:70b": "it needs 41.8 GiB and 23.3 GiB are usable",
		"RTX 9999 deepseek-r1:70b": "the memory of a RTX 9999 is not known: give vram_gib",
		"H200 NVL unheard-of":      "the size of unheard-of is not known: describe it under models",
		"RTX 4090 unheard-of":      "the size of unheard-of",
	} {
		if !strings.Contains(got[cell], want) {
			t.Errorf("%s: %q, want %q", cell, got[cell], want)
		}
	}
	if p.Count != 26 || p.Runnable != 21 {
		t.Errorf("%d of %d", p.Runnable, p.Count)
	}
}

func TestRepositoriesAreForVLLM(t *testing.T) {
	text := strings.Replace(small, "engines: [ollama]", "engines: [ollama, vllm]", 1)
	p := makePlan(t, read(t, text), Options{})
	if p.Runnable != 1 || p.Cells[1].Skip == nil || !strings.Contains(*p.Cells[1].Skip, "by a repository's name") {
		t.Errorf("%+v", p.Cells)
	}
}

// A matrix with round figures, so that the sums can be done by hand.
const priced = `format: assay/matrix/v1
budget: {campaign: 100, cell: 10}
attempts: 2
duration: 1m
limits: {provision: 10m, setup: 10m, load: 10m, benchmark: 10m, collect: 10m, end: 10m}
expect: {provision: 5m, setup: 5m, load: 5m, benchmark: 5m, collect: 5m, end: 5m}
cells:
  - {gpus: [RTX 3090], providers: [vast], models: ["qwen2:7b", "deepseek-r1:32b"]}
`

func TestCostsByHand(t *testing.T) {
	s := &stock{offers: []Offer{
		{ID: "dear", Price: provider.Price{Hour: usd(t, "3")}},
		{ID: "cheap", Price: provider.Price{Hour: usd(t, "1"), DownGB: usd(t, "0.1"), UpGB: usd(t, "1")}},
		{ID: "middle", Price: provider.Price{Hour: usd(t, "2")}},
	}}
	p := makePlan(t, read(t, priced), Options{Inventory: s, History: History{Tries: 8, Failures: 4, Source: "ours"}})
	if len(s.asked) != 1 || s.asked[0] != (Want{Provider: "vast", GPU: "RTX 3090", Count: 1, DiskGB: 100}) {
		t.Errorf("asked %+v: once for both cells", s.asked)
	}
	c := p.Cells[0].Cost
	weights, _ := known(t, "qwen2:7b").WeightBytes()
	down := float64(weights+2*giga+nodeBinary) / giga
	// The cheap one lives an hour, and 100 MB leave it.
	reserve := 1 + 0.1*down + 0.1
	bound := reserve + 2
	// Half an hour when it goes well, a quarter of one when it fails: half of the time each.
	likely := 0.5*(0.5+0.1*down+0.1) + 0.5*(0.25+0.2) + 0.5*(0.5*1+0.5*0.5)
	for name, v := range map[string][2]float64{
		"reserve": {c.Reserve.Units(), reserve}, "bound": {c.Bound.Units(), bound}, "likely": {c.Likely.Units(), likely}, "hour": {c.Hour.Units(), 1},
	} {
		if d := v[0] - v[1]; !(d <= 1e-6 && d >= -1e-6) {
			t.Errorf("%s: %v, by hand %v", name, v[0], v[1])
		}
	}
	if c.Offers != 3 || p.Cells[0].LifeSeconds != 3600 {
		t.Errorf("%+v %v", c, p.Cells[0].LifeSeconds)
	}
	life := read(t, priced).Limits.End.Seconds()
	for _, stage := range Stages() {
		life += p.Cells[0].StageSeconds[stage]
	}
	if life != 3600 || p.Cells[0].StageSeconds[Provision] <= 0 {
		t.Errorf("the stages' limits %v and the end's are not a life", p.Cells[0].StageSeconds)
	}
	sum := p.Cells[0].Cost.Bound.Nano + p.Cells[1].Cost.Bound.Nano
	if p.Cost.Bound.Nano != sum || p.Cost.Largest != p.Cells[1].Cost.Reserve || p.Cost.Unpriced != 0 || len(p.Warnings) != 0 {
		t.Errorf("%+v %q", p.Cost, p.Warnings)
	}
}

func TestMoneyThatIsNotThere(t *testing.T) {
	s := &stock{offers: []Offer{{Price: provider.Price{Hour: usd(t, "4")}}}}
	for _, c := range []struct {
		old, now, warning, skip, unpriced string
	}{
		{"budget: {campaign: 100, cell: 10}\n", "", "nothing can be rented", "", ""},
		{"cell: 10", "cell: 3.5", "", "one try reserves 4.00 USD, and the budget of a cell is 3.50 USD", ""},
		{"campaign: 100", "campaign: 3", "one try reserves up to 4.00 USD, and the budget is 3.00 USD", "", ""},
		{"campaign: 100", "campaign: 4.5", "if everything fails as late as it may, 8.00 USD would be spent", "", ""},
		{"attempts: 2", "max_price_per_hour: 3.99", "2 cells have no price", "", "no offer that may be rented was found"},
	} {
		p := makePlan(t, read(t, strings.Replace(priced, c.old, c.now, 1)), Options{Inventory: s})
		if got := strings.Join(p.Warnings, "; "); !strings.Contains(got, c.warning) || c.warning == "" && got != "" {
			t.Errorf("%s: warnings %q", c.now, got)
		}
		cell := p.Cells[0]
		if (cell.Skip != nil) != (c.skip != "") || cell.Skip != nil && *cell.Skip != c.skip || cell.Unpriced != c.unpriced {
			t.Errorf("%s: %+v", c.now, cell)
		}
	}
}

// All tries of a cell may cost more than the budget of one, which then ends them.
func TestACellMayCostMoreThanItsBudget(t *testing.T) {
	four := Offer{Price: provider.Price{Hour: usd(t, "4")}}
	m := read(t, strings.Replace(priced, "cell: 10", "cell: 7.5", 1))
	p := makePlan(t, m, Options{Inventory: &stock{offers: []Offer{four, four}}})
	if got := strings.Join(p.Warnings, "; "); !strings.Contains(got, "2 cells would cost more than the 7.50 USD of a cell") {
		t.Errorf("warnings %q", got)
	}
}

// A name that nobody knows is doubted, also where no provider is asked.
func TestAProviderThatIsNotKnown(t *testing.T) {
	m := read(t, priced)
	p := makePlan(t, m, Options{Guarantees: map[string]string{"vats": "", "tensordock": ""}})
	if got := strings.Join(p.Warnings, "; "); !strings.Contains(got, "is none of tensordock, vats") {
		t.Errorf("warnings %q", got)
	}
	known := map[string]string{}
	for _, c := range p.Cells {
		known[c.Provider] = "a dead man"
	}
	if p := makePlan(t, m, Options{Guarantees: known}); len(p.Warnings) > 0 {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// A provider that does not answer leaves its cells without a price, and no other's.
func TestAProviderThatDoesNotAnswer(t *testing.T) {
	p := makePlan(t, read(t, priced), Options{Inventory: &stock{err: errors.New("refused the key\x1b[31m")}})
	if p.Cells[0].Cost != nil || p.Cells[0].Skip != nil || p.Cells[0].Unpriced != "refused the key\ufffd[31m" || p.Cost.Unpriced != 2 || p.Cost.Bound.Nano != 0 {
		t.Errorf("%+v %+v", p.Cells[0], p.Cost)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Make(ctx, read(t, priced), Options{Inventory: &stock{err: ctx.Err()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Offers know which card of a name they have; a cell is priced by those it fits.
func TestOffersKnowTheirMemory(t *testing.T) {
	text := strings.Replace(priced, "[RTX 3090]", "[RTX 5060 Ti]", 1)
	text = strings.Replace(text, `"deepseek-r1:32b"`, `"deepseek-r1:14b"`, 1)
	s := &stock{offers: []Offer{{Memory: 8 * gibi, Price: provider.Price{Hour: usd(t, "1")}}, {Memory: 16 * gibi, Price: provider.Price{Hour: usd(t, "2")}}}}
	p := makePlan(t, read(t, text), Options{Inventory: s})
	if p.Runnable != 2 || p.Cells[0].Cost.Hour.Units() != 1 || p.Cells[0].Cost.Offers != 2 || p.Cells[1].Cost.Hour.Units() != 2 || p.Cells[1].Cost.Offers != 1 {
		t.Errorf("%+v %+v", p.Cells[0].Cost, p.Cells[1].Cost)
	}
	if off := makePlan(t, read(t, text), Options{}); off.Runnable != 1 {
		t.Errorf("without offers the smallest card counts: %d", off.Runnable)
	}
	two := strings.Replace(text, "- {gpus", "- {gpu_count: 2, vram_gib: 8, gpus", 1)
	if p := makePlan(t, read(t, two), Options{}); p.Runnable != 2 || p.Cells[0].GPU != "2x RTX 5060 Ti" {
		t.Errorf("two of them: %+v", p.Cells)
	}
}

func TestLimits(t *testing.T) {
	m := read(t, exampleText(t))
	vllm, _ := EngineOf("vllm")
	ollama, _ := EngineOf("ollama")
	if l := m.limitsOf(vllm, 0); l.Provision != 20*time.Minute {
		t.Errorf("%s: a vLLM image pulls for 20 minutes", l.Provision)
	}
	l, e := m.limitsOf(ollama, 20*giga), m.expectOf(ollama, 20*giga)
	if e.Life() >= l.Life() || e.Provision > l.Provision || e.Setup > l.Setup || e.Load > l.Load || e.Benchmark > l.Benchmark || e.Collect > l.Collect || e.End > l.End {
		t.Errorf("expected %+v, at most %+v", e, l)
	}
	if l.Provision != 3*time.Minute || l.Load != 1600*time.Second+3*time.Minute {
		t.Errorf("%+v", l)
	}
	if rate := (History{Tries: 3}).rate(); rate <= 0 || rate >= 1 {
		t.Errorf("three good tries: %v", rate)
	}
}
