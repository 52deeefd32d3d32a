// Package openapi holds the document of the server's API, for the server that answers
// by it and for tests: what it does not allow is refused before a handler sees it.
package openapi

import _ "embed"

// Document is openapi.yaml.
//
//go:embed openapi.yaml
var Document []byte
