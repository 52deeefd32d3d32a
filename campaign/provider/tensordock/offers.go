package tensordock

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// maxName bounds names of GPUs, places and states.
const maxName = 80

// location is a place and what is free there, as the inventory says.
type location struct {
	ID      string `json:"id"`
	City    string `json:"city"`
	Country string `json:"country"`
	GPUs    []gpu  `json:"gpus"`
}

type gpu struct {
	Name      string  `json:"v0Name"`
	MaxCount  int     `json:"max_count"`
	Hour      float64 `json:"price_per_hr"`
	Resources struct {
		VCPUs   int `json:"max_vcpus"`
		RAM     int `json:"max_ram_gb"`
		Storage int `json:"max_storage_gb"`
	} `json:"resources"`
	Pricing struct {
		VCPU    float64 `json:"per_vcpu_hr"`
		RAM     float64 `json:"per_gb_ram_hr"`
		Storage float64 `json:"per_gb_storage_hr"`
	} `json:"pricing"`
}

// Offers reads the inventory. It may be stale: only Create finds out.
func (c *Cloud) Offers(ctx context.Context, q provider.Query) ([]provider.Offer, error) {
	a, err := c.do(ctx, provider.CallOffers, http.MethodGet, "/locations", nil)
	if err != nil {
		return nil, err
	}
	places, err := decodeLocations(a)
	if err != nil {
		return nil, err
	}
	disk, gpus := max(q.DiskGB, minDiskGB), max(q.GPUs, 1)
	out := []provider.Offer{}
	for _, l := range places {
		for _, g := range l.GPUs {
			if o, ok := l.offer(g, gpus, disk); ok && q.Accepts(o) {
				out = append(out, o)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b provider.Offer) int { return cmp.Compare(a.Price.Hour.Nano, b.Price.Hour.Nano) })
	limit := q.MaxOffer
	if limit <= 0 {
		limit = 100
	}
	return out[:min(len(out), limit)], nil
}

// decodeLocations reads the inventory, with its envelope or without.
func decodeLocations(a provider.Answer) ([]location, error) {
	var body struct {
		Locations *[]location `json:"locations"`
		Data      struct {
			Locations *[]location `json:"locations"`
		} `json:"data"`
	}
	if err := a.JSON(&body); err != nil {
		return nil, err
	}
	switch {
	case body.Locations != nil:
		return *body.Locations, nil
	case body.Data.Locations != nil:
		return *body.Data.Locations, nil
	}
	return nil, fmt.Errorf("%w: no locations: %s", provider.ErrMalformed, a.Said())
}

// separator stands between the location and the GPU in an offer's id.
const separator = "."

// offer is n GPUs of a kind at a place; false: they cannot be ordered there, or what
// is said of them makes no sense.
func (l location) offer(g gpu, n, disk int) (provider.Offer, bool) {
	r := g.Resources
	if provider.PlainID(l.ID) != nil || provider.PlainID(g.Name) != nil || strings.Contains(l.ID+g.Name, separator) ||
		g.MaxCount < n || g.Hour <= 0 || r.VCPUs < n*vcpus || r.RAM < n*ramGB || r.Storage < disk {
		return provider.Offer{}, false
	}
	storage := g.Pricing.Storage * float64(disk)
	hour := float64(n)*(g.Hour+g.Pricing.VCPU*vcpus+g.Pricing.RAM*ramGB) + storage
	price, err := provider.Prices(hour, storage, 0, 0)
	if err != nil {
		return provider.Offer{}, false
	}
	return provider.Offer{
		ID: l.ID + separator + g.Name, Location: l.ID, Machine: "",
		GPU: foreign.Line(g.Name, maxName), GPUs: n, VRAM: vram(g.Name), DiskGB: disk, Price: price,
	}, true
}

// vram is the memory that a name ends in, as "geforcertx4090-pcie-24gb"; 0: it names
// none.
func vram(name string) int64 {
	at := strings.LastIndexByte(name, '-')
	n, ok := strings.CutSuffix(strings.ToLower(name[at+1:]), "gb")
	gb, err := strconv.Atoi(n)
	if !ok || err != nil || gb < 1 || gb > 10_000 {
		return 0
	}
	return int64(gb) << 30
}

// split gives the location and the GPU that an offer's id names.
func split(id string) (place, gpu string, err error) {
	place, gpu, ok := strings.Cut(id, separator)
	if !ok || provider.PlainID(place) != nil || provider.PlainID(gpu) != nil {
		return "", "", fmt.Errorf("%w: %q is no offer of this provider", provider.ErrNotSent, foreign.Line(id, maxName))
	}
	return place, gpu, nil
}

// order is the body of a create.
func order(o provider.Order) (map[string]any, error) {
	place, name, err := split(o.Offer.ID)
	if err != nil {
		return nil, err
	}
	n := max(o.Offer.GPUs, 1)
	attributes := map[string]any{
		"name": o.Label, "type": "virtualmachine", "image": image(o.Image), "location_id": place, "ssh_key": o.SSHKey,
		"resources": map[string]any{
			"vcpu_count": n * vcpus, "ram_gb": n * ramGB, "storage_gb": max(o.DiskGB, o.Offer.DiskGB, minDiskGB),
			"gpus": map[string]any{name: map[string]int{"count": n}},
		},
		"useDedicatedIp": true,
	}
	if o.OnStart != "" {
		attributes["cloud_init"] = map[string]any{"runcmd": []string{o.OnStart}}
	}
	return map[string]any{"data": map[string]any{"type": "virtualmachine", "attributes": attributes}}, nil
}

// image is the VM's: a container's is none.
func image(asked string) string {
	if asked == "" || strings.ContainsAny(asked, "/:") {
		return "ubuntu2204"
	}
	return asked
}
