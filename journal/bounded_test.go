package journal

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// TestBloatedDocuments: lists of empty things that would become large ones are
// refused before they are made.
func TestBloatedDocuments(t *testing.T) {
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	const n = 100_000
	for _, tt := range []struct {
		name, json string
		into       any
		want       error
	}{
		{"gpus", `{"node":{"gpus":[` + many("{}", n) + `]}}`, new(assay.Manifest), ErrBloated},
		{"gpus in capitals", `{"NODE":{"GPUS":[` + many("{}", n) + `]}}`, new(assay.Manifest), ErrBloated},
		{"objectives", `{"judge":{"objectives":[` + many("{}", n) + `]}}`, new(assay.Manifest), ErrBloated},
		{"stages of a summary", `{"stages":[` + many("{}", n) + `]}`, new(assay.Summary), ErrBloated},
		{"gpus of a health report", `{"gpus":[` + many("{}", n) + `]}`, new(assay.Health), ErrBloated},
		{"a configuration is kept as it is", `{"config":[` + many("{}", n) + `]}`, new(assay.Manifest), nil},
		{"what nobody knows", `{"else":[` + many("{}", n) + `]}`, new(assay.Manifest), nil},
		{"a long text", `{"id":"` + strings.Repeat("x", n) + `"}`, new(assay.Manifest), nil},
		{"a few real GPUs", `{"node":{"gpus":[` + many(`{"uuid":"GPU-0","name":"x","index":0}`, 128) + `]}}`, new(assay.Manifest), nil},
	} {
		if err := decode([]byte(tt.json), tt.into); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	deep := `{"config":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	if err := decode([]byte(deep), new(assay.Manifest)); err == nil {
		t.Error("any depth is taken")
	}
	// What is decoded is what encoding/json makes of it.
	raw := `{"node":{"gpus":[` + many(`{"uuid":"GPU-0","name":"x","index":3}`, 200) + `]},"config":{"a":[1,2]}}`
	m, err := DecodeManifest([]byte(raw))
	var want assay.Manifest
	if err != nil || json.Unmarshal([]byte(raw), &want) != nil || len(m.Node.GPUs) != 200 || m.Node.GPUs[199] != want.Node.GPUs[199] || string(m.Config) != string(want.Config) {
		t.Errorf("%d GPUs, %s, %v", len(m.Node.GPUs), m.Config, err)
	}
}
