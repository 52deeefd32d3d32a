package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	openapi "github.com/assay-bench/assay/docs/api"
)

// operation is one operation of docs/api/openapi.yaml, as far as a request is
// checked by it.
type operation struct {
	id      string
	pattern string // of the mux: "POST /api/v1/nodes/{node}/heartbeat"
	method  string
	path    string
	public  bool // nobody has to say who they are
	params  []parameter
	body    *bodyRule // nil: there is none
}

type parameter struct {
	name, in, kind string
	required       bool
	schema         *jsonschema.Schema
}

// bodyRule is what a request's body must be. Without a schema it is bytes, and the
// handler's to read.
type bodyRule struct {
	mediaType string
	schema    *jsonschema.Schema
}

// operations reads the document that the server answers by. A mistake in it is a
// mistake in the program.
func operations() ([]operation, error) {
	b, err := yaml.YAMLToJSON(openapi.Document)
	if err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	r := documentReader{doc: doc, compiler: jsonschema.NewCompiler()}
	r.compiler.AssertFormat()
	if err := r.compiler.AddResource(documentURL, doc); err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	ops, err := r.operations()
	if err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	return ops, nil
}

const documentURL = "urn:assay:openapi"

type documentReader struct {
	doc      any
	compiler *jsonschema.Compiler
}

func (r documentReader) operations() ([]operation, error) {
	var ops []operation
	paths, _ := member(r.doc, "paths").(map[string]any)
	for path, item := range paths {
		for _, method := range []string{"get", "put", "post", "delete"} {
			at := "/paths/" + pointer(path) + "/" + method
			raw := member(item, method)
			if raw == nil {
				continue
			}
			op, err := r.operation(path, strings.ToUpper(method), at, raw)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			shared, err := r.params("/paths/"+pointer(path)+"/parameters", member(item, "parameters"))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			op.params = append(op.params, shared...)
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b operation) int { return strings.Compare(a.pattern, b.pattern) })
	return ops, nil
}

func (r documentReader) operation(path, method, at string, raw any) (operation, error) {
	op := operation{method: method, path: path, pattern: method + " " + path}
	op.id, _ = member(raw, "operationId").(string)
	security, given := member(raw, "security").([]any)
	op.public = given && len(security) == 0
	var err error
	if op.params, err = r.params(at+"/parameters", member(raw, "parameters")); err != nil {
		return operation{}, err
	}
	content, _ := member(member(raw, "requestBody"), "content").(map[string]any)
	for media, c := range content {
		op.body = &bodyRule{mediaType: media}
		if media == "application/json" && member(c, "schema") != nil {
			if op.body.schema, err = r.compile(at + "/requestBody/content/" + pointer(media) + "/schema"); err != nil {
				return operation{}, err
			}
		}
	}
	return op, nil
}

func (r documentReader) params(at string, raw any) ([]parameter, error) {
	list, _ := raw.([]any)
	var out []parameter
	for i, p := range list {
		here := fmt.Sprintf("%s/%d", at, i)
		if ref, ok := member(p, "$ref").(string); ok {
			here = strings.TrimPrefix(ref, "#")
			p = r.find(here)
		}
		schema, err := r.compile(here + "/schema")
		if err != nil {
			return nil, err
		}
		one := parameter{schema: schema}
		one.name, _ = member(p, "name").(string)
		one.in, _ = member(p, "in").(string)
		one.required, _ = member(p, "required").(bool)
		s := member(p, "schema")
		if ref, ok := member(s, "$ref").(string); ok {
			s = r.find(strings.TrimPrefix(ref, "#"))
		}
		one.kind, _ = member(s, "type").(string)
		out = append(out, one)
	}
	return out, nil
}

func (r documentReader) compile(at string) (*jsonschema.Schema, error) {
	s, err := r.compiler.Compile(documentURL + "#" + at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return s, nil
}

// find follows a JSON pointer.
func (r documentReader) find(at string) any {
	v := r.doc
	for _, name := range strings.Split(strings.TrimPrefix(at, "/"), "/") {
		v = member(v, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return v
}

// member is an object's member, or nil.
func member(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

// pointer writes a name as part of a JSON pointer in a URL.
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
}
