package campaign

import (
	"bytes"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
)

func usd(units float64) assay.Money {
	return assay.Money{Nano: int64(units * 1e9), Currency: "USD"}
}

// A campaign of which nothing fits the budget does not begin, and a faster clock of
// the clouds counts.
func TestNothingFitsTheBudget(t *testing.T) {
	budget, cell := usd(10), usd(2)
	cost := func(hour, reserve float64) *campaign.Cost {
		return &campaign.Cost{Hour: usd(hour), Reserve: usd(reserve)}
	}
	p := campaign.Plan{Cells: []campaign.Planned{{LifeSeconds: 3600, Cost: cost(1, 1)}, {LifeSeconds: 3600, Cost: cost(1.5, 1.5)}, {Cost: nil}}}
	var stderr bytes.Buffer
	if err := enough(p, campaign.Budget{Campaign: &budget, Cell: &cell}, 1, &stderr); err != nil || stderr.Len() > 0 {
		t.Errorf("%v %s", err, &stderr)
	}
	low := usd(1.2)
	if err := enough(p, campaign.Budget{Campaign: &budget, Day: &low}, 1, &stderr); err != nil || !strings.Contains(stderr.String(), "1 cells cannot be tried: one try reserves 1.50 USD or more, and the budget allows 1.20 USD") {
		t.Errorf("%v %s", err, &stderr)
	}
	err := enough(p, campaign.Budget{Campaign: &budget}, 600, &stderr)
	if err == nil || !strings.Contains(err.Error(), "reserves 600.00 USD or more, and the budget allows 10.00 USD") || !strings.Contains(err.Error(), "600 times as fast") || !strings.Contains(err.Error(), "10h0m0s") {
		t.Errorf("%v", err)
	}
	none := usd(0.1)
	if err := enough(p, campaign.Budget{Campaign: &none}, 1, &stderr); err == nil || !strings.Contains(err.Error(), "raise budget in the matrix") {
		t.Errorf("%v", err)
	}
}

// What was left for the want of money is said with its numbers and with what to do;
// more money has it wait again.
func TestOutOfMoneyIsSaid(t *testing.T) {
	url := "sqlite:" + write(t, "c.db", "")
	db, s, err := (&databaseFlags{url}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cells := []store.Cell{
		{ID: "c-1", Number: 1, GPU: "RTX 4090", Provider: "vast", Model: "m", Engine: "ollama", Spec: "{}"},
		{ID: "c-2", Number: 2, GPU: "RTX 3090", Provider: "vast", Model: "m", Engine: "ollama", Spec: "{}"},
		{ID: "c-3", Number: 3, GPU: "RTX 3090", Provider: "vast", Model: "big", Engine: "ollama", Spec: "{}"},
	}
	c := store.Campaign{ID: "c", Name: "c", Settings: "{}", Caps: store.Caps{Cell: usd(5), Campaign: usd(10), Day: usd(10)}}
	if err := s.AddCampaign(t.Context(), c, cells); err != nil {
		t.Fatal(err)
	}
	const said = "the reservation would pass the cap of campaign c: 9.00 USD are reserved"
	for id, p := range map[string]store.Progress{
		"c-1": {Status: "skipped", Stage: "provision", Cause: "budget", Message: said},
		"c-2": {Status: "skipped", Stage: "provision", Cause: "budget", Message: said},
		"c-3": {Status: "skipped", Cause: "size", Message: "it needs 50 GiB"},
	} {
		if err := s.SetCell(t.Context(), id, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.EndCampaign(t.Context(), "c", "done"); err != nil {
		t.Fatal(err)
	}
	// A session that somebody rents by hand is no campaign to look at.
	if err := s.AddCampaign(t.Context(), store.Campaign{ID: "session-1", Caps: c.Caps}, nil); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "campaign", "status", "--database", url)
	for _, want := range []string{"2 cells: budget: " + said, "size: it needs 50 GiB", `resume c --budget USD`} {
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("%d, without %q: %s%s", code, want, stdout, stderr)
		}
	}
	var out bytes.Buffer
	if err := (&resumeFlags{budget: "nothing"}).pay(t.Context(), s, "c", &out); err == nil {
		t.Error("no amount was taken for one")
	}
	if err := (&resumeFlags{budget: "40"}).pay(t.Context(), s, "c", &out); err != nil || !strings.Contains(out.String(), "at most 40.00 USD in all, 5.00 USD a cell, 40.00 USD a day; 2 cells are tried again") {
		t.Errorf("%v %s", err, &out)
	}
	list, err := s.Cells(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"pending", "pending", "skipped"} {
		if list[n].Status != want {
			t.Errorf("cell %d: %+v", n+1, list[n].Progress)
		}
	}
	if got, err := s.Campaign(t.Context(), "c"); err != nil || got.Caps != (store.Caps{Cell: usd(5), Campaign: usd(40), Day: usd(40)}) {
		t.Errorf("%+v %v", got.Caps, err)
	}
}
