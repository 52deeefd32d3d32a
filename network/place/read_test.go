package place

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../../docs/formats/schema/" + name + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t *testing.T, text string) any {
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

func readBoth(t *testing.T) (File, []Node) {
	t.Helper()
	f, err := ReadDemand(bytes.NewReader(ExampleDemand), "demand.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := ReadNodes(bytes.NewReader(ExampleNodes), "nodes.yaml", "USD")
	if err != nil {
		t.Fatal(err)
	}
	return f, nodes
}

func TestExamples(t *testing.T) {
	f, nodes := readBoth(t)
	if f.Request.Horizon != 24*time.Hour || !f.Request.Estimates || len(f.Request.Demands) != 2 || f.Request.Demands[0].TPOT != 50 || f.Request.Demands[1].Unit != Tokens {
		t.Errorf("%+v", f.Request)
	}
	got, err := Place(f.Priced(nodes), f.Request)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cost.String() != "11.70 USD" || !got.Optimal || given(got) != "llama-3.1-8b:h100-a llama-3.1-8b:h100-c+ qwen2.5-32b:h100-b" {
		t.Errorf("%s %s", got.Cost, given(got))
	}
}

// The schemas take the examples and answers, and refuse what the reader refuses.
func TestFilesKeepTheirSchemas(t *testing.T) {
	demands, nodes, answers := schema(t, "demand"), schema(t, "nodes"), schema(t, "placement")
	if err := demands.Validate(document(t, string(ExampleDemand))); err != nil {
		t.Error(err)
	}
	if err := nodes.Validate(document(t, string(ExampleNodes))); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]string{
		{"demand/v1", "demand/v2"}, {"currency: USD", "currency: dollars"}, {"currency: USD", "currency: USD\nhorizon: soon"},
		{"currency: USD", "currency: USD\nestimates: maybe"}, {"per_hour: 0.70", "per_hour: -1"}, {"gpu: NVIDIA L4, ", ""},
		{"gpu: NVIDIA L4, ", "gpu: NVIDIA L4, node: x, "},
		{"requests_per_second: 12", "requests_per_second: 0"}, {"requests_per_second: 12", "requests_per_second: 12\n    tokens_per_second: 3"},
		{"    tokens_per_second: 1500\n", ""}, {"redundancy: 1", "redundancy: 9"}, {"ttft_p99: 1s", "ttft_p99: -1s"}, {"memory_gib: 70", "memory: 70"},
	} {
		text := strings.Replace(string(ExampleDemand), c[0], c[1], 1)
		if text == string(ExampleDemand) || demands.Validate(document(t, text)) == nil {
			t.Errorf("the schema takes %q", c[1])
		}
		if _, err := ReadDemand(strings.NewReader(text), "d.yaml"); err == nil {
			t.Errorf("ReadDemand takes %q", c[1])
		}
	}
	for _, c := range [][2]string{
		{"nodes/v1", "nodes/v2"}, {"id: l4-b, ", ""}, {"state: quarantined", "state: ill"}, {"requests_per_second: 2,", "requests_per_second: -2,"},
		{"requests_per_second: 2, ", ""}, {"gpu: NVIDIA L4, memory_gib: 24}", "gpu: NVIDIA L4, gpus: 65}"}, {"id: l4-b", "id: l4-b, cost_per_hour: 0.1234567891"}, {"id: l4-b", "id: l4-b, rate: 3"},
	} {
		text := strings.Replace(string(ExampleNodes), c[0], c[1], 1)
		if text == string(ExampleNodes) || nodes.Validate(document(t, text)) == nil && !strings.Contains(c[1], "cost_per_hour") {
			t.Errorf("the schema takes %q", c[1])
		}
		if _, err := ReadNodes(strings.NewReader(text), "n.yaml", "USD"); err == nil {
			t.Errorf("ReadNodes takes %q", c[1])
		}
	}
	f, list := readBoth(t)
	for _, n := range [][]Node{nil, f.Priced(list)[:4], f.Priced(list)} {
		got, err := Place(n, f.Request)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := answers.Validate(v); err != nil {
			t.Errorf("%s\n%v", b, err)
		}
	}
}

func TestFaultsHaveTheirPlace(t *testing.T) {
	text := strings.Replace(string(ExampleDemand), "redundancy: 1", "redundancy: 9", 1)
	if _, err := ReadDemand(strings.NewReader(text), "d.yaml"); err == nil || !strings.Contains(err.Error(), "d.yaml:8:") || !strings.Contains(err.Error(), "redundancy is from 0 to 8") {
		t.Errorf("%v", err)
	}
	twice := strings.Replace(string(ExampleDemand), "model: qwen2.5-32b", "model: llama-3.1-8b", 1)
	if _, err := ReadDemand(strings.NewReader(twice), "d.yaml"); err == nil || !strings.Contains(err.Error(), "names of their own") {
		t.Errorf("%v", err)
	}
	if _, err := ReadDemand(strings.NewReader(strings.Repeat("# long\n", maxDemandBytes/7+2)), "d.yaml"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("long: %v", err)
	}
	many := "format: assay/nodes/v1\nnodes:\n" + strings.Repeat("  - {id: a}\n", maxNodes+1)
	if _, err := ReadNodes(strings.NewReader(many), "n.yaml", "USD"); err == nil || !strings.Contains(err.Error(), "more than 10000") {
		t.Errorf("many: %v", err)
	}
	for name, text := range map[string]string{
		"nothing": "", "a word": "x", "deep": strings.Repeat("[", 100_000),
		"infinite":  strings.Replace(string(ExampleDemand), "requests_per_second: 12", "requests_per_second: .inf", 1),
		"no number": strings.Replace(string(ExampleDemand), "requests_per_second: 12", "requests_per_second: .nan", 1),
	} {
		if _, err := ReadDemand(strings.NewReader(text), "d.yaml"); err == nil {
			t.Errorf("%s is taken for a demand", name)
		}
		if _, err := ReadNodes(strings.NewReader(text), "d.yaml", "USD"); err == nil {
			t.Errorf("%s is taken for nodes", name)
		}
	}
}

func TestCostsOfNodes(t *testing.T) {
	f, _ := readBoth(t)
	f.costs = append(f.costs, Cost{Node: "special", PerHour: "0.1"})
	nodes := f.Priced([]Node{{ID: "special", GPU: "NVIDIA L4", GPUs: 1}, {ID: "b", GPU: "NVIDIA L4", GPUs: 8}, {ID: "c", GPU: "other", GPUs: 1}, {ID: "d", GPUs: 1}})
	var got []string
	for _, n := range nodes {
		got = append(got, fmt.Sprint(n.Cost))
	}
	if want := "0.10 USD 5.60 USD <nil> <nil>"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
