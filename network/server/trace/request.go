package trace

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// describe names a span. A method that is not known is a caller's own word, and so
// is a path without a route.
func describe(method, pattern string) (name string, attributes []attribute.KeyValue) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "_OTHER"
	}
	name, attributes = method, []attribute.KeyValue{attribute.String("http.request.method", method)}
	if i := strings.Index(pattern, "/"); i >= 0 { // before it are a method and a host
		name += " " + pattern[i:]
		attributes = append(attributes, attribute.String("http.route", pattern[i:]))
	}
	return name, attributes
}

// status remembers what was answered. What else the writer can do is found by
// http.ResponseController through Unwrap.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *status) WriteHeader(code int) {
	if s.code == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) { // 1xx come before the answer
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}
