package score

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func terms(t testing.TB, price, rate string) Terms {
	t.Helper()
	parse := func(s string) *assay.Money {
		if s == "" {
			return nil
		}
		m, err := assay.ParseMoney(s, "EUR")
		if err != nil {
			t.Fatal(err)
		}
		return &m
	}
	return Terms{Price: parse(price), EnergyRate: parse(rate)}
}

// specifiedRental is the formula of the profiler specification:
// (hourly_rate × utilization) / tokens_per_hour.
func specifiedRental(hourlyRate, utilization, tokensPerHour float64) float64 {
	return hourlyRate * utilization / tokensPerHour
}

// A node is paid for by the hour whether it works or not. So a node that makes
// half as many tokens in the hour makes each of them twice as expensive.
func TestHalvingUtilizationMustDoubleThePriceOfAToken(t *testing.T) {
	price, _ := assay.ParseMoney("2", "EUR")
	const capacity = 1e6 // tokens an hour
	for _, u := range []float64{1, 0.8, 0.5, 0.2} {
		full, ok := Rental(price, capacity, u)
		half, ok2 := Rental(price, capacity, u/2)
		if !ok || !ok2 || half.Nano != 2*full.Nano {
			t.Errorf("at %v a million tokens cost %s, at half of that %s", u, full, half)
		}
	}
	if m, _ := Rental(price, capacity, 1); m.Nano != 2e9 {
		t.Errorf("2 EUR an hour at a million tokens an hour is %s a million", m)
	}
}

func TestTheSpecificationsFormulaHalvesThePriceInstead(t *testing.T) {
	full, half := specifiedRental(2, 1, 1e6), specifiedRental(2, 0.5, 1e6)
	if half != full/2 {
		t.Fatalf("the specification's formula is not as it was: %v and %v", full, half)
	}
	if idle := specifiedRental(2, 0, 1e6); idle != 0 {
		t.Fatalf("by it an idle node makes tokens for %v", idle)
	}
	price, _ := assay.ParseMoney("2", "EUR")
	ours, _ := Rental(price, 1e6, 0.5)
	if specified := half * 1e6; !(math.Abs(ours.Units()/specified-4) <= 1e-9) {
		t.Errorf("at half load ours is %v and the specification's %v: four times too cheap is what it should be", ours.Units(), specified)
	}
	if _, ok := Rental(price, 1e6, 0); ok {
		t.Error("a node that makes no tokens has a price of a token")
	}
}

func TestEnergyIsKilowattHoursTimesRateOverOutputTokens(t *testing.T) {
	in := healthy(1)
	in.Terms = terms(t, "", "0.30")
	c := Health(in).Cost
	kWh, tokens := 320.0*290/3.6e6, 271.2*290
	near(t, "energy cost", c.EnergyCostPerToken, kWh*0.30/tokens)
	if want := int64(math.Round(kWh * 0.30 / tokens * 1e6 * 1e9)); c.EnergyPerMillion.Nano != want || c.Currency != "EUR" {
		t.Errorf("%s, want %d billionths", c.EnergyPerMillion, want)
	}
	// Only energy was asked for: the total is that alone.
	near(t, "total", c.TotalCostPerToken, *c.EnergyCostPerToken)
	if c.RentalCostPerToken != nil || c.Unknown["rental_cost_per_token"] == "" || len(c.Curve) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRentalStandsAtCapacityWithACurveOverUtilization(t *testing.T) {
	in := healthy(1)
	in.Terms = terms(t, "0.35", "")
	in.Manifest.Judge.Goodput = []assay.Limit{{Metric: "ttft", MaxMS: 50}}
	in.Summary.Stages[0].GoodShare = 0.5
	c := Health(in).Cost
	perMillion := 0.35 / (271.2 * 3600) * 1e6
	near(t, "rental", c.RentalCostPerToken, perMillion/1e6)
	near(t, "utilization", c.Utilization, 1)
	if len(c.Curve) != 10 || c.Curve[0].Utilization != 0.1 || c.Curve[9].Utilization != 1 {
		t.Fatalf("%+v", c.Curve)
	}
	for _, p := range c.Curve {
		if want := perMillion / p.Utilization; !(math.Abs(p.PerMillion.Units()-want) <= 1e-9) {
			t.Errorf("at %v: %v, want %v", p.Utilization, p.PerMillion.Units(), want)
		}
	}
	if want := perMillion / 0.5; !(math.Abs(c.AtGoodput.Units()-want) <= 1e-9) {
		t.Errorf("good tokens cost %s, want %v", c.AtGoodput, want)
	}
	// 18 tokens in for 6 out: a quarter of the price, laid on all of them.
	if want := perMillion / 4; !(math.Abs(c.BlendedPerMillion.Units()-want) <= 1e-9) {
		t.Errorf("blended %s, want %v", c.BlendedPerMillion, want)
	}
}

func TestASustainedStageIsPricedAtItsShareOfTheCapacity(t *testing.T) {
	in := healthy(1)
	in.Terms = terms(t, "0.35", "")
	in.Baseline = nil
	probe := stage("probe", 8)
	probe.Plan.Probe, probe.OutputTokensPerSecond = true, 339
	in.Summary.Stages[0].Plan.Utilization = 0.8
	in.Summary.Stages = append(in.Summary.Stages, probe)
	c := Health(in).Cost
	near(t, "utilization", c.Utilization, 0.8)
	near(t, "rental", c.RentalCostPerToken, 0.35/(339*3600*0.8))
	in.Terms.Utilization = 0.5
	near(t, "rental", Health(in).Cost.RentalCostPerToken, 0.35/(339*3600*0.5))
}

func TestUnknownPowerIsAnUnknownCostAndNeverZero(t *testing.T) {
	for name, joules := range map[string]*float64{"not read": nil, "zero": new(0.0), "negative": new(-1.0), "not a number": new(math.NaN())} {
		in := healthy(1)
		in.Summary.Stages[0].Joules = joules
		in.Terms = terms(t, "0.35", "0.30")
		c := Health(in).Cost
		if c.EnergyCostPerToken != nil || c.EnergyPerMillion != nil || c.Unknown["energy_cost_per_token"] == "" {
			t.Errorf("%s: energy costs %v", name, c.EnergyCostPerToken)
		}
		// It was asked for, so there is no total without it; rental stands.
		if c.TotalCostPerToken != nil || c.TotalPerMillion != nil || c.BlendedPerMillion != nil || c.RentalCostPerToken == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestTheTotalIsTheExactSum(t *testing.T) {
	in := healthy(1)
	in.Terms = terms(t, "0.35", "0.30")
	c := Health(in).Cost
	if c.TotalPerMillion.Nano != c.EnergyPerMillion.Nano+c.RentalPerMillion.Nano {
		t.Errorf("%s + %s is not %s", c.EnergyPerMillion, c.RentalPerMillion, c.TotalPerMillion)
	}
	in.Terms.EnergyRate.Currency = "USD"
	c = Health(in).Cost
	if c.TotalPerMillion != nil || !strings.Contains(c.Unknown["total_cost_per_token"], "two currencies") || c.EnergyPerMillion.Currency != "USD" || c.RentalPerMillion.Currency != "EUR" {
		t.Errorf("%+v", c)
	}
	in.Terms = Terms{}
	if c = Health(in).Cost; c.TotalCostPerToken != nil || len(c.Unknown) < 3 {
		t.Errorf("%+v", c)
	}
}
