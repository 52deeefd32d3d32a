package campaign

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func schemaOf(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "formats", "schema", name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func documentOf(t *testing.T, text string) any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func exampleText(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../examples/campaigns/gpu-matrix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func read(t *testing.T, text string) Matrix {
	t.Helper()
	m, err := ReadMatrix(strings.NewReader(text), "m.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestExampleIsRead(t *testing.T) {
	m := read(t, exampleText(t))
	if m.Name != "gpu-matrix" || m.Currency != "USD" || m.Budget.Campaign.String() != "60.00 USD" || m.Budget.Cell.String() != "6.00 USD" || m.Budget.Day != nil {
		t.Errorf("%+v", m)
	}
	if m.Engine.Context != 4096 || m.Engine.Parallel != 1 || m.Engine.Cache != "f16" || m.Engine.Duration != 5*time.Minute || m.Engine.Attempts != 3 {
		t.Errorf("%+v", m.Engine)
	}
	if err := schemaOf(t, "matrix").Validate(documentOf(t, exampleText(t))); err != nil {
		t.Error(err)
	}
}

const small = `format: assay/matrix/v1
budget: {campaign: 5}
cells:
  - gpus: [RTX 3090]
    providers: [vast]
    models: [mine]
    engines: [ollama]
models:
  - {name: mine, parameters: 7.6e9, quantization: Q4_K_M, layers: 28, kv_heads: 4, head_dim: 128, hidden: 3584, vocab: 152064}
`

// Each fault is told at its place, by the reader and, where a schema can, by it.
func TestFaultsOfAMatrix(t *testing.T) {
	read(t, small)
	schema := schemaOf(t, "matrix")
	if err := schema.Validate(documentOf(t, small)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		old, now, want string
		onlyReader     bool
	}{
		{"matrix/v1", "matrix/v2", "m.yaml:1:9: format: it must be assay/matrix/v1\n    format: assay/matrix/v2\n            ^", false},
		{"campaign: 5", "campaign: -5", "m.yaml:2:20: budget.campaign: ", false},
		{"campaign: 5", "campaign: 0", "an amount above 0 is needed", true},
		{"campaign: 5", "campaign: 5.0000000001", "nine decimals", true},
		{"campaign: 5", "sum: 5", "unknown field", false},
		{"[RTX 3090]", "[]", "m.yaml:4:11: cells[0].gpus: write a list", false},
		{"[RTX 3090]", `["a\u001bb"]`, "m.yaml:4:12: cells[0].gpus[0]: a name has", true},
		{"[vast]", "[Vast.ai]", "m.yaml:5:17: cells[0].providers[0]: a provider's name has small letters", false},
		{"[ollama]", "[olama]", "m.yaml:7:15: cells[0].engines[0]: engine \"olama\" is not known; known are ollama, vllm", false},
		{"Q4_K_M", "Q4_K_X", "m.yaml:9:51: models[0].quantization: quantization \"Q4_K_X\" is not known; known are Q2_K", false},
		{"layers: 28", "layers: 0", "models[0].layers: write a whole number from 1", false},
		{"parameters: 7.6e9", "parameters: 7.6", "write how many parameters it has", false},
		{"vocab: 152064", "vocab: 9000000", "more than its parameters", true},
		{"cells:", "context: 0\ncells:", "context: write a number from 1 to", false},
		{"cells:", "attempts: 21\ncells:", "attempts: write a number from 1 to 20", false},
		{"cells:", "duration: 0.5s\ncells:", "duration: write a time from 1s to 24h", true},
		{"cells:", "kv_cache: f64\ncells:", "kv_cache: known are f16", false},
		{"cells:", "limits: {provision: -1s}\ncells:", "limits.provision: write a time", false},
		{"cells:", "currency: dollars\ncells:", "currency: write three capital letters", false},
		{"cells:", "cells:\n  - {gpus: [RTX 3090], providers: [vast], models: [mine]}", "m.yaml:5:5: cells[1]: cells[0] has RTX 3090/vast/mine/ollama already", true},
		{"gpus: [RTX 3090]", "gpu_count: 17\n    gpus: [RTX 3090]", "gpu_count: write a number from 1 to 16", false},
	} {
		text := strings.Replace(small, c.old, c.now, 1)
		_, err := ReadMatrix(strings.NewReader(text), "m.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.now, err, c.want)
		}
		if !c.onlyReader && schema.Validate(documentOf(t, text)) == nil {
			t.Errorf("%s: the schema takes it", c.now)
		}
	}
}

func TestAMatrixIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"long":  small + "#" + strings.Repeat("x", maxMatrixBytes),
		"cells": strings.Replace(small, "[RTX 3090]", "["+strings.Repeat("a, ", 999)+"b]", 1) + strings.Repeat("#", 10),
		"deep":  "format: " + strings.Repeat("[", 1000),
		"empty": "",
	} {
		if _, err := ReadMatrix(strings.NewReader(text), "m.yaml"); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, "m"+strings.Repeat("x", i%50)+string(rune('a'+i%26)))
	}
	text := strings.Replace(small, "[mine]", "["+strings.Join(many, ", ")+"]", 1)
	text = strings.Replace(text, "[RTX 3090]", "[a, b, c, d, e, f, g, h, i, j, k]", 1)
	if _, err := ReadMatrix(strings.NewReader(text), "m.yaml"); err == nil || !strings.Contains(err.Error(), "it expands to 11000 cells; 10000 are the most") {
		t.Errorf("%v", err)
	}
}
