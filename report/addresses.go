package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// addresses says how the requests were spread over the engine's addresses.
func addresses(s assay.Summary) []Block {
	sent := map[string]int{}
	for _, st := range s.Stages {
		for a, n := range st.Addresses {
			sent[a] += n
		}
	}
	if len(sent) < 2 {
		return nil
	}
	var parts []string
	for _, a := range slices.Sorted(maps.Keys(sent)) {
		parts = append(parts, fmt.Sprintf("%s %d", a, sent[a]))
	}
	const most = 8
	if more := len(parts) - most; more > 0 {
		parts = append(parts[:most], fmt.Sprintf("and %d more addresses", more))
	}
	return []Block{Paragraph{Head: "spread", Text: "requests by address: " + strings.Join(parts, ", ") + "."}}
}
