package rentals

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
)

// fresh is how long offers are shown before a cloud is asked again: a search is a
// limited call, and whoever runs a campaign needs it too.
const fresh = time.Minute

// Bounds of what a cloud is asked for.
const (
	maxOffers = 500
	diskGB    = 100 // that prices are asked for
)

// shelf is what one cloud offered last.
type shelf struct {
	mu     sync.Mutex // held while it is asked: one who waits gets the same answer
	at     time.Time
	offers []provider.Offer
}

// offers is what a cloud offers, as it was within the last minute.
func (d *Desk) offers(ctx context.Context, c rent.Cloud) ([]provider.Offer, time.Time, error) {
	s := d.shelf(c.Traits.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := d.o.Now(); s.at.IsZero() || now.Sub(s.at) >= fresh {
		list, err := c.Provider.Offers(ctx, provider.Query{DiskGB: max(diskGB, c.Traits.MinDiskGB), MaxOffer: maxOffers})
		if err != nil {
			return nil, time.Time{}, err
		}
		s.offers, s.at = list, now
	}
	return s.offers, s.at, nil
}

// stale has a cloud asked again, after one of its offers was gone.
func (d *Desk) stale(name string) {
	s := d.shelf(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

func (d *Desk) shelf(name string) *shelf {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shelves[name]
	if s == nil {
		s = &shelf{}
		d.shelves[name] = s
	}
	return s
}

// offerID names an offer of a cloud for all of them.
func offerID(cloud, id string) string {
	if id == "" {
		return ""
	}
	return cloud + ":" + id
}

// Offers is what can be rented now, the cheapest first.
func (d *Desk) Offers(ctx context.Context, q server.OfferQuery) (api.Offers, error) {
	names := d.o.Renter.Clouds()
	if q.Provider != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name != q.Provider })
	}
	if len(names) == 0 {
		return api.Offers{}, fmt.Errorf("%w: there are credentials for %s only", server.ErrRefused, strings.Join(d.o.Renter.Clouds(), ", "))
	}
	out := api.Offers{Offers: []api.Offer{}}
	var unknown []api.UnknownOffers
	for _, name := range names {
		list, total, err := d.matching(ctx, name, q)
		if err != nil {
			unknown = append(unknown, api.UnknownOffers{Provider: name, Why: foreign.Line(err.Error(), maxText)})
			continue
		}
		out.Offers, out.Total = append(out.Offers, list...), out.Total+total
	}
	if len(unknown) == len(names) {
		return api.Offers{}, fmt.Errorf("%w: %s: %s", server.ErrClouds, unknown[0].Provider, unknown[0].Why)
	}
	if len(unknown) > 0 {
		out.Unknown = &unknown
	}
	slices.SortStableFunc(out.Offers, func(a, b api.Offer) int {
		return cmp.Or(cmp.Compare(a.PricePerHour, b.PricePerHour), cmp.Compare(a.Id, b.Id))
	})
	out.Count = len(out.Offers)
	return out, nil
}

// matching are the offers of a cloud that were asked for, and how many it has.
func (d *Desk) matching(ctx context.Context, name string, q server.OfferQuery) (out []api.Offer, total int, err error) {
	c, err := d.o.Renter.Cloud(name)
	if err != nil {
		return nil, 0, err
	}
	bad, err := d.o.Store.BadMachines(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	list, at, err := d.offers(ctx, c)
	for _, o := range list {
		vram := float64(o.VRAM) / (1 << 30)
		switch {
		case q.GPU != "" && !provider.SameGPU(q.GPU, o.GPU), vram < float64(q.MinVRAMGB), q.MaxPrice != nil && o.Price.Hour.Units() > *q.MaxPrice:
			continue
		}
		_, marked := bad[o.Machine]
		one := api.Offer{
			Id: offerID(name, o.ID), Provider: name, ProviderId: o.ID, GpuType: o.GPU, GpuCount: o.GPUs, PricePerHour: o.Price.Hour.Units(),
			Location: text(o.Location), Available: !marked || o.Machine == "", FetchedAt: at,
		}
		if o.VRAM > 0 {
			one.VramGb = &vram
		}
		if o.Reliability > 0 {
			one.Reliability = &o.Reliability
		}
		out = append(out, one)
	}
	return out, len(list), err
}
