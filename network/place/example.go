package place

import _ "embed" // two files to begin with

// ExampleDemand is a demand to begin with.
//
//go:embed example-demand.yaml
var ExampleDemand []byte

// ExampleNodes are nodes to try it on.
//
//go:embed example-nodes.yaml
var ExampleNodes []byte
