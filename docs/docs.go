// Package docs holds the pages of this directory, for the program that shows them
// without a network.
package docs

import "embed"

// Pages are the pages, with what they show and link to here.
//
//go:embed *.md *.png adr/*.md api/openapi.yaml formats/*.md formats/schema/*.json reference/*.md tutorials/*.md
var Pages embed.FS
