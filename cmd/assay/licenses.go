package main

import _ "embed"

// licenses is what `version --licenses` prints, compressed; tools/licenses
// gathers it.
//
//go:generate go run ../../tools/licenses .
//go:embed licenses.txt.gz
var licenses []byte
