package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/internal/foreign"
)

// formed checks parameters and body by the document: what it does not allow
// reaches no handler.
func (s *Server) formed(r *http.Request, op operation) (*http.Request, error) {
	query := r.URL.Query()
	if err := known(query, op.params); err != nil {
		return r, err
	}
	for _, p := range op.params {
		var given []string
		if p.in == "path" {
			given = []string{r.PathValue(p.name)}
		} else {
			given = query[p.name]
		}
		if err := p.check(given); err != nil {
			return r, refuse(http.StatusBadRequest, "parameter %s: %s", p.name, err)
		}
	}
	if op.body == nil {
		r.Body = http.NoBody
		return r, nil
	}
	if err := op.body.check(r); err != nil {
		return r, err
	}
	return r, nil
}

// known refuses a parameter of the query that the operation does not have: a
// misspelt filter that is passed over would give a router all nodes.
func known(query url.Values, params []parameter) error {
	var names []string
	for _, p := range params {
		if p.in == "query" {
			names = append(names, p.name)
		}
	}
	for name := range query {
		if !slices.Contains(names, name) {
			hint := "there are none"
			if len(names) > 0 {
				hint = "there are " + strings.Join(names, ", ")
			}
			return refuse(http.StatusBadRequest, "parameter %s is not known here: %s", foreign.Line(name, 50), hint)
		}
	}
	return nil
}

// check says whether a parameter's values are one that is allowed.
func (p parameter) check(given []string) error {
	if len(given) == 0 {
		if p.required {
			return errors.New("it is missing")
		}
		return nil
	}
	if len(given) > 1 {
		return fmt.Errorf("it is given %d times", len(given))
	}
	var v any = given[0]
	switch p.kind {
	case "integer":
		v = json.Number(given[0])
		if given[0] == "" || strings.Trim(strings.TrimPrefix(given[0], "-"), "0123456789") != "" || len(given[0]) > 18 {
			return errors.New("it is no whole number")
		}
	case "number":
		v = json.Number(given[0])
		if _, err := strconv.ParseFloat(given[0], 64); err != nil || strings.Trim(given[0], "-.0123456789") != "" || len(given[0]) > 18 {
			return errors.New("it is no number")
		}
	case "boolean":
		if given[0] != "true" && given[0] != "false" {
			return errors.New("it is neither true nor false")
		}
		v = given[0] == "true"
	default:
		if !foreign.Plain(given[0]) {
			return errors.New("it has characters that cannot be printed")
		}
	}
	return fault(p.schema.Validate(v))
}

// check says whether a body is what the document asks for. One that is JSON is
// read whole, and can be read again.
func (b bodyRule) check(r *http.Request) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != b.mediaType {
		return refuse(http.StatusUnsupportedMediaType, "the body must have the type %s", b.mediaType)
	}
	if b.schema == nil {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		if refusalOf(err) != nil {
			return err
		}
		return refuse(http.StatusBadRequest, "the body could not be read to its end")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return refuse(http.StatusBadRequest, "the body is not JSON: %s", err)
	}
	if why := unfit(v); why != "" {
		return refuse(http.StatusBadRequest, "the body has %s", why)
	}
	if err := fault(b.schema.Validate(v)); err != nil {
		return refuse(http.StatusBadRequest, "the body: %s", err)
	}
	requestOf(r.Context()).body = raw
	r.Body = io.NopCloser(bytes.NewReader(raw))
	return nil
}

// unfit says what a document has that nobody means: a NUL, which PostgreSQL does
// not store, or a number whose few letters stand for megabytes. A schema compares
// numbers exactly: 1e999999 takes long, and what is larger it cannot read at all.
func unfit(v any) string {
	switch v := v.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return "a NUL character, which no text has"
		}
	case json.Number:
		if _, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e"); len(v) > 64 || len(strings.TrimLeft(exponent, "+-0")) > 3 {
			return "a number that is no measurement of anything"
		}
	case []any:
		for _, one := range v {
			if why := unfit(one); why != "" {
				return why
			}
		}
	case map[string]any:
		for name, of := range v {
			if why := unfit(name) + unfit(of); why != "" {
				return why
			}
		}
	}
	return ""
}

// fault says in a line what a schema found: where, and what.
func fault(err error) error {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err
	}
	for len(v.Causes) > 0 {
		v = v.Causes[0]
	}
	return errors.New(v.Error())
}
