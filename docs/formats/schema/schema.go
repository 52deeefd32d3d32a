// Package schema holds the JSON Schemas that the program itself checks files by: what
// comes from somebody else's machine is refused where it is written down what it may
// be.
package schema

import _ "embed"

// BenchmarkImport is that of the files that the benchmark script leaves
// (docs/formats/benchmark-checkpoint.md).
//
//go:embed benchmark-import.schema.json
var BenchmarkImport []byte
