// Package api is what travels between agents, people and the server: types, a
// client and the server's interface, generated from docs/api/openapi.yaml. It
// holds nothing else. Change the document, then generate.
//
// Signed envelopes are opaque bytes here (io.Reader): an envelope has one
// spelling, and a type that is decoded and encoded again would break it.
package api

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.1 -config config.yaml ../../docs/api/openapi.yaml
