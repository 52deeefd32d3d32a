package hammer

import (
	"encoding/json"
	"testing"
)

// What --extra-body says of Ollama's options is merged with what the flags say,
// and wins where both say it.
func TestExtraBodyMergesOllamasOptions(t *testing.T) {
	c := DefaultConfig()
	c.Backend = "ollama"
	top := 0.9
	c.Sampling = Sampling{TopP: &top}
	for extra, want := range map[string]string{
		`{"options":{"num_ctx":512},"raw":true}`: `{"options":{"num_ctx":512,"top_p":0.9},"raw":true}`,
		`{"options":{"top_p":0.5}}`:              `{"options":{"top_p":0.5}}`,
		`{"raw":true}`:                           `{"options":{"top_p":0.9},"raw":true}`,
	} {
		c.Extra = json.RawMessage(extra)
		if got, err := c.extra(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", extra, got, err, want)
		}
	}
}
