package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/internal/parttest"
)

// cycloneDX is the schema of version 1.5, from CycloneDX' own library.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir := parttest.Install(t, "cyclonedx-schema")
	c := jsonschema.NewCompiler()
	for name, file := range map[string]string{"bom-1.5": "bom-1.5.schema.json", "spdx": "spdx.schema.json", "jsf-0.82": "jsf-0.82.schemax.json"} {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+name+".schema.json", doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.5.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The bill of a program, here this test, is what CycloneDX' schema asks for, and
// names what is linked.
func TestBillOfMaterials(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	c := commit{hash: strings.Repeat("a", 40), version: "1.2.3-dev+abc", time: then}
	b, err := materials(c, "assay", program, target{"linux", "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range got.Components {
		names[m.Name] = true
		if m.Version == "" || m.Name != "std" && (len(m.Properties) != 1 || !strings.HasPrefix(m.Properties[0].Value, "h1:")) {
			t.Errorf("%+v", m)
		}
	}
	if !names["std"] || !names["golang.org/x/crypto"] || got.Metadata.Component.Hashes[0].Content != sum(program) {
		t.Errorf("%s", b)
	}
	if again, err := materials(c, "assay", program, target{"linux", "amd64"}); err != nil || !bytes.Equal(b, again) {
		t.Errorf("another bill the second time: %v", err)
	}
	schema := cycloneDX(t)
	valid := func(b []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	if err := valid(b); err != nil {
		t.Error(err)
	}
	if valid(bytes.Replace(b, []byte(`"type": "library"`), []byte(`"type": "book"`), 1)) == nil {
		t.Error("the schema takes anything")
	}
}
