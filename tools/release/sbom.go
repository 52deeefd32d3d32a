package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// bom is a bill of materials in CycloneDX' format: what a program was made of, as
// the program itself says.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []bomHash  `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// materials lists the modules in a program.
func materials(c commit, name string, program []byte, t target) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("read what %s was made of: %w", name, err)
	}
	main := component{
		Type: "application", Name: name, Version: c.version,
		PURL:       goModule(info.Main.Path, c.version) + "#cmd/" + name,
		Hashes:     []bomHash{{"SHA-256", sum(program)}},
		Properties: []property{{"assay:target", t.String()}, {"assay:commit", c.hash}},
	}
	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.5.schema.json", Format: "CycloneDX", Spec: "1.5", Version: 1,
		Components: []component{{
			Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), PURL: goModule("std", strings.TrimPrefix(info.GoVersion, "go")),
		}},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, component{
			Type: "library", Name: m.Path, Version: m.Version, PURL: goModule(m.Path, m.Version),
			Properties: []property{{"go:sum", m.Sum}},
		})
	}
	main.Ref = main.PURL
	all := dependency{Ref: main.Ref, DependsOn: []string{}}
	for i := range b.Components {
		m := &b.Components[i]
		m.Ref = m.PURL
		all.DependsOn = append(all.DependsOn, m.Ref)
	}
	b.Metadata = bomMetadata{c.time.Format("2006-01-02T15:04:05Z"), main}
	b.Dependencies = []dependency{all}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(b)
	return out.Bytes(), err
}

// goModule is the package URL of a module.
func goModule(path, version string) string {
	return "pkg:golang/" + path + "@" + url.QueryEscape(version)
}
