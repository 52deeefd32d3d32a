// Package campaigns holds an example, for the command that prints it.
package campaigns

import _ "embed"

// Matrix is gpu-matrix.yaml.
//
//go:embed gpu-matrix.yaml
var Matrix []byte
