package hammer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay/inference"
)

const (
	maxNamed = 20 // models that an error names

	// Discover keeps so many models of an engine's list, and so many bytes of a name.
	maxListed, maxName = 1000, 200
)

// served says whether the engine's list has the model. An engine that lists
// nothing, or so much that the list was cut, may still serve it.
func served(url, model string, found inference.Found) error {
	if len(found.Models) == 0 || len(found.Models) >= maxListed || len(model) > maxName {
		return nil
	}
	plain := func(name string) string { return name }
	if found.Backend == inference.Ollama {
		// Ollama's x is its x:latest.
		plain = func(name string) string { return strings.TrimSuffix(name, ":latest") }
	}
	if slices.ContainsFunc(found.Models, func(name string) bool { return plain(name) == plain(model) }) {
		return nil
	}
	list, more := found.Models, ""
	if n := len(list) - maxNamed; n > 0 {
		list, more = list[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%w: %q is not in the list of the engine at %s, which has %s%s; name one of them with --model, or load yours",
		ErrNoModel, model, url, strings.Join(list, ", "), more)
}
