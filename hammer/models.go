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
	if slices.ContainsFunc(found.Models, func(name string) bool { return sameModel(name, model, found) }) {
		return nil
	}
	list, more := found.Models, ""
	if n := len(list) - maxNamed; n > 0 {
		list, more = list[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%w: %q is not in the list of the engine at %s, which has %s%s; name one of them with --model, or load yours",
		ErrNoModel, model, url, strings.Join(list, ", "), more)
}

// sameModel reports whether an engine means the same model by two names:
// Ollama's x is its x:latest.
func sameModel(a, b string, found inference.Found) bool {
	if found.Backend == inference.Ollama {
		a, b = strings.TrimSuffix(a, ":latest"), strings.TrimSuffix(b, ":latest")
	}
	return a == b
}

// sizeOf is how large the engine says that the model is; zero: it does not say.
func sizeOf(model string, found inference.Found) inference.ModelSize {
	for name, size := range found.Sizes {
		if sameModel(name, model, found) {
			return size
		}
	}
	return inference.ModelSize{}
}
