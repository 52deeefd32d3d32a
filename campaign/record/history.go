package record

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
)

// minTries is how many tries of one's own say more than those of others.
const minTries = 10

// HistoryOf is what became of the tries that are recorded: those for which a machine
// was rented or asked for. What was only imported is none. Zero: there are too few.
func HistoryOf(list []store.Manifest) campaign.History {
	var h campaign.History
	for _, m := range list {
		if m.SessionID == "" || strings.HasPrefix(m.ID, importedFile) {
			continue
		}
		switch campaign.Status(m.Status) {
		case campaign.Success, campaign.Partial:
			h.Tries++
		case campaign.Failed:
			h.Tries++
			h.Failures++
		}
	}
	if h.Tries < minTries {
		return campaign.History{}
	}
	h.Source = fmt.Sprintf("%d of your own %d tries failed", h.Failures, h.Tries)
	return h
}
