package fingerprint

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What is written is what docs/formats/reference.md says.
func TestSchema(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("../../../docs/formats/schema/reference.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	ref := reference(t, &model{weights: 1, noise: 1e-3}, 16)
	valid := func() error {
		b, err := json.Marshal(ref)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	if err := valid(); err != nil {
		t.Error(err)
	}
	ref.Sources[0].Runs[0].LogProbs[0][0] = 1
	if valid() == nil {
		t.Error("the schema takes a probability above one")
	}
}
