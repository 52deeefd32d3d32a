package inference

import "github.com/assay-bench/assay"

// ModelSize is how large a model is, as its engine says; zero: it does not say.
type ModelSize struct {
	Parameters float64
	Bytes      int64 // of its weights
}

// maxModelBytes is beyond every model; a larger figure is a mistake, or a lie.
const maxModelBytes = 1e16

// size remembers what the engine says of a model's size. An engine's figures
// are taken one by one: one that is not what it should be is left out.
func (f *Found) size(model string, parameters, bytes any) {
	s := ModelSize{Bytes: int64(amount(bytes)), Parameters: amount(parameters)}
	if text, ok := parameters.(string); ok { // Ollama's 28.01M
		s.Parameters, _ = assay.ParseModelSize(text)
	}
	if s == (ModelSize{}) || model == "" || len(f.Sizes) >= discoverModels {
		return
	}
	if f.Sizes == nil {
		f.Sizes = map[string]ModelSize{}
	}
	f.Sizes[name(model)] = s
}

// amount is a number that can be a size; 0: it is none.
func amount(v any) float64 {
	n, ok := v.(float64)
	if !ok || !(n > 0) || n > maxModelBytes {
		return 0
	}
	return n
}

// memberOf is a member of a JSON object; nil: there is none.
func memberOf(object any, key string) any {
	m, _ := object.(map[string]any)
	return m[key]
}
