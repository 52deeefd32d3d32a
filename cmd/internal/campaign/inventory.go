package campaign

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
)

// inventory asks providers for their offers.
type inventory map[string]clouds.Account

// Offers asks one of them.
func (i inventory) Offers(ctx context.Context, w campaign.Want) ([]campaign.Offer, error) {
	a, ok := i[w.Provider]
	if !ok {
		return nil, clouds.Missing(w.Provider)
	}
	list, err := a.Provider.Offers(ctx, provider.Query{GPU: w.GPU, GPUs: w.Count, DiskGB: max(w.DiskGB, a.Traits.MinDiskGB)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Provider, err)
	}
	out := make([]campaign.Offer, 0, len(list))
	for _, o := range list {
		out = append(out, campaign.Offer{
			ID: o.ID, Location: o.Location, GPUs: o.GPUs, Memory: o.VRAM, Price: o.Price,
		})
	}
	return out, nil
}
