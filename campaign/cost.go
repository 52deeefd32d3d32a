package campaign

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
)

// Offer is a machine that could be rented.
type Offer struct {
	ID       string
	Location string
	GPUs     int
	Memory   int64 // bytes of each GPU; 0: not stated
	Price    provider.Price
}

// Want is what is asked of a provider's inventory.
type Want struct {
	Provider string
	GPU      string
	Count    int
	DiskGB   int
}

// Inventory gives what can be rented now.
type Inventory interface {
	Offers(ctx context.Context, w Want) ([]Offer, error)
}

// nodeBinary and results are transferred beside image and model; both are bounds
// that the collection keeps to.
const (
	nodeBinary = 20_000_000
	results    = 100_000_000
)

// slowLink and usualLink are what a machine downloads a second: at the slowest that
// is put up with (100 Mb/s), and as most do.
const (
	slowLink  = 12_500_000
	usualLink = 60_000_000
)

// limitsOf are the longest times of a cell's stages, where the matrix has none.
func (m Matrix) limitsOf(e Engine, weights int64) Limits {
	l := m.Limits
	orTime(&l.Provision, e.Reachable)
	orTime(&l.Setup, 10*time.Minute)
	orTime(&l.Load, seconds(float64(weights)/slowLink)+3*time.Minute)
	orTime(&l.Benchmark, m.Engine.Duration+2*time.Minute)
	orTime(&l.Collect, 3*time.Minute)
	orTime(&l.End, 5*time.Minute)
	return l
}

// expectOf are the times that are likely, where the matrix has none.
func (m Matrix) expectOf(e Engine, weights int64) Limits {
	l := m.Expect
	orTime(&l.Provision, e.Reachable/2)
	orTime(&l.Setup, 2*time.Minute)
	orTime(&l.Load, seconds(float64(weights)/usualLink)+45*time.Second)
	orTime(&l.Benchmark, m.Engine.Duration+30*time.Second)
	orTime(&l.Collect, 20*time.Second)
	orTime(&l.End, 30*time.Second)
	return l
}

func orTime(d *time.Duration, or time.Duration) {
	if *d == 0 {
		*d = or
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// History is what became of earlier tries.
type History struct {
	Tries    int    `json:"tries"`
	Failures int    `json:"failures"`
	Source   string `json:"source"` // where it is from, in words
}

// DefaultHistory is used where there is none of one's own: in campaigns in the open
// about 65 % of first tries failed.
func DefaultHistory() History {
	return History{Tries: 100, Failures: 65, Source: "no tries of your own are recorded: about 65 % of first tries failed in campaigns in the open"}
}

// rate is the share of tries that fail. It is never taken for 0 or 1: by Laplace's
// rule one more of each is counted.
func (h History) rate() float64 { return (float64(h.Failures) + 1) / (float64(h.Tries) + 2) }

// Cost is what a cell may cost.
type Cost struct {
	Offers int `json:"offers"` // that were found and may be tried, within the cap of an hour's price
	// Hour is the first one's price.
	Hour assay.Money `json:"hour"`
	// Reserve is what has to be free before the first try: its longest life, and all
	// that may be transferred.
	Reserve assay.Money `json:"reserve"`
	// Bound is that of all tries that are allowed, one after the other, each at an
	// offer of its own.
	Bound  assay.Money `json:"bound"`
	Likely assay.Money `json:"likely"`
}

// costOf prices a cell by the offers that would be tried, the cheapest first.
func (m Matrix) costOf(offers []Offer, e Engine, weights int64, h History) (*Cost, error) {
	offers = m.affordable(offers)
	if len(offers) == 0 {
		return nil, errNoOffer
	}
	limits, expect := m.limitsOf(e, weights), m.expectOf(e, weights)
	down, up := e.Image+weights+nodeBinary, int64(results)
	c := &Cost{Offers: len(offers), Hour: offers[0].Price.Hour}
	c.Bound.Currency, c.Likely.Currency = m.Currency, m.Currency
	reached, fail := 1.0, h.rate()
	for i, o := range offers[:min(len(offers), m.Engine.Attempts)] {
		if o.Price.Hour.Currency != m.Currency {
			return nil, fmt.Errorf("an offer in %s: the matrix counts in %s", o.Price.Hour.Currency, m.Currency)
		}
		most, err := o.Price.Cost(limits.Life(), down, up)
		if err != nil {
			return nil, err
		}
		good, err := o.Price.Cost(expect.Life(), down, up)
		if err != nil {
			return nil, err
		}
		// Most tries that fail do so before anything is pulled, at the end of a limit.
		bad, err := o.Price.Cost(limits.Provision+expect.End, e.Image, 0)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			c.Reserve = most
		}
		if c.Bound, err = c.Bound.Plus(most); err != nil {
			return nil, err
		}
		c.Likely.Nano += int64(math.Round(reached * ((1-fail)*float64(good.Nano) + fail*float64(bad.Nano))))
		reached *= fail
	}
	return c, nil
}

// affordable are the offers that may be tried, in the order in which they would be.
func (m Matrix) affordable(offers []Offer) []Offer {
	out := slices.Clone(offers)
	if hour := m.Engine.HourCap; hour != nil {
		out = slices.DeleteFunc(out, func(o Offer) bool { return o.Price.Hour.Nano > hour.Nano })
	}
	slices.SortStableFunc(out, func(a, b Offer) int { return cmp.Compare(a.Price.Hour.Nano, b.Price.Hour.Nano) })
	return out
}
