package vast

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// hoursOfMonth turns a price a month into one an hour, as this provider does.
const hoursOfMonth = 730.0

// maxName bounds names of GPUs, places and states.
const maxName = 80

// bundle is an offer as the search gives it.
type bundle struct {
	ID           int64   `json:"id"`
	Machine      int64   `json:"machine_id"`
	GPU          string  `json:"gpu_name"`
	RAM          float64 `json:"gpu_ram"` // MiB of one
	GPUs         int     `json:"num_gpus"`
	Hour         float64 `json:"dph_total"`
	StorageMonth float64 `json:"storage_cost"` // a GB
	Up           float64 `json:"inet_up_cost"`
	Down         float64 `json:"inet_down_cost"`
	Reliability  float64 `json:"reliability2"`
	Location     string  `json:"geolocation"`
	Rentable     *bool   `json:"rentable"`
}

// Offers searches. Prices are for the disk that is asked for, since dph_total has
// the price of it in it.
func (c *Cloud) Offers(ctx context.Context, q provider.Query) ([]provider.Offer, error) {
	disk := max(q.DiskGB, Traits(Config{}).MinDiskGB)
	limit := q.MaxOffer
	if limit <= 0 {
		limit = 100
	}
	ask := map[string]any{
		"type": "on-demand", "rentable": map[string]any{"eq": true}, "num_gpus": map[string]any{"eq": max(q.GPUs, 1)},
		"allocated_storage": disk, "limit": limit, "order": [][]string{{"dph_total", "asc"}},
	}
	if names := searchNames(q.GPU); names != nil {
		ask["gpu_name"] = map[string]any{"in": names}
	}
	a, err := c.do(ctx, provider.CallOffers, http.MethodPost, "/api/v0/bundles/", ask)
	if err != nil {
		return nil, fmt.Errorf("search offers: %w", err)
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("search offers: %w", a.Unexpected())
	}
	offers, err := decodeOffers(a, disk)
	if err != nil {
		return nil, fmt.Errorf("search offers: %w", err)
	}
	offers = slices.DeleteFunc(offers, func(o provider.Offer) bool { return !q.Accepts(o) })
	slices.SortStableFunc(offers, func(a, b provider.Offer) int { return cmp.Compare(a.Price.Hour.Nano, b.Price.Hour.Nano) })
	return offers[:min(len(offers), limit)], nil
}

// searchNames are the spellings that this provider may have for a GPU.
func searchNames(gpu string) []string {
	var base []string
	for _, w := range strings.Fields(strings.NewReplacer("_", " ", "-", " ").Replace(gpu)) {
		if n, ok := strings.CutSuffix(strings.ToUpper(w), "GB"); ok {
			if _, err := strconv.Atoi(n); err == nil {
				continue
			}
		}
		base = append(base, w)
	}
	if len(base) == 0 {
		return nil
	}
	var out []string
	for _, form := range []string{"", " PCIE", " SXM", " SXM2", " SXM4", " SXM5", " NVL"} {
		out = append(out, strings.Join(base, " ")+form)
	}
	return out
}

// decodeOffers reads a search. One offer that makes no sense is passed over: others
// are not worse for it.
func decodeOffers(a provider.Answer, disk int) ([]provider.Offer, error) {
	var page struct {
		Offers *[]json.RawMessage `json:"offers"`
	}
	if err := a.JSON(&page); err != nil {
		return nil, err
	}
	if page.Offers == nil {
		return nil, fmt.Errorf("%w: no offers in the answer: %s", provider.ErrMalformed, a.Said())
	}
	out := []provider.Offer{}
	for _, raw := range *page.Offers {
		var b bundle
		if json.Unmarshal(raw, &b) != nil {
			continue
		}
		if o, err := b.offer(disk); err == nil {
			out = append(out, o)
		}
	}
	if len(out) == 0 && len(*page.Offers) > 0 {
		return nil, fmt.Errorf("%w: none of %d offers makes sense", provider.ErrMalformed, len(*page.Offers))
	}
	return out, nil
}

func (b bundle) offer(disk int) (provider.Offer, error) {
	if b.ID <= 0 || b.GPUs <= 0 || b.Hour <= 0 || b.RAM < 0 || b.RAM > 1e7 || b.Rentable != nil && !*b.Rentable {
		return provider.Offer{}, provider.ErrMalformed
	}
	o := provider.Offer{
		ID: strconv.FormatInt(b.ID, 10), Location: foreign.Line(b.Location, maxName),
		GPU: foreign.Line(b.GPU, maxName), GPUs: b.GPUs, VRAM: int64(b.RAM) << 20, DiskGB: disk,
	}
	if b.Machine > 0 {
		o.Machine = strconv.FormatInt(b.Machine, 10)
	}
	if b.Reliability > 0 && b.Reliability <= 1 {
		o.Reliability = b.Reliability
	}
	var err error
	o.Price, err = provider.Prices(b.Hour, b.StorageMonth*float64(disk)/hoursOfMonth, b.Up, b.Down)
	return o, err
}
